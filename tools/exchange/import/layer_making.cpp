// A dimension that stays is said as 0 in a Reshape, so that it follows the number of images.
#include "tools/exchange/import/layer_making.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/exact_float.h"
#include "core/text.h"
#include "tools/exchange/import/fold.h"

namespace moka {
namespace {

LayerParameter ReshapeLayer(const Ints& from, const Ints& to) {
  if (from.size() > 2 && to.size() == 2 && to[0] == from[0]) return LayerOf("Flatten");
  LayerParameter layer = LayerOf("Reshape");
  BlobShape& shape = *layer.mutable_reshape_param()->mutable_shape();
  for (size_t i = 0; i < to.size(); ++i) shape.add_dim(i < from.size() && from[i] == to[i] ? 0 : to[i]);
  return layer;
}

LayerParameter PermuteLayer(const Ints& perm) {
  LayerParameter layer = LayerOf("Permute");
  for (const int64_t axis : perm) layer.mutable_permute_param()->add_order(static_cast<uint32_t>(axis));
  return layer;
}

void CheckCount(const Ints& from, const Ints& to) {
  if (CountOf(from) == CountOf(to)) return;
  throw Error(ErrorKind::kConfig, StrCat("it gives ", Shape(from).ToString(), " the shape ", Shape(to).ToString()));
}

}  // namespace

LayerParameter LayerOf(const char* type) {
  LayerParameter layer;
  layer.set_type(type);
  return layer;
}

LayerParameter FormulaOf(const std::string& text) {
  LayerParameter layer = LayerOf("Formula");
  layer.mutable_formula_param()->set_formula(text);
  return layer;
}

std::string NumberText(float value) {
  if (std::isnan(value)) throw Error(ErrorKind::kConfig, "it calculates with a constant that is no number");
  if (std::isinf(value)) return value > 0 ? "inf" : "(-inf)";
  std::array<char, 32> digits{};
  char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  const std::string text(digits.data(), end);
  return value < 0 ? StrCat("(", text, ")") : text;
}

std::string Reshaped(ImportNode& node, const std::string& blob, const Ints& dims) {
  const Ints from = node.net().DimsOf(blob);
  CheckCount(from, dims);
  return from == dims ? blob : node.Add(ReshapeLayer(from, dims), {blob});
}

void GiveReshaped(ImportNode& node, const std::string& blob, const Ints& dims) {
  const Ints from = node.net().DimsOf(blob);
  CheckCount(from, dims);
  if (from == dims) return GiveBlob(node, blob);
  node.Give(ReshapeLayer(from, dims), {blob});
}

std::string Permuted(ImportNode& node, const std::string& blob, const Ints& perm) {
  return std::ranges::is_sorted(perm) ? blob : node.Add(PermuteLayer(perm), {blob});
}

void GivePermuted(ImportNode& node, const std::string& blob, const Ints& perm) {
  if (std::ranges::is_sorted(perm)) return GiveBlob(node, blob);
  node.Give(PermuteLayer(perm), {blob});
}

void GiveBlob(ImportNode& node, const std::string& blob, int output) {
  node.GiveValue(output, {.blob = blob, .dims = node.net().DimsOf(blob)});
}

std::optional<float> ScalarOf(const OnnxConstant& constant) {
  if (constant == nullptr || CountOf(constant->dims) != 1) return std::nullopt;
  if (!constant->is_whole) return constant->floats[0];
  const int64_t number = constant->ints[0];
  if (!IsExactFloat(number))
    throw Error(ErrorKind::kConfig, StrCat("it reads the whole number ", number, ", which no float is"));
  return static_cast<float>(number);
}

std::optional<Ints> ListAt(const ImportNode& node, int i, std::string_view attribute) {
  if (node.Has(i)) {
    const OnnxConstant list = node.Constant(i);
    if (list == nullptr) node.Refuse(StrCat("its input ", i, " is computed from what the net is given"));
    if (!list->is_whole) node.Refuse(StrCat("its input ", i, " is no list of whole numbers"));
    return list->ints;
  }
  if (attribute.empty() || !node.attributes().Has(attribute)) return std::nullopt;
  return node.attributes().List(attribute);
}

std::optional<OperandAxes> OperandAxesOf(const Ints& x, const OnnxTensor& constant) {
  Ints dims = constant.dims;
  while (!dims.empty() && dims.front() == 1) dims.erase(dims.begin());
  const auto axis = std::ssize(x) - std::ssize(dims);
  if (axis < 0 || dims.empty()) return std::nullopt;
  while (!dims.empty() && dims.back() == 1) dims.pop_back();
  // Axes before it are the batch and such: a constant of all axes would have the batch in it.
  if (!std::equal(dims.begin(), dims.end(), x.begin() + axis)) return std::nullopt;
  return OperandAxes{static_cast<int>(axis), static_cast<int>(dims.size()), Shape(dims)};
}

}  // namespace moka
