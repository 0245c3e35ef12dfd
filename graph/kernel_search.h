// Which of several kernels of a node is fastest on this machine. Times are measured once for each row, kind of node,
// layouts and thread count, remembered in a file and never measured again, so a choice made stays made: results are
// the same from run to run, and a program compiles without measuring once its kinds of nodes are known.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "graph/kernel.h"

namespace moka {

class KernelSearch {
 public:
  enum class Unknown : uint8_t { kMeasure, kLeave };

  // Reads what the file holds; lines it cannot read are left alone. An empty path: remembered in memory only. kLeave:
  // nothing is measured, rows nobody timed before count as slow.
  explicit KernelSearch(std::filesystem::path file = {}, Unknown unknown = Unknown::kMeasure);

  // Milliseconds of each row on the query, infinity if left unknown; new ones are measured in turns and appended to the
  // file. If another process was faster to write one, its figure counts for both. A file that cannot be written is said
  // once, as a warning. Requires: every row accepts the query. `pulse` is called between runs and may throw.
  std::vector<double> Milliseconds(std::span<const KernelDef* const> rows, const KernelQuery& query,
                                   const std::function<void()>& pulse = {});
  // Index of the row to take: the fastest, but an earlier one where the gain is too small to be told from noise.
  static size_t Best(std::span<const double> milliseconds);

  int measured() const { return measured_; }

 private:
  void Read();
  void Append(const std::string& lines);

  std::filesystem::path file_;
  Unknown unknown_;
  std::map<std::string, double, std::less<>> known_;
  int64_t read_bytes_ = 0;  // of the file
  int measured_ = 0;
};

}  // namespace moka
