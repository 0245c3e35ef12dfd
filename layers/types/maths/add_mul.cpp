// Sums and products with numpy's broadcasting: axes are matched from the last one on, of size 1 they are repeated. With
// one bottom the second operand is the layer's blob (Mul).
#include <algorithm>

#include "core/text.h"
#include "layers/net/layer.h"
#include "layers/types/maths/broadcast.h"

namespace moka {
namespace {

// A shape with ones put before it up to a rank.
Shape Raised(const Shape& shape, int rank) {
  std::vector<int64_t> dims(static_cast<size_t>(rank - shape.rank()), 1);
  dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
  return Shape(dims);
}

void BuildAdd(LayerBuilder& l) { l.SetTop(0, Broadcast(l, l.bottom(1), "bottom[1]", Term::Input(0) + Term::Input(1))); }

void BuildMul(LayerBuilder& l) {
  const auto& dims = l.param().mul_param().mul_shape();
  if (l.bottom_count() == 2) {
    l.Check(dims.empty(), "mul_param.mul_shape", "mul_shape is for a layer of one bottom");
    return l.SetTop(0, Broadcast(l, l.bottom(1), "bottom[1]", Term::Input(0) * Term::Input(1)));
  }
  l.Check(!dims.empty() && dims.size() <= Shape::kMaxRank, "mul_param.mul_shape",
          "a Mul of one bottom needs the factor's shape, mul_param.mul_shape");
  const Shape shape(std::vector<int64_t>(dims.begin(), dims.end()));
  FillerParameter one;
  one.set_value(1);
  const ValueId factor = l.AddBlob(0, shape, one, ParameterRole::kWeight);
  l.SetTop(0, Broadcast(l, factor, "mul_param.mul_shape", Term::Input(0) * Term::Input(1)));
}

}  // namespace

ValueId Broadcast(const LayerBuilder& l, ValueId second, std::string_view field, const Term& formula) {
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  const Shape y = b.shape(second);
  const int rank = std::max(x.rank(), y.rank());
  const Shape a = Raised(x, rank);
  const Shape c = Raised(y, rank);
  for (int i = 0; i < rank; ++i) {
    l.Check(a[i] == c[i] || a[i] == 1 || c[i] == 1, field,
            StrCat("the operands ", x.ToString(), " and ", y.ToString(), " must agree on axis ", i - rank,
                   ", or one of them have size 1 there"));
  }
  return b.Pointwise(formula, {b.Reshape(l.bottom(0), a), b.Reshape(second, c)});
}

LayerDef AddLayer() { return {.type = "Add", .min_bottoms = 2, .max_bottoms = 2, .build = BuildAdd}; }

LayerDef MulLayer() { return {.type = "Mul", .max_bottoms = 2, .build = BuildMul, .params = {"mul_param"}}; }

}  // namespace moka
