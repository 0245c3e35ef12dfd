// The next stage's regions (Cai & Vasconcelos, Cascade R-CNN, 2018): each region moved by the offsets of class 1. With
// `drop` (training) regions that came out empty, and with a third input those whose overlap with their object (its last
// column) is gt_overlap or more, go. Then, or if there are to be fewer rows than there were, the others close up;
// otherwise every row keeps its place.
#include "graph/op.h"
#include "layers/forks/cascade/ops/geometry.h"
#include "layers/ops/cases.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

constexpr std::string_view kDecodeRegionsOp = "decode_regions";

std::vector<TensorType> InferDecodeRegions(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount(kDecodeRegionsOp, in, 2, 3);
  CheckOffsets(kDecodeRegionsOp, attributes);
  CheckRows(kDecodeRegionsOp, "offsets", in[0], 8, 8);
  CheckRows(kDecodeRegionsOp, "rois", in[1], 5, 5);
  if (in.size() > 2) CheckRows(kDecodeRegionsOp, "objects", in[2], 6, 6);
  const int64_t rows = in[1].shape[0];
  for (const TensorType& type : in) {
    if (type.shape[0] == rows) continue;
    throw Error(ErrorKind::kConfig,
                StrCat(kDecodeRegionsOp, ": offsets, rois and objects must have one row each for a region, found ",
                       in[0].shape.ToString(), " and ", in[1].shape.ToString(),
                       in.size() > 2 ? StrCat(" and ", in[2].shape.ToString()) : ""));
  }
  const int64_t most = attributes.Int("rows");
  return {PlainType(DType::kFloat32, Shape{most > 0 ? std::min(most, rows) : rows, 5})};
}

void DecodeRegionsReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Doubles& means = attributes.Get<Doubles>("means");
  const Doubles& stds = attributes.Get<Doubles>("stds");
  const bool drops = attributes.Bool("drop");
  std::ranges::fill(out[0].values, kPaddingRow);
  const int64_t rows = out[0].type.shape[0];
  const bool closes_up = drops || rows < in[1].type.shape[0];
  int64_t next = 0;
  for (int64_t r = 0; r < in[1].type.shape[0]; ++r) {
    const double* region = in[1].values.data() + r * 5;
    if (!(region[0] >= 0)) continue;
    std::array<double, 4> offsets{};
    for (size_t k = 0; k < 4; ++k) offsets[k] = in[0].values[static_cast<size_t>(r * 8 + 4) + k] * stds[k] + means[k];
    const Box<double> box = MovedRegion(BoxAt(region + 1), offsets);
    const bool is_found =
        in.size() > 2 && in[2].values[static_cast<size_t>(r * 6 + 5)] >= attributes.Float("gt_overlap");
    if (drops && (box[0] > box[2] || box[1] > box[3] || is_found)) continue;
    if (closes_up && next == rows) return;
    double* row = out[0].values.data() + (closes_up ? next++ : r) * 5;
    row[0] = region[0];
    std::ranges::copy(box, row + 1);
  }
}

std::vector<OpCase> DecodeRegionsCases() {
  const auto one = [](const char* name, Attributes attributes, std::vector<TensorType> inputs) {
    attributes.Set("stds", Doubles{0.1, 0.1, 0.2, 0.2});
    return OpCase{
        .name = name, .inputs = std::move(inputs), .attributes = std::move(attributes), .ranges = {{1, -1, 9}}};
  };
  return {one("fewer", {{"rows", int64_t{4}}}, {Float32({7, 8}), Float32({7, 5})}),
          one("all", {}, {Float32({7, 8}), Float32({7, 5})}),
          one("dropped", {{"drop", true}, {"gt_overlap", 0.5}}, {Float32({7, 8}), Float32({7, 5}), Float32({7, 6})})};
}

}  // namespace

OpDef DecodeRegionsOp() {
  std::vector<AttributeSpec> specs = {{"drop", false, "whether empty regions and those found already go"},
                                      {"gt_overlap", 0.95, "overlap from which a region is found already"},
                                      {"rows", int64_t{0}, "rows of y, if fewer than R; 0: R"}};
  for (AttributeSpec& spec : OffsetAttributes()) specs.push_back(std::move(spec));
  return {.name = "decode_regions",
          .doc =
              "(offsets [R,8], rois [R,5][, objects [R,6]]) -> rois [rows,5] moved by the last four offsets; "
              "rows left over are -1.",
          .attributes = std::move(specs),
          .infer = InferDecodeRegions,
          .reference = DecodeRegionsReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kChooses,
          .cases = DecodeRegionsCases};
}

}  // namespace moka
