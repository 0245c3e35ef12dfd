// Writes an expression as one statement a value, in order, so that common parts are computed once; constants have 17
// digits, which give every double back exactly.
#include "layers/kernels/cuda/codegen/expression_text.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>

#include "core/text.h"
#include "graph/expression_builder.h"

namespace moka::cuda {
namespace {

std::string Temporary(int32_t i) { return StrCat("t", i); }

// Exactly the double; what a float cannot hold becomes infinite there as everywhere.
std::string ConstantText(double value) {
  if (std::isnan(value)) return "To<Wide>(FloatOfBits(0x7FC00000u))";
  if (std::isinf(value)) return StrCat("To<Wide>(FloatOfBits(", value > 0 ? "0x7F800000u" : "0xFF800000u", "))");
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.17g", value);
  const std::string digits = text.data();
  const bool is_whole = digits.find_first_of(".e") == std::string::npos;
  return StrCat("Wide(", digits, is_whole ? ".0" : "", ")");
}

// The prelude's function of an op: "Exp".
std::string FunctionText(ScalarOp op) {
  std::string name(FunctionNameOf(op));
  name[0] = static_cast<char>(name[0] - 'a' + 'A');
  return name;
}

std::string InfixText(ScalarOp op) {
  switch (op) {
    case ScalarOp::kAdd: return " + ";
    case ScalarOp::kSub: return " - ";
    case ScalarOp::kMul: return " * ";
    case ScalarOp::kDiv: return " / ";
    case ScalarOp::kLt: return " < ";
    case ScalarOp::kLe: return " <= ";
    case ScalarOp::kGt: return " > ";
    case ScalarOp::kGe: return " >= ";
    case ScalarOp::kEq: return " == ";
    default: return {};
  }
}

std::string ValueText(const Instruction& x) {
  const std::string a = Temporary(x.a);
  const std::string b = Temporary(x.b);
  if (x.op == ScalarOp::kNeg) return "-" + a;
  if (x.op == ScalarOp::kSelect) return StrCat(a, " != 0 ? ", b, " : ", Temporary(x.c));
  const std::string infix = InfixText(x.op);
  if (x.op >= ScalarOp::kLt && x.op <= ScalarOp::kEq) return StrCat("Truth<Wide>(", a, infix, b, ")");
  if (!infix.empty()) return a + infix + b;
  return StrCat(FunctionText(x.op), "(", a, x.b >= 0 ? ", " + b : "", ")");
}

}  // namespace

// Each key has one variable, read before the loop over a vector's elements.
std::vector<int> KeysOf(const Expression& expression) {
  std::vector<int> keys;
  for (const Instruction& x : expression.instructions()) {
    if (x.op != ScalarOp::kRand) continue;
    const int key = expression.instructions()[static_cast<size_t>(x.a)].input;
    if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
  }
  return keys;
}

// An input that is only the key of rand needs no load for each element.
bool ReadsValue(const Expression& expression, int input) {
  const std::vector<Instruction>& code = expression.instructions();
  const auto is_input = [&](int32_t i) { return i >= 0 && code[static_cast<size_t>(i)].input == input; };
  const bool is_operand = std::ranges::any_of(code, [&](const Instruction& x) {
    return x.op != ScalarOp::kRand && (is_input(x.a) || is_input(x.b) || is_input(x.c));
  });
  return is_operand || std::ranges::any_of(expression.results(), is_input);
}

// Temporaries are numbered as instructions are, so that a text can be read beside the expression.
std::string Statements(const Expression& expression, std::string_view indent,
                       const std::function<std::string(int)>& input, std::string_view index) {
  std::string text;
  for (size_t i = 0; i < expression.instructions().size(); ++i) {
    const Instruction& x = expression.instructions()[i];
    std::string value;
    if (x.op == ScalarOp::kInput) {
      if (!ReadsValue(expression, x.input)) continue;
      value = input(x.input);
    } else if (x.op == ScalarOp::kConstant) {
      value = ConstantText(x.constant);
    } else if (x.op == ScalarOp::kRand) {
      const int key = expression.instructions()[static_cast<size_t>(x.a)].input;
      value = StrCat("To<Wide>(Rand(seed", key, ", ", static_cast<uint64_t>(x.constant), "ull, ", index, "))");
    } else {
      value = ValueText(x);
    }
    text += StrCat(indent, "const Wide ", Temporary(static_cast<int32_t>(i)), " = ", value, ";\n");
  }
  return text;
}

// The inverse of a row-major index: the last dimension is the fastest. The first needs no division.
std::string SplitText(const std::vector<int64_t>& extents, const std::vector<int>& dims, std::string_view number,
                      std::string_view indent) {
  if (dims.empty()) return {};
  if (dims.size() == 1) return StrCat(indent, "const Index d", dims[0], " = ", number, ";\n");
  std::string text = StrCat(indent, "Index rest", dims[0], " = ", number, ";\n");
  const std::string rest = StrCat("rest", dims[0]);
  for (size_t k = dims.size(); k-- > 1;) {
    const std::string extent = StrCat(extents[static_cast<size_t>(dims[k])], "u");
    text += StrCat(indent, "const Index d", dims[k], " = ", rest, " % ", extent, ";\n");
    text += StrCat(indent, rest, " /= ", extent, ";\n");
  }
  return text + StrCat(indent, "const Index d", dims[0], " = ", rest, ";\n");
}

// Still dimensions and strides of 1 are left out, which keeps the texts short.
std::string OffsetText(const std::vector<int64_t>& strides, const std::vector<int>& dims) {
  std::string text;
  for (const int d : dims) {
    const int64_t stride = strides[static_cast<size_t>(d)];
    if (stride == 0) continue;
    if (!text.empty()) text += " + ";
    text += StrCat("d", d);
    if (stride != 1) text += StrCat(" * ", stride, "u");
  }
  return text.empty() ? "0u" : text;
}

}  // namespace moka::cuda
