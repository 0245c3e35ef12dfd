// Online hard example mining over regions (Shrivastava, Gupta, Girshick 2016, its roi_data_layer's get_ohem_minibatch):
// the regions of one image and one label suppress each other by falling loss, then the `rows` largest losses of all
// that are left are taken, largest first. Fewer are repeated from the first on, so that every row is an example.
// Regions with a negative image index are padding and never taken; without any other all rows are -1.
#include <algorithm>
#include <map>
#include <utility>

#include "graph/op.h"
#include "layers/ops/boxes.h"
#include "layers/forks/rcnn/ops/rois.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

std::vector<TensorType> InferHardRegions(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("hard_regions", in, 3, 3);
  CheckRois("hard_regions", in[0]);
  const Shape each{in[0].shape[0]};
  CheckShape("hard_regions", "labels", in[1].shape, each, "one a region");
  CheckShape("hard_regions", "loss", in[2].shape, each, "one a region");
  const int64_t rows = attributes.Int("rows");
  if (rows < 1) throw Error(ErrorKind::kConfig, StrCat("hard_regions: rows must be at least 1, found ", rows));
  return {PlainType(DType::kInt32, Shape{rows})};
}

void HardRegionsReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const auto box = [&](int64_t r) {
    const double* row = in[0].values.data() + r * 5;
    return Box<double>{row[1], row[2], row[3], row[4]};
  };
  const double threshold = attributes.Float("nms_threshold");
  std::map<std::pair<double, double>, std::vector<int64_t>> kept;  // by image and label
  std::vector<int64_t> taken;
  for (const int64_t r : FallingOrder<double>(in[2].values, -1)) {
    const auto i = static_cast<size_t>(r);
    const double image = in[0].values[i * 5];
    if (!(image >= 0)) continue;
    std::vector<int64_t>& harder = kept[{image, in[1].values[i]}];
    const bool is_suppressed =
        std::ranges::any_of(harder, [&](int64_t other) { return Overlap(box(other), box(r), kPixelSide) > threshold; });
    if (is_suppressed) continue;
    harder.push_back(r);
    taken.push_back(r);
    if (static_cast<int64_t>(taken.size()) == attributes.Int("rows")) break;
  }
  std::ranges::fill(out[0].values, -1.0);
  if (taken.empty()) return;
  for (size_t m = 0; m < out[0].values.size(); ++m) {
    out[0].values[m] = static_cast<double>(taken[m % taken.size()]);
  }
}

std::vector<OpCase> HardRegionsCases() {
  const auto one = [](const char* name, int64_t regions, int64_t rows, double threshold) {
    return OpCase{.name = name,
                  .inputs = {Float32({regions, 5}), Float32({regions}), Float32({regions})},
                  .attributes = {{"rows", rows}, {"nms_threshold", threshold}},
                  .low = 0,
                  .high = 3,
                  .ranges = {{0, -1, 12}, {1, 0, 2}}};
  };
  return {one("some", 30, 10, 0.3), one("too_few", 4, 9, 0.7), one("no_suppression", 12, 12, 1)};
}

}  // namespace

OpDef HardRegionsOp() {
  return {.name = "hard_regions",
          .doc =
              "(rois [R,5], labels [R], loss [R]) -> index [rows]: the regions of largest loss after suppression "
              "within each image and label, repeated if there are fewer.",
          .attributes = {{"rows", int64_t{128}, "regions taken"},
                         {"nms_threshold", 0.7, "overlap above which the lower loss goes"}},
          .infer = InferHardRegions,
          .reference = HardRegionsReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kSuppresses,
          .cases = HardRegionsCases};
}

}  // namespace moka
