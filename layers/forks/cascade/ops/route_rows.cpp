// Chooses the rows of regions that go on, by their size (scale_rows, Cascade R-CNN's ScaleRoute for pyramids) or by
// their loss (hard_rows, its HardMining). Both give the indices in rising order; what is left is -1 and counts as
// missing. Rows of padding (an image below 0) never go on.
#include "graph/op.h"
#include "layers/forks/cascade/ops/geometry.h"
#include "layers/ops/cases.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

std::vector<TensorType> RowTypes(int64_t rows) {
  return {PlainType(DType::kInt32, Shape{rows}), PlainType(DType::kFloat32, Shape{rows})};
}

void WriteRows(const std::vector<int64_t>& rows, std::span<RefTensor> out) {
  std::ranges::fill(out[0].values, -1.0);
  std::ranges::fill(out[1].values, 1.0);
  for (size_t i = 0; i < rows.size(); ++i) {
    out[0].values[i] = static_cast<double>(rows[i]);
    out[1].values[i] = 0;
  }
}

std::vector<TensorType> InferScale(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("scale_rows", in, 1, 1);
  CheckRows("scale_rows", "rois", in[0], 5, 5);
  if (!(attributes.Float("low") <= attributes.Float("high")) || !(attributes.Float("middle") > 0)) {
    throw Error(ErrorKind::kConfig, "scale_rows: low must be at most high and middle above 0");
  }
  return RowTypes(in[0].shape[0]);
}

// If no region has this size, the one nearest to the middle, on a logarithmic scale, goes on.
void ReferenceScale(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  std::vector<int64_t> rows;
  int64_t nearest = -1;
  double least = INFINITY;
  for (int64_t r = 0; r < in[0].type.shape[0]; ++r) {
    const double* row = in[0].values.data() + r * 5;
    if (!(row[0] >= 0)) continue;
    const Box<double> box = BoxAt(row + 1);
    const double size = box[2] < box[0] || box[3] < box[1] ? 0 : std::sqrt(Area(box, kPixelSide));
    if (size >= attributes.Float("low") && size < attributes.Float("high")) rows.push_back(r);
    const double distance = std::abs(std::log2(size / attributes.Float("middle")));
    if (distance < least || nearest < 0) {
      least = distance;
      nearest = r;
    }
  }
  if (rows.empty() && nearest >= 0) rows.push_back(nearest);
  WriteRows(rows, out);
}

std::vector<OpCase> ScaleCases() {
  const auto one = [](const char* name, double low, double high) {
    return OpCase{.name = name,
                  .inputs = {Float32({20, 5})},
                  .attributes = {{"low", low}, {"high", high}, {"middle", 4.0}},
                  .ranges = {{0, -1, 9}}};
  };
  return {one("some", 2, 6), one("none", 1000, 2000)};
}

std::vector<TensorType> InferHard(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("hard_rows", in, 2, 2);
  CheckRows("hard_rows", "losses", in[0], 1, 1);
  CheckRows("hard_rows", "rois", in[1], 5, 5);
  CheckShape("hard_rows", "losses", in[0].shape, in[0].shape.With(0, in[1].shape[0]), "one a region");
  const int64_t images = attributes.Int("images");
  const int64_t each = attributes.Int("rows");
  if (images < 1 || each < 1) throw Error(ErrorKind::kConfig, "hard_rows: images and rows must be at least 1");
  return RowTypes(std::min((Size(images) * each).value(), in[1].shape[0]));
}

void ReferenceHard(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const std::vector<double>& losses = in[0].values;
  const std::vector<int64_t> order = FallingOrder<double>(losses, -1);
  std::vector<int64_t> taken(static_cast<size_t>(std::min<int64_t>(attributes.Int("images"), in[1].type.shape[0])), 0);
  std::vector<int64_t> rows;
  std::vector<int64_t> left;
  for (const int64_t r : order) {
    const double image = in[1].values[static_cast<size_t>(r) * 5];
    if (!(image >= 0)) continue;
    const bool has_count = image < static_cast<double>(taken.size());
    int64_t* count = has_count ? &taken[static_cast<size_t>(image)] : nullptr;
    const bool goes = count != nullptr && *count < attributes.Int("rows");
    if (goes) ++*count;
    (goes ? rows : left).push_back(r);
  }
  // Images with few regions leave room for the others' next hardest.
  const size_t most = out[0].values.size();
  for (size_t i = 0; i < left.size() && rows.size() < most; ++i) rows.push_back(left[i]);
  rows.resize(std::min(rows.size(), most));
  std::ranges::sort(rows);
  WriteRows(rows, out);
}

std::vector<OpCase> HardCases() {
  return {{.name = "two_images",
           .inputs = {Float32({20, 1}), Float32({20, 5})},
           .attributes = {{"rows", int64_t{4}}, {"images", int64_t{2}}},
           .ranges = {{1, -1, 1}}},
          {.name = "few",
           .inputs = {Float32({5}), Float32({5, 5})},
           .attributes = {{"rows", int64_t{8}}, {"images", int64_t{1}}},
           .ranges = {{1, -1, 0}}}};
}

}  // namespace

OpDef ScaleRowsOp() {
  return {
      .name = "scale_rows",
      .doc = "(rois [R,5]) -> index [R] of regions whose size lies in a range, -1 after them; missing [R] (1 there).",
      .attributes = {{"low", 0.0, "the least square root of the area"},
                     {"high", {}, "the size below which regions go on"},
                     {"middle", {}, "without any, the region of the nearest size goes on"}},
      .infer = InferScale,
      .reference = ReferenceScale,
      .precision = Precision::kKeep32,
      .on_host = on_host::kChooses,
      .cases = ScaleCases};
}

OpDef HardRowsOp() {
  return {.name = "hard_rows",
          .doc =
              "(losses [R], rois [R,5]) -> index [min(images*rows,R)] of the regions of the greatest losses, `rows` an "
              "image and then whatever is left; missing (1 where there is none).",
          .attributes = {{"rows", {}, "regions of an image"}, {"images", {}, "images of the batch"}},
          .infer = InferHard,
          .reference = ReferenceHard,
          .precision = Precision::kKeep32,
          .on_host = on_host::kChooses,
          .cases = HardCases};
}

}  // namespace moka
