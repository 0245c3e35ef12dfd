// Expressions as text: a recursive-descent parser with precedence climbing, and the canonical printer.
// A large result is printed with its shared parts named first ("t0=exp(x0);t0/(1+t0)"): written out as a tree, a chain
// of fused activations would double in length at each step.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>

#include "core/error.h"
#include "core/text.h"
#include "graph/expression.h"
#include "graph/expression_builder.h"

namespace moka {
namespace {

constexpr int kMaxNesting = 500;     // of parentheses, calls and signs in a text
constexpr int kNestingPrinted = 60;  // deeper parts get a name
constexpr int kTreePrinted = 64;     // instructions (repeats counted) printed without names

// Binding strength of infix operators; functions, inputs and parentheses are kAtom.
enum Precedence : int { kSum = 1, kProduct = 2, kSigned = 3, kAtom = 4 };

class Parser {
 public:
  Parser(std::string_view text, ExpressionBuilder& builder) : text_(text), b_(builder) {}

  // { name "=" sum ";" } sum
  int32_t ParseAll() {
    while (AtDefinition()) {
      const std::string_view name = Name();
      Expect('=');
      names_.insert_or_assign(std::string(name), Infix(kSum));
      Expect(';');
    }
    const int32_t result = Infix(kSum);
    if (Peek() != '\0') Fail(StrCat("expected an operator or the end, found '", Printable(Rest(1)), "'"));
    return result;
  }

 private:
  [[noreturn]] void Fail(const std::string& what) const {
    throw Error(ErrorKind::kInternal, StrCat("expression \"", Printable(text_), "\", character ", at_ + 1, ": ", what));
  }
  std::string_view Rest(size_t length) const { return text_.substr(at_, length); }
  static bool IsDigit(char c) { return c >= '0' && c <= '9'; }
  static bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

  // The next character after blanks, '\0' at the end.
  char Peek() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool Take(char c) {
    if (Peek() != c) return false;
    ++at_;
    return true;
  }
  void Expect(char c) {
    if (Take(c)) return;
    Fail(StrCat("expected '", c, "', found ", at_ < text_.size() ? StrCat("'", Printable(Rest(1)), "'") : "the end"));
  }
  std::string_view Name() {
    Peek();
    const size_t begin = at_;
    while (at_ < text_.size() && (IsLetter(text_[at_]) || IsDigit(text_[at_]))) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  bool AtDefinition() {
    if (Peek() != 't') return false;
    const size_t begin = at_;
    Name();
    const bool is_definition = Peek() == '=';
    at_ = begin;
    return is_definition;
  }

  // Operators of at least this precedence, left to right.
  int32_t Infix(int least) {
    if (++depth_ > kMaxNesting) Fail(StrCat("nested more than ", kMaxNesting, " deep"));
    int32_t left = Signed();
    for (;;) {
      const char c = Peek();
      const int precedence = c == '+' || c == '-' ? kSum : (c == '*' || c == '/' ? kProduct : 0);
      if (precedence == 0 || precedence < least) break;
      ++at_;
      const int32_t right = Infix(precedence + 1);
      const ScalarOp op = c == '+'   ? ScalarOp::kAdd
                          : c == '-' ? ScalarOp::kSub
                          : c == '*' ? ScalarOp::kMul
                                     : ScalarOp::kDiv;
      left = b_.Apply(op, left, right);
    }
    --depth_;
    return left;
  }

  int32_t Signed() {
    if (!Take('-')) return Atom();
    if (++depth_ > kMaxNesting) Fail(StrCat("nested more than ", kMaxNesting, " deep"));
    const int32_t operand = Signed();
    --depth_;
    return b_.Apply(ScalarOp::kNeg, operand);
  }

  int32_t Atom() {
    const char c = Peek();
    if (Take('(')) {
      const int32_t inside = Infix(kSum);
      Expect(')');
      return inside;
    }
    if (IsDigit(c) || c == '.') return b_.Constant(Number());
    if (IsLetter(c)) return Named();
    Fail(c == '\0' ? "expected a value, found the end" : StrCat("expected a value, found '", Printable(Rest(1)), "'"));
  }

  double Number() {
    Peek();
    double value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) Fail("expected a number");
    at_ = static_cast<size_t>(end - text_.data());
    return value;
  }

  // An input, a name defined before, inf, or a function call.
  int32_t Named() {
    const size_t begin = at_;
    const std::string_view name = Name();
    if (name.size() > 1 && name[0] == 'x' && IsDigit(name[1])) {
      int input = 0;
      const auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), input);
      if (error == std::errc() && end == name.data() + name.size()) return b_.Input(input);
    }
    const auto defined = names_.find(name);
    if (defined != names_.end()) return defined->second;
    if (name == "inf") return b_.Constant(std::numeric_limits<double>::infinity());
    for (int op = 0; op <= static_cast<int>(ScalarOp::kRand); ++op) {
      if (FunctionNameOf(static_cast<ScalarOp>(op)) == name) return Call(static_cast<ScalarOp>(op));
    }
    at_ = begin;
    std::vector<std::string> functions;
    for (int op = 0; op <= static_cast<int>(ScalarOp::kRand); ++op) {
      const std::string_view function = FunctionNameOf(static_cast<ScalarOp>(op));
      if (!function.empty()) functions.emplace_back(function);
    }
    const std::string near = DidYouMean(name, functions);
    Fail(StrCat("there is no function or input \"", name, "\"", near.empty() ? "" : "; ", near));
  }

