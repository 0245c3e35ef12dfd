// Splits the rows of ground truth by image and runs one matcher over all images, whose buffers are kept from batch to
// batch.
#include "layers/forks/ssd/ops/multibox_batch.h"

#include <algorithm>
#include <utility>

#include "core/text.h"

namespace moka {

MultiboxBatch::MultiboxBatch(const MultiboxSettings& settings, std::span<const Shape> shapes)
    : s_(settings),
      items_(shapes[0][0]),
      priors_(shapes[2].Count() / 8),
      rows_(shapes[3].Count() / settings.truth_width()) {
  boxes_.reserve(static_cast<size_t>(priors_));
  variances_.reserve(static_cast<size_t>(priors_));
  truth_.reserve(static_cast<size_t>(rows_));
  first_.reserve(static_cast<size_t>(items_) + 1);
  inputs_.reserve(shapes.size());
}

bool MultiboxBatch::AcceptLabel(int64_t& label) const {
  if (s_.classes == 2 && label >= 2) label = 1;
  if (label < 0 || label == s_.background) return false;
  return s_.agnostic || label < s_.classes;
}

void MultiboxBatch::Read(std::span<const Reals> inputs) {
  inputs_.assign(inputs.begin(), inputs.end());
  ReadPriors(inputs[2], priors_, boxes_, variances_);
  truth_.clear();
  bad_row_ = -1;
  for (int64_t row = 0; row < rows_; ++row) {
    TruthRow truth = ReadTruth(inputs[3], row, s_.truth_width());
    if (truth.image < 0 || truth.image >= items_) continue;
    if (!AcceptLabel(truth.label)) {
      if (bad_row_ < 0) bad_label_ = inputs[3][row * s_.truth_width() + 1];
      if (bad_row_ < 0) bad_row_ = row;
      continue;
    }
    if (truth.difficult && !s_.use_difficult) continue;
    truth_.push_back(truth);
  }
  std::ranges::sort(truth_, {}, [](const TruthRow& t) { return std::pair(t.image, t.row); });
  first_.clear();
  size_t k = 0;
  for (int64_t i = 0; i <= items_; ++i) {
    while (k < truth_.size() && truth_[k].image < i) ++k;
    first_.push_back(k);
  }
}

int64_t MultiboxBatch::Match(MultiboxMatcher& matcher, int64_t i, const MultiboxTargets& targets) const {
  const int64_t loc = priors_ * s_.location_classes() * s_.location_numbers();
  const int64_t conf = priors_ * s_.classes;
  const auto input = [&](size_t n, int64_t per_image) {
    return n < inputs_.size() ? inputs_[n].From(i * per_image) : Reals();
  };
  const auto at = static_cast<size_t>(i);
  const std::span<const TruthRow> truth(truth_);
  return matcher.Match({.loc = input(0, loc),
                        .conf = input(1, conf),
                        .arm_conf = input(4, priors_ * 2),
                        .arm_loc = input(5, priors_ * 4),
                        .truth = inputs_[3]},
                       boxes_, variances_, truth.subspan(first_[at], first_[at + 1] - first_[at]),
                       {targets.loc.From(i * loc), targets.loc_weight.From(i * loc),
                        targets.conf.From(i * (s_.softmax ? priors_ : conf))});
}

std::string MultiboxBatch::TakeFault() {
  const int64_t row = std::exchange(bad_row_, -1);
  if (row < 0) return {};
  return StrCat("the label ", bad_label_, " of ground truth row ", row, " is not a class from 0 to ", s_.classes - 1,
                " other than the background ", s_.background);
}

}  // namespace moka
