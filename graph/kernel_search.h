// Finds which of several kernels of a node is fastest on this machine. Times are measured once for each row, kind of
// node, layouts and thread count, remembered in a file and measured again only when asked to, so a choice made stays
// made: results are the same from run to run, and a program compiles without measuring once its kinds of nodes are
// known.
//
// The file has a line a time, "MS<tab>KEY" ("inf": never to be waited for); of several lines with one key the first
// counts. "-<tab>KEY" takes back what stands before it, for who renews times while others read the file. "MS
// loaded<tab>KEY" was timed under load (threads of this process waited for a CPU that others had, or a row's two best
// runs lay far apart): it counts until a later process has timed the key on an idle machine. Older programs leave such
// lines alone.
//
// Times differ from machine to machine and from hour to hour, and with them the kernels and the last bits of results.
// Where those must be the same, a rule gives the milliseconds instead (layers/kernels/cpu/kernel_rule.h): then nothing
// is timed, and the file is neither read nor written.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/kernel.h"

namespace moka {

class KernelSearch {
 public:
  enum class Unknown : uint8_t { kMeasure, kLeave, kRenew };
  // Milliseconds that a row may take on a query which it accepts, from nothing but the two.
  using Rule = std::function<double(const KernelDef& row, const KernelQuery& query)>;

  // Reads what the file holds; lines it cannot read are left alone. An empty path: remembered in memory only. kLeave:
  // nothing is measured, rows nobody timed before count as slow. kRenew: what the file holds is measured again, once.
  // `first`: lines that count before the file's, what Used() gave an earlier process.
  explicit KernelSearch(std::filesystem::path file = {}, Unknown unknown = Unknown::kMeasure,
                        std::string_view first = {});

  // Chooses by a rule; `first` as above.
  explicit KernelSearch(Rule rule, std::string_view first = {});

  // A search in memory that chooses as this one does, after the lines of `first`: for another rank's programs.
  std::shared_ptr<KernelSearch> After(std::string_view first) const;

  // Takes all its times as those of an idle machine.
  void IgnoreLoad() { ignores_load_ = true; }

  // Milliseconds of each row on the query, infinity if left unknown; new ones are measured in turns and appended to the
  // file. If another process was faster to write one, its figure counts for both. A file that cannot be written is said
  // once, as a warning. Requires: every row accepts the query. `pulse` is called between runs and may throw.
  std::vector<double> Milliseconds(std::span<const KernelDef* const> rows, const KernelQuery& query,
                                   const std::function<void()>& pulse = {});
  // Index of the row to take: the fastest, but an earlier one where the gain is too small to be told from noise.
  static size_t Best(std::span<const double> milliseconds);

  int measured() const { return measured_; }
  bool has_rule() const { return rule_ != nullptr; }
  // Lines of `first` and of every time that was asked for, sorted by key, "inf" for those left unknown: with them as
  // `first`, another process chooses as this one did, whatever became of the file.
  std::string Used() const;

 private:
  struct Time {
    double ms = 0;
    bool is_loaded = false;  // timed under load
  };
  using Times = std::map<std::string, Time, std::less<>>;

  // Takes one line into the times; false where it is none.
  static bool Take(std::string_view line, Times& times);
  std::string NewText();
  // Keeps the first of two times of one key, unless it was taken under load and the other was not.
  static void Keep(std::string_view key, const Time& time, Times& times);
  void Read();
  void Append(const std::string& lines);
  // Whether a row is to be timed: nobody has yet, or only under load.
  bool IsWanted(const std::string& key) const;
  void MeasureRows(std::span<const KernelDef* const> rows, const KernelQuery& query,
                   const std::vector<std::string>& keys, const std::function<void()>& pulse);

  Rule rule_;
  std::filesystem::path file_;
  Unknown unknown_;
  Times known_;
  Times used_;
  int64_t read_bytes_ = 0;  // of the file
  int measured_ = 0;
  bool ignores_load_ = false;
  bool is_busy_ = false;  // this process has timed under load: what was timed so is not taken again by it
};

}  // namespace moka
