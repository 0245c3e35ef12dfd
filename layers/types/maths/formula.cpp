// y = a formula that the net's text gives, element by element, over bottoms with numpy's broadcasting. The text is an
// expression of the pointwise op (graph/expression.h), so its gradient and its kernels are those of every other layer.
#include <algorithm>

#include "core/text.h"
#include "graph/expression.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

constexpr const char* kField = "formula_param.formula";
constexpr size_t kMostCharacters = 4096;

// Errors: kConfig at the field for a text that is no formula of the bottoms.
Expression FormulaOf(const LayerBuilder& l) {
  const std::string& text = l.param().formula_param().formula();
  l.Check(!text.empty(), kField, "the formula must be given, as \"x0 / x1\" of bottoms 0 and 1");
  l.Check(text.size() <= kMostCharacters, kField,
          StrCat("the formula has ", text.size(), " characters; the limit is ", kMostCharacters));
  try {
    Expression formula = Expression::Parse(text);
    l.Check(!formula.IsRandom(), kField, "a formula draws no random numbers");
    l.Check(formula.input_count() <= l.bottom_count(), kField,
            StrCat("the formula reads x", formula.input_count() - 1, ", but there are ", l.bottom_count(), " bottoms"));
    for (int i = 0; i < l.bottom_count(); ++i)
      l.Check(formula.UsesInput(i), StrCat("bottom[", i, "]"), StrCat("the formula does not read x", i));
    return formula;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInternal) throw;
    l.Fail(kField, error.text());
  }
}

Shape Raised(const Shape& shape, int rank) {
  std::vector<int64_t> dims(static_cast<size_t>(rank - shape.rank()), 1);
  dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
  return Shape(dims);
}

void BuildFormula(LayerBuilder& l) {
  const Expression formula = FormulaOf(l);
  int rank = 0;
  for (int i = 0; i < l.bottom_count(); ++i) rank = std::max(rank, l.shape(i).rank());
  std::vector<int64_t> largest(static_cast<size_t>(rank), 1);
  std::vector<ValueId> operands;
  for (int i = 0; i < l.bottom_count(); ++i) {
    const Shape shape = Raised(l.shape(i), rank);
    for (int axis = 0; axis < rank; ++axis) {
      int64_t& size = largest[static_cast<size_t>(axis)];
      l.Check(shape[axis] == size || shape[axis] == 1 || size == 1, StrCat("bottom[", i, "]"),
              StrCat("its shape ", l.shape(i).ToString(), " must agree with the others' on axis ", axis - rank,
                     ", where they have ", size, ", or have 1 there"));
      size = std::max(size, shape[axis]);
    }
    operands.push_back(l.b().Reshape(l.bottom(i), shape));
  }
  l.SetTop(0, l.b().Pointwise(formula.Texts().front(), operands));
}

}  // namespace

LayerDef FormulaLayer() {
  return {.type = "Formula", .max_bottoms = -1, .build = BuildFormula, .params = {"formula_param"}};
}

}  // namespace moka
