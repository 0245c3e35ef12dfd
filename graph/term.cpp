// A term is a graph of parts. Its text has brackets where a weaker operator stands inside a stronger one, and nowhere
// else, so that formulas built alike are equal texts and share a kernel.
#include "graph/term.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>

#include "core/error.h"
#include "core/text.h"
#include "graph/graph.h"

namespace moka {

struct Term::Part {
  std::string name;  // a constant's digits, an input, or the sign or function before or between the operands
  Bond bond = Bond::kWhole;
  Parts operands = {};
  int32_t value = -1;  // of the graph; -1: none
  double tree = 1;     // parts below with repeats, and this one; a double as it may grow as 2^n
};

namespace {

// A larger term names the parts that it uses again, as the text would grow exponentially.
constexpr double kTreeWritten = 64;

}  // namespace

// Writes one term.
class TermWriter {
 public:
  explicit TermWriter(std::span<const int32_t> inputs) : inputs_(inputs) {}

  std::string Write(const Term::Part& root) {
    if (root.tree > kTreeWritten) CountUses(root);
    const std::string text = TextOf(root);
    return definitions_ + text;
  }

  // The values of the term that are not in the list yet.
  static void AddValues(const Term::Part& part, std::map<const Term::Part*, int>& seen, std::vector<int32_t>& values) {
    if (seen[&part]++ > 0) return;
    if (part.value >= 0 && std::ranges::find(values, part.value) == values.end()) values.push_back(part.value);
    for (const auto& operand : part.operands) AddValues(*operand, seen, values);
  }

 private:
  void CountUses(const Term::Part& part) {
    if (uses_[&part]++ > 0) return;
    for (const auto& operand : part.operands) CountUses(*operand);
  }

  std::string TextOf(const Term::Part& part) {
    const auto named = names_.find(&part);
    if (named != names_.end()) return named->second;
    std::string text = Composed(part);
    const auto uses = uses_.find(&part);
    if (part.operands.empty() || uses == uses_.end() || uses->second < 2) return text;
    const std::string name = StrCat("t", names_.size());
    definitions_ += StrCat(name, "=", text, ";");
    names_.emplace(&part, name);
    return name;
  }

  std::string Composed(const Term::Part& part) {
    if (part.value >= 0) {
      const auto at = std::ranges::find(inputs_, part.value);
      Require(at != inputs_.end(), "a term's values are inputs of its node");
      return StrCat("x", at - inputs_.begin());
    }
    if (part.operands.empty()) return part.name;
    switch (part.bond) {
      case Term::Bond::kSign: return part.name + Operand(*part.operands[0], Term::Bond::kWhole);
      case Term::Bond::kSum: return Infix(part, Term::Bond::kProduct);
      case Term::Bond::kProduct: return Infix(part, Term::Bond::kWhole);
      case Term::Bond::kWhole: break;
    }
    std::string text = part.name;
    char before = '(';
    for (const auto& operand : part.operands) {
      text += before;
      text += TextOf(*operand);
      before = ',';
    }
    return text + ')';
  }

  // Operators of one strength are read from the left, so the right operand must hold together more strongly.
  std::string Infix(const Term::Part& part, Term::Bond right_bond) {
    const std::string left = Operand(*part.operands[0], part.bond);
    return left + part.name + Operand(*part.operands[1], right_bond);
  }

  // In brackets unless it holds together at least as strongly; a signed operand always has them.
  std::string Operand(const Term::Part& part, Term::Bond bond) {
    std::string text = TextOf(part);
    const bool is_whole = part.bond >= bond && part.bond != Term::Bond::kSign;
    return is_whole || names_.contains(&part) ? text : StrCat("(", text, ")");
  }

  std::span<const int32_t> inputs_;
  std::map<const Term::Part*, int> uses_;
  std::map<const Term::Part*, std::string> names_;
  std::string definitions_;
};

Term::Term(std::string name, Bond bond, Parts operands) {
  double tree = 1;
  for (const auto& operand : operands) tree += operand->tree;
  part_ = std::make_shared<const Part>(
      Part{.name = std::move(name), .bond = bond, .operands = std::move(operands), .tree = tree});
}

// All the digits that it takes to read the same double again.
Term::Term(double constant) {
  std::array<char, 40> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), constant);
  *this = Term({text.data(), end.ptr}, std::signbit(constant) ? Bond::kSign : Bond::kWhole, {});
}

Term Term::Input(size_t i) { return {StrCat("x", i), Bond::kWhole, {}}; }

Term Term::Of(int32_t value) {
  Require(value >= 0, "a term is of a value of the graph");
  Term term({}, Bond::kWhole, {});
  term.part_ = std::make_shared<const Part>(Part{.name = {}, .value = value});
  return term;
}

std::string Term::Text(std::span<const int32_t> inputs) const { return TermWriter(inputs).Write(*part_); }

std::vector<int32_t> Term::Values(std::vector<int32_t> first) const {
  std::vector<int32_t> values = std::move(first);
  std::map<const Part*, int> seen;
  TermWriter::AddValues(*part_, seen, values);
  return values;
}

ValueId Computed(const GraphBuilder& b, const Term& term, std::vector<ValueId> first) {
  return b.Pointwise(term, term.Values(std::move(first)));
}

ValueId Summed(const GraphBuilder& b, const Term& term, Ints axes, std::vector<ValueId> first) {
  const std::vector<ValueId> inputs = term.Values(std::move(first));
  return b.Add1("reduce_sum", inputs, {{"expr", term.Text(inputs)}, {"axes", std::move(axes)}});
}

Term operator-(const Term& a) { return {"-", Term::Bond::kSign, {a.part_}}; }

// ToText gives the digits of a float where one is as good; they are short, so that a double has room for them.
Term Decimal(double constant) {
  const std::string digits = ToText(constant);
  double value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return {value};
}

Term IsFinite(const Term& a) {
  constexpr double kAlmostMost = 3e38;  // of a float
  return Abs(a) <= kAlmostMost;
}

Term Square(const Term& a) { return a * a; }

}  // namespace moka
