// Products of matrices: with constants they are InnerProduct, whose weights are [num_output, K]; else MatMul.
#include <algorithm>
#include <utility>

#include "core/text.h"
#include "tools/exchange/import/fold.h"
#include "tools/exchange/import/layer_making.h"

namespace moka {
namespace {

// [K,N] as [N,K], both times a factor.
LayerBlob Turned(const OnnxTensor& matrix, bool is_turned, float factor) {
  const auto rows = static_cast<size_t>(matrix.dims[0]);
  const auto columns = static_cast<size_t>(matrix.dims[1]);
  std::vector<float> values(matrix.floats.size());
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j)
      values[is_turned ? i * columns + j : j * rows + i] = factor * matrix.floats[i * columns + j];
  }
  if (is_turned) return {Shape{matrix.dims[0], matrix.dims[1]}, std::move(values)};
  return {Shape{matrix.dims[1], matrix.dims[0]}, std::move(values)};
}

// One number for each of `outputs`, times a factor; nothing for a constant of another shape.
std::optional<LayerBlob> BiasOf(const OnnxTensor& constant, int64_t outputs, float factor) {
  const int64_t count = CountOf(constant.dims);
  if (constant.is_whole) return std::nullopt;
  const bool is_row = constant.dims.empty() || constant.dims.back() == count;
  if (!is_row || (count != 1 && count != outputs)) return std::nullopt;
  std::vector<float> values(static_cast<size_t>(outputs));
  for (size_t i = 0; i < values.size(); ++i) values[i] = factor * constant.floats[count == 1 ? 0 : i];
  return LayerBlob{Shape{outputs}, std::move(values)};
}

LayerParameter InnerProductLayer(int64_t outputs, int axis, bool has_bias) {
  LayerParameter layer = LayerOf("InnerProduct");
  InnerProductParameter& p = *layer.mutable_inner_product_param();
  p.set_num_output(static_cast<uint32_t>(outputs));
  if (axis != 1) p.set_axis(axis);
  if (!has_bias) p.set_bias_term(false);
  return layer;
}

bool IsMatrix(const OnnxConstant& constant) {
  return constant != nullptr && !constant->is_whole && constant->dims.size() == 2;
}

LayerParameter MatMulLayer(bool turns_a, bool turns_b, float scale) {
  LayerParameter layer = LayerOf("MatMul");
  if (turns_a) layer.mutable_matmul_param()->set_transpose_a(true);
  if (turns_b) layer.mutable_matmul_param()->set_transpose_b(true);
  if (scale != 1) layer.mutable_matmul_param()->set_scale(scale);
  return layer;
}

// y = alpha * op(a) * op(b) + beta * c.
void ReadGemm(ImportNode& n) {
  const NodeAttributes a = n.attributes();
  const auto alpha = static_cast<float>(a.Float("alpha", 1));
  const auto beta = static_cast<float>(a.Float("beta", 1));
  const bool turns_a = a.Int("transA", 0) != 0;
  const bool turns_b = a.Int("transB", 0) != 0;
  const OnnxConstant matrix = n.Constant(1);
  const OnnxConstant addend = n.Has(2) ? n.Constant(2) : nullptr;
  if (IsMatrix(matrix) && !turns_a && n.Constant(0) == nullptr && (!n.Has(2) || addend != nullptr)) {
    LayerBlob weight = Turned(*matrix, turns_b, alpha);
    const int64_t outputs = weight.shape[0];
    std::optional<LayerBlob> bias = addend == nullptr ? std::nullopt : BiasOf(*addend, outputs, beta);
    std::vector<LayerBlob> blobs{std::move(weight)};
    if (bias) blobs.push_back(std::move(*bias));
    if (bias || !n.Has(2)) return n.Give(InnerProductLayer(outputs, 1, n.Has(2)), {n.In(0)}, std::move(blobs));
  }
  const LayerParameter product = MatMulLayer(turns_a, turns_b, alpha);
  if (!n.Has(2)) return n.Give(product, {n.In(0), n.In(1)});
  LayerParameter power = LayerOf("Power");
  power.mutable_power_param()->set_scale(beta);
  const std::string sum = beta == 1 ? n.In(2) : n.Add(power, {n.In(2)});
  n.Give(LayerOf("Add"), {n.Add(product, {n.In(0), n.In(1)}), sum});
}

// The blob with as many axes, by axes of 1 in front and repetition: what MatMul's layer does not do by itself.
std::string Spread(ImportNode& n, const std::string& blob, const Ints& items) {
  Ints dims = n.net().DimsOf(blob);
  dims.insert(dims.begin(), items.size() + 2 - dims.size(), 1);
  std::string spread = Reshaped(n, blob, dims);
  for (size_t i = 0; i < items.size(); ++i) {
    if (dims[i] == items[i]) continue;
    LayerParameter tile = LayerOf("Tile");
    tile.mutable_tile_param()->set_axis(static_cast<int32_t>(i));
    tile.mutable_tile_param()->set_tiles(static_cast<int32_t>(items[i]));
    spread = n.Add(tile, {spread});
  }
  return spread;
}

// With a third input, what is added behind it (onnx_patterns.cpp).
void ReadMatMul(ImportNode& n) {
  const Ints& x = n.x(0).dims;
  const Ints& y = n.x(1).dims;
  const OnnxConstant matrix = n.Constant(1);
  if (IsMatrix(matrix) && n.Constant(0) == nullptr && x.size() >= 2) {
    LayerBlob weight = Turned(*matrix, false, 1);
    const int64_t outputs = weight.shape[0];
    std::vector<LayerBlob> blobs{std::move(weight)};
    if (n.Has(2)) {
      std::optional<LayerBlob> bias = BiasOf(*n.Constant(2), outputs, 1);
      if (!bias) n.Refuse("what is added behind it is not one number an output");
      blobs.push_back(std::move(*bias));
    }
    return n.Give(InnerProductLayer(outputs, static_cast<int>(x.size()) - 1, n.Has(2)), {n.In(0)}, std::move(blobs));
  }
  if (x.size() < 2 || y.size() < 2) n.Refuse("one of its inputs is a vector");
  const Ints items = BroadcastDims(Ints(x.begin(), x.end() - 2), Ints(y.begin(), y.end() - 2));
  const std::string left = Spread(n, n.In(0), items);
  const std::string right = y.size() == 2 ? n.In(1) : Spread(n, n.In(1), items);
  n.Give(MatMulLayer(false, false, 1), {left, right});
}

}  // namespace

OnnxImportOp ImportGemm() { return {.types = {"Gemm"}, .read = ReadGemm}; }
OnnxImportOp ImportMatMul() { return {.types = {"MatMul", "MatMulBias"}, .read = ReadMatMul}; }

}  // namespace moka
