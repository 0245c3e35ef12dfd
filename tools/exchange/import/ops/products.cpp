// Products of matrices: with constants they are InnerProduct, whose weights are [num_output, K]; else MatMul.
#include <algorithm>
#include <cctype>
#include <map>
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

// The labels of an equation of two operands: "bid,bjd->bij".
struct Equation {
  std::string left;
  std::string right;
  std::string result;
};

Equation EquationOf(const ImportNode& n) {
  std::string text = n.attributes().Text("equation", "");
  std::erase(text, ' ');
  const size_t comma = text.find(',');
  const size_t arrow = text.find("->");
  const bool is_plain = comma != std::string::npos && arrow != std::string::npos && comma < arrow;
  if (!is_plain || n.proto().input_size() != 2) n.Refuse(StrCat("its equation is \"", Printable(text), "\""));
  Equation e{text.substr(0, comma), text.substr(comma + 1, arrow - comma - 1), text.substr(arrow + 2)};
  for (const std::string* labels : {&e.left, &e.right, &e.result}) {
    std::string sorted = *labels;
    std::ranges::sort(sorted);
    const bool are_letters =
        std::ranges::all_of(sorted, [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; });
    if (!are_letters || std::ranges::adjacent_find(sorted) != sorted.end())
      n.Refuse(StrCat("its equation is \"", Printable(text), "\""));
  }
  if (e.left.size() != n.x(0).dims.size() || e.right.size() != n.x(1).dims.size())
    n.Refuse("its equation has other axes than its inputs");
  return e;
}

// The axes of a blob brought into the order of these labels, and joined into one axis a group.
std::string Grouped(ImportNode& n, const std::string& blob, const std::string& labels,
                    const std::vector<std::string>& groups) {
  Ints perm;
  Ints dims;
  for (const std::string& group : groups) {
    int64_t size = 1;
    for (const char label : group) {
      perm.push_back(static_cast<int64_t>(labels.find(label)));
      size *= n.net().DimsOf(blob)[labels.find(label)];
    }
    dims.push_back(size);
  }
  if (perm.size() != labels.size()) n.Refuse("it sums one operand alone");
  return Reshaped(n, Permuted(n, blob, perm), dims);
}

// Labels of both operands and the result number the matrices, those of one operand and the result are rows and columns,
// those of both operands alone are summed.
void ReadEinsum(ImportNode& n) {
  const Equation e = EquationOf(n);
  const auto in = [](const std::string& labels, char c) { return labels.find(c) != std::string::npos; };
  std::string items;
  std::string sums;
  std::string rows;
  std::string columns;
  std::map<char, int64_t> sizes;
  for (size_t i = 0; i < e.left.size(); ++i) {
    const char c = e.left[i];
    sizes[c] = n.x(0).dims[i];
    (in(e.right, c) ? (in(e.result, c) ? items : sums) : rows) += c;
  }
  for (size_t i = 0; i < e.right.size(); ++i) {
    const char c = e.right[i];
    if (in(e.left, c) && sizes[c] != n.x(1).dims[i]) n.Refuse(StrCat("its operands differ along ", c));
    sizes[c] = n.x(1).dims[i];
    if (!in(e.left, c)) columns += c;
  }
  const std::string made = items + rows + columns;
  Ints dims;
  for (const char c : made) dims.push_back(sizes[c]);
  Ints perm;
  for (const char c : e.result) perm.push_back(static_cast<int64_t>(made.find(c)));
  if (perm.size() != made.size() || !std::ranges::all_of(e.result, [&](char c) { return in(made, c); }))
    n.Refuse("it sums one operand alone");
  const std::string left = Grouped(n, n.In(0), e.left, {items, rows, sums});
  const std::string right = Grouped(n, n.In(1), e.right, {items, sums, columns});
  GivePermuted(n, Reshaped(n, n.Add(MatMulLayer(false, false, 1), {left, right}), dims), perm);
}

}  // namespace

OnnxImportOp ImportEinsum() { return {.types = {"Einsum"}, .read = ReadEinsum}; }
OnnxImportOp ImportGemm() { return {.types = {"Gemm"}, .read = ReadGemm}; }
OnnxImportOp ImportMatMul() { return {.types = {"MatMul", "MatMulBias"}, .read = ReadMatMul}; }

}  // namespace moka
