#include "graph/term.h"

#include <array>
#include <charconv>
#include <cmath>

#include "core/text.h"

namespace moka {

// All the digits that it takes to read the same double again; ToText gives those of a float where one is as good.
Term::Term(double constant) : bond_(std::signbit(constant) ? Bond::kSign : Bond::kWhole) {
  std::array<char, 40> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), constant);
  text_ = {text.data(), end.ptr};
}

Term Term::Input(size_t i) { return {StrCat("x", i), Bond::kWhole}; }

Term operator-(const Term& a) { return {StrCat("-", a.Within(Term::Bond::kWhole)), Term::Bond::kSign}; }

std::string Term::Within(Bond bond) const { return bond_ >= bond ? text_ : StrCat("(", text_, ")"); }

Term Term::Join(const Term& a, char sign, const Term& b, Bond bond) {
  const Bond next = bond == Bond::kSum ? Bond::kProduct : Bond::kWhole;
  const std::string left = a.bond_ == Bond::kSign ? a.Within(Bond::kWhole) : a.Within(bond);
  const std::string right = b.bond_ == Bond::kSign ? b.Within(Bond::kWhole) : b.Within(next);
  return {StrCat(left, std::string(1, sign), right), bond};
}

Term IsFinite(const Term& a) {
  constexpr double kAlmostMost = 3e38;  // of a float
  return Abs(a) <= kAlmostMost;
}

Term Square(const Term& a) { return a * a; }

}  // namespace moka