  int32_t Call(ScalarOp op) {
    Expect('(');
    int32_t operands[3] = {-1, -1, -1};
    const int arity = op == ScalarOp::kRand ? 2 : ArityOf(op);
    for (int i = 0; i < arity; ++i) {
      if (i > 0) Expect(',');
      operands[i] = Infix(kSum);
    }
    Expect(')');
    if (op != ScalarOp::kRand) return b_.Apply(op, operands[0], operands[1], operands[2]);
    const Instruction& stream = b_.at(operands[1]);
    const double k = stream.constant;
    const bool is_stream =
        stream.op == ScalarOp::kConstant && k >= 0 && k <= 0x1p53 && k == static_cast<double>(static_cast<int64_t>(k));
    if (b_.at(operands[0]).op != ScalarOp::kInput || !is_stream) {
      Fail("rand takes an input (the key) and a non-negative integer constant (the stream)");
    }
    return b_.Rand(operands[0], k);
  }

  std::string_view text_;
  ExpressionBuilder& b_;
  size_t at_ = 0;
  int depth_ = 0;
  std::map<std::string, int32_t, std::less<>> names_;
};

// Prints one result.
class Printer {
 public:
  explicit Printer(const std::vector<Instruction>& instructions) : instructions_(instructions) {}

  std::string Text(int32_t result) {
    Count(result);
    std::string definitions;
    for (int32_t i = 0; i <= result; ++i) {
      Part& part = parts_[static_cast<size_t>(i)];
      if (part.uses == 0) continue;
      Render(i, part);
      const bool is_leaf = ArityOf(instructions_[static_cast<size_t>(i)].op) == 0;
      const bool is_shared = is_large_ && part.uses > 1 && !is_leaf;
      if (i == result || (!is_shared && part.nesting < kNestingPrinted)) continue;
      const std::string name = StrCat("t", named_++);
      definitions += StrCat(name, "=", part.text, ";");
      part.text = name;
      part.precedence = kAtom;
      part.nesting = 0;
    }
    return definitions + parts_[static_cast<size_t>(result)].text;
  }

 private:
  struct Part {
    int uses = 0;
    double tree = 0;  // instructions below, repeats counted; a double as it may grow as 2^n
    int nesting = 0;
    int precedence = kAtom;
    std::string text;
  };

  void Count(int32_t result) {
    parts_.assign(instructions_.size(), {});
    parts_[static_cast<size_t>(result)].uses = 1;
    for (int32_t i = result; i >= 0; --i) {
      const Instruction& x = instructions_[static_cast<size_t>(i)];
      if (parts_[static_cast<size_t>(i)].uses == 0) continue;
      for (const int32_t operand : {x.a, x.b, x.c}) {
        if (operand >= 0) ++parts_[static_cast<size_t>(operand)].uses;
      }
    }
    for (int32_t i = 0; i <= result; ++i) {
      const Instruction& x = instructions_[static_cast<size_t>(i)];
      double& tree = parts_[static_cast<size_t>(i)].tree;
      tree = 1;
      for (const int32_t operand : {x.a, x.b, x.c}) {
        if (operand >= 0) tree += parts_[static_cast<size_t>(operand)].tree;
      }
    }
    is_large_ = parts_[static_cast<size_t>(result)].tree > kTreePrinted;
  }

  // Operand i, in parentheses if it binds less strongly than asked.
  std::string Operand(int32_t i, int least, Part& user) {
    const Part& part = parts_[static_cast<size_t>(i)];
    user.nesting = std::max(user.nesting, part.nesting + 1);
    return part.precedence >= least ? part.text : StrCat("(", part.text, ")");
  }

  void RenderInfix(const Instruction& x, char sign, int precedence, Part& part) {
    part.precedence = precedence;
    part.text = Operand(x.a, precedence, part);
    part.text += sign;
    part.text += Operand(x.b, precedence + 1, part);
  }

  void Render(int32_t i, Part& part) {
    const Instruction& x = instructions_[static_cast<size_t>(i)];
    switch (x.op) {
      case ScalarOp::kInput: part.text = StrCat("x", x.input); return;
      case ScalarOp::kConstant:
        part.text = ToText(x.constant);
        if (part.text[0] == '-') part.precedence = kSigned;
        return;
      case ScalarOp::kAdd: RenderInfix(x, '+', kSum, part); return;
      case ScalarOp::kSub: RenderInfix(x, '-', kSum, part); return;
      case ScalarOp::kMul: RenderInfix(x, '*', kProduct, part); return;
      case ScalarOp::kDiv: RenderInfix(x, '/', kProduct, part); return;
      case ScalarOp::kNeg:
        part.precedence = kSigned;
        part.text = StrCat("-", Operand(x.a, kSigned, part));
        return;
      case ScalarOp::kRand: part.text = StrCat("rand(", Operand(x.a, kSum, part), ",", x.constant, ")"); return;
      default: break;
    }
    part.text = StrCat(FunctionNameOf(x.op), "(", Operand(x.a, kSum, part));
    for (const int32_t operand : {x.b, x.c}) {
      if (operand >= 0) part.text += StrCat(",", Operand(operand, kSum, part));
    }
    part.text += ")";
  }

  const std::vector<Instruction>& instructions_;
  std::vector<Part> parts_;
  bool is_large_ = false;
  int named_ = 0;
};

}  // namespace

Expression Expression::Parse(const std::vector<std::string>& texts) {
  ExpressionBuilder builder;
  std::vector<int32_t> results;
  results.reserve(texts.size());
  for (const std::string& text : texts) results.push_back(Parser(text, builder).ParseAll());
  return builder.Finish(results);
}

std::vector<std::string> Expression::Texts() const {
  std::vector<std::string> texts;
  for (const int32_t result : results_) texts.push_back(Printer(instructions_).Text(result));
  return texts;
}

}  // namespace moka
