// BboxAccuracy (MS-CNN, Cascade R-CNN): the mean overlap of foreground regions with their objects, once moved by the
// offsets of their class and as they were; -1 without any. Objects' rows are (class, x1, y1, x2, y2, overlap); a region
// that overlaps by more than 0.975 is the object's own box and does not count.
#include "graph/op.h"
#include "layers/forks/cascade/ops/geometry.h"
#include "layers/ops/cases.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

constexpr std::string_view kRegionAccuracyOp = "region_accuracy";
constexpr double kOwnBox = 0.975;

std::vector<TensorType> InferRegionAccuracy(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount(kRegionAccuracyOp, in, 3, 3);
  CheckOffsets(kRegionAccuracyOp, attributes);
  const int64_t columns = CheckRows(kRegionAccuracyOp, "offsets", in[0], 8, INT32_MAX);
  CheckRows(kRegionAccuracyOp, "rois", in[1], 5, 5);
  CheckRows(kRegionAccuracyOp, "objects", in[2], 6, 6);
  const int64_t rows = in[0].shape[0];
  if (columns % 4 != 0 || in[1].shape[0] != rows || in[2].shape[0] != rows) {
    throw Error(ErrorKind::kConfig,
                StrCat(kRegionAccuracyOp, ": offsets must be [R,4*classes], rois [R,5] and objects [R,6], found ",
                       in[0].shape.ToString(), ", ", in[1].shape.ToString(), " and ", in[2].shape.ToString()));
  }
  return {PlainType(DType::kFloat32, Shape{1}), PlainType(DType::kFloat32, Shape{1})};
}

void RegionAccuracyReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Doubles& means = attributes.Get<Doubles>("means");
  const Doubles& stds = attributes.Get<Doubles>("stds");
  const int64_t rows = in[0].type.shape[0];
  const int64_t columns = in[0].type.shape.Count() / rows;
  double moved = 0;
  double before = 0;
  double count = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const double* object = in[2].values.data() + r * 6;
    if (!(object[0] >= 1) || object[5] > kOwnBox) continue;
    const double last_class = attributes.Bool("class_aware") ? static_cast<double>(columns / 4 - 1) : 1;
    const auto label = static_cast<int64_t>(std::min(object[0], last_class));
    const Box<double> truth = BoxAt(object + 1);
    const Box<double> region = BoxAt(in[1].values.data() + r * 5 + 1);
    std::array<double, 4> offsets{};
    for (size_t k = 0; k < 4; ++k) {
      offsets[k] = in[0].values[static_cast<size_t>(r * columns + label * 4) + k] * stds[k] + means[k];
    }
    moved += OverlapBy(OverlapMode::kUnion, MovedRegion(region, offsets), truth, kPixelSide);
    before += OverlapBy(OverlapMode::kUnion, region, truth, kPixelSide);
    count += 1;
  }
  out[0].values[0] = count > 0 ? moved / count : -1;
  out[1].values[0] = count > 0 ? before / count : -1;
}

std::vector<OpCase> RegionAccuracyCases() {
  const auto one = [](const char* name, bool is_aware) {
    return OpCase{.name = name,
                  .inputs = {Float32({9, 12}), Float32({9, 5}), Float32({9, 6})},
                  .attributes = {{"class_aware", is_aware}},
                  .ranges = {{1, 0, 9}, {2, 0, 2}}};
  };
  return {one("aware", true), one("agnostic", false)};
}

}  // namespace

OpDef RegionAccuracyOp() {
  std::vector<AttributeSpec> specs = {{"class_aware", true, "whether each class has its offsets"}};
  for (AttributeSpec& spec : OffsetAttributes()) specs.push_back(std::move(spec));
  return {.name = "region_accuracy",
          .doc =
              "(offsets [R,4*classes], rois [R,5], objects [R,6]) -> the mean overlap of foreground regions with their "
              "objects after the offsets [1] and before [1]; -1: none.",
          .attributes = std::move(specs),
          .infer = InferRegionAccuracy,
          .reference = RegionAccuracyReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kEvaluates,
          .cases = RegionAccuracyCases};
}

}  // namespace moka
