// Writes the CUDA text that reads kLength neighbouring elements of each operand: one vector load where an operand is
// dense, a broadcast where it is still, single loads elsewhere.
#include "layers/kernels/cuda/codegen/element_text.h"

#include <algorithm>
#include <numeric>

#include "core/text.h"
#include "layers/kernels/cuda/codegen/prelude.h"

namespace moka::cuda {
namespace {

// Arithmetic is in float unless a result is double; half types are widened on reading and rounded once on writing.
bool IsWideDouble(const Nest& nest) {
  return std::ranges::any_of(nest.outputs, [](const NestOperand& y) { return y.dtype == DType::kFloat64; });
}

}  // namespace

bool IsDense(const NestOperand& operand) { return !operand.strides.empty() && operand.strides.back() == 1; }

bool IsStill(const NestOperand& operand) { return operand.strides.empty() || operand.strides.back() == 0; }

std::vector<int> AllDims(const Nest& nest) {
  std::vector<int> dims(nest.extents.size());
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

std::string DeclarationsText(const Expression& expression, const Nest& nest) {
  std::string text;
  const std::vector<std::string> results = expression.Texts();
  for (size_t r = 0; r < results.size(); ++r) text += StrCat("// y", r, " = ", results[r], "\n");
  text += StrCat("using Wide = ", IsWideDouble(nest) ? "double" : "float", ";\n");
  text += StrCat("using Index = ", nest.IsSmall() ? "unsigned" : "unsigned long long", ";\n");
  text += "struct Operands {\n";
  for (size_t i = 0; i < nest.inputs.size(); ++i) {
    text += StrCat("  const ", TypeText(nest.inputs[i].dtype), "* x", i, ";\n");
  }
  for (size_t o = 0; o < nest.outputs.size(); ++o) {
    text += StrCat("  ", TypeText(nest.outputs[o].dtype), "* y", o, ";\n");
  }
  return text + "};\n";
}

std::string SeedsText(const Expression& expression, const Nest& nest, std::string_view operands,
                      std::string_view indent) {
  std::string text;
  for (const int key : KeysOf(expression)) {
    // An int64 exactly, other types by their value.
    const DType dtype = nest.inputs[static_cast<size_t>(key)].dtype;
    const std::string read = StrCat(operands, ".x", key, "[0]");
    const std::string value = IsFloat(dtype) ? StrCat("To<double>(", read, ")") : read;
    text += StrCat(indent, "const unsigned long long seed", key,
                   " = static_cast<unsigned long long>(static_cast<long long>(", value, "));\n");
  }
  return text;
}

// Loads come before the loop over a vector's elements, so that they are issued together.
std::string LoadsText(const Expression& expression, const Nest& nest, std::string_view operands,
                      std::string_view indent) {
  std::string text;
  for (size_t i = 0; i < nest.inputs.size(); ++i) {
    if (!ReadsValue(expression, static_cast<int>(i))) continue;
    const NestOperand& x = nest.inputs[i];
    const std::string at = StrCat(operands, ".x", i, " + (", OffsetText(x.strides, AllDims(nest)), ")");
    if (IsDense(x)) {
      text += StrCat(indent, "const auto x", i, " = Load<kLength>(", at, ");\n");
    } else if (IsStill(x)) {
      text += StrCat(indent, "const Wide x", i, " = To<Wide>(*(", at, "));\n");
    } else {
      text += StrCat(indent, "const auto* x", i, " = ", at, ";\n");
    }
  }
  return text;
}

std::string ElementText(const Nest& nest, int input) {
  const NestOperand& x = nest.inputs[static_cast<size_t>(input)];
  if (IsDense(x)) return StrCat("To<Wide>(x", input, ".at[j])");
  if (IsStill(x)) return StrCat("x", input);
  return StrCat("To<Wide>(x", input, "[j * ", x.strides.back(), "u])");
}

std::string IndexText(const Expression& expression, const Nest& nest) {
  if (!expression.IsRandom()) return {};
  if (nest.extents.empty()) return "0";
  return StrCat("static_cast<unsigned long long>(", OffsetText(nest.index, AllDims(nest)), ") + j * ",
                nest.index.back(), "ull");
}

}  // namespace moka::cuda
