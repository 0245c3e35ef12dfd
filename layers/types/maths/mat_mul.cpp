// y = op(a) * op(b), a product of matrices for each item.
#include <algorithm>

#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildMatMul(LayerBuilder& l) {
  const MatMulParameter& p = l.param().matmul_param();
  const GraphBuilder& b = l.b();
  Shape left = l.shape(0);
  const Shape right = l.shape(1);
  const auto text = [&] { return StrCat("a ", l.shape(0).ToString(), " and b ", right.ToString()); };
  l.Check(left.rank() >= 2 && right.rank() >= 2, "bottom[0]",
          StrCat("both bottoms need at least two axes, found ", text()));
  // One matrix for all items is one product with all rows.
  const bool is_one = right.rank() == 2 && left.rank() > 2;
  const Shape items = Part(left, 0, left.rank() - 2);
  if (is_one) {
    l.Check(!p.transpose_a(), "matmul_param.transpose_a",
            StrCat("transpose_a needs as many axes of b as of a, found ", text()));
    left = {left.Count(0, left.rank() - 1), left[left.rank() - 1]};
  } else {
    l.Check(right.rank() == left.rank() && Part(right, 0, right.rank() - 2) == items, "bottom[1]",
            StrCat("all axes but the last two must be equal, or b must have two, found ", text()));
  }
  const int64_t inner_left = left[left.rank() - (p.transpose_a() ? 2 : 1)];
  const int64_t inner_right = right[right.rank() - (p.transpose_b() ? 1 : 2)];
  l.Check(inner_left == inner_right, "bottom[1]",
          StrCat("a", p.transpose_a() ? " transposed" : "", " has ", inner_left, " columns and b",
                 p.transpose_b() ? " transposed " : " ", inner_right, " rows: ", text()));
  const ValueId y = b.Add1("matmul", {b.Reshape(l.bottom(0), left), l.bottom(1)},
                           {{"transpose_a", p.transpose_a()}, {"transpose_b", p.transpose_b()}});
  const double scale = Finite(l, "matmul_param.scale", p.scale());
  const ValueId scaled = scale == 1 ? y : Computed(b, Term::Of(y) * Decimal(scale));
  const int64_t columns = b.shape(y)[b.shape(y).rank() - 1];
  l.SetTop(0, is_one ? b.Reshape(scaled, l.shape(0).With(l.shape(0).rank() - 1, columns)) : scaled);
}

}  // namespace

LayerDef MatMulLayer() {
  return {.type = "MatMul", .min_bottoms = 2, .max_bottoms = 2, .build = BuildMatMul, .params = {"matmul_param"}};
}

}  // namespace moka
