// The samples that a net is most wrong about, with small pictures of them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "data/image/image.h"
#include "tools/report/report_content.h"

namespace moka {

// One thread. Holds so many mistakes at most, and their pictures as files.
class WorstMistakes {
 public:
  explicit WorstMistakes(size_t most) : most_(most) {}

  // Takes a sample if it is wrong and among the worst by its loss, of equal ones the earliest. The picture is asked for
  // only then; an empty one is none.
  void Add(const ScoredSample& sample, const std::function<Image()>& picture);

  int64_t in_all() const { return in_all_; }
  // The worst first; pictures as long as they are not more than so many bytes together.
  std::vector<ReportMistake> Take(int64_t picture_bytes);

 private:
  size_t most_;
  int64_t in_all_ = 0;
  std::vector<ReportMistake> heap_;  // the least of them first
};

}  // namespace moka
