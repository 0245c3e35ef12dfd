// Distances to trained centres (NormFace, Wang et al., arXiv 1704.06369): squared L2 as |x|^2 + |w|^2 - 2 x.w, so that
// nothing of the size batch x centres x features is made.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

ValueId Squares(const GraphBuilder& b, ValueId rows) {
  return b.Add1("reduce_sum", {rows}, {{"expr", std::string("x0*x0")}, {"axes", Ints{1}}});
}

// The centres [N,K]: blob 0, or bottom 1.
ValueId Centers(LayerBuilder& l, int64_t length) {
  const InnerDistanceParameter& p = l.param().inner_distance_param();
  const GraphBuilder& b = l.b();
  if (l.bottom_count() == 2) {
    const Shape w = l.shape(1);
    l.Check(w.rank() >= 1 && w.Count() == w[0] * length, "bottom[1]",
            StrCat("the centres must be [N,", length, "], found ", w.ToString()));
    return b.Reshape(l.bottom(1), {w[0], length});
  }
  const int64_t outputs = p.num_output();
  l.Check(outputs >= 1, "inner_distance_param.num_output", "num_output must be given and at least 1");
  ValueId w = l.AddBlob(0, p.transpose() ? Shape{length, outputs} : Shape{outputs, length}, p.weight_filler(),
                        ParameterRole::kWeight, "inner_distance_param.weight_filler");
  if (p.transpose()) w = b.Add1("transpose", {w}, {{"perm", Ints{1, 0}}});
  return p.normalize() ? b.Pointwise("x0/sqrt(x1+1e-6)", {w, Squares(b, w)}) : w;
}

void BuildInnerDistance(LayerBuilder& l) {
  const InnerDistanceParameter& p = l.param().inner_distance_param();
  const GraphBuilder& b = l.b();
  l.Check(!p.update_center_only(), "inner_distance_param.update_center_only", "update_center_only is not part of Moka");
  const bool is_l2 = p.distance_type() == "L2";
  l.Check(is_l2 || p.distance_type() == "L1", "inner_distance_param.distance_type",
          StrCat("distance_type must be L1 or L2, found \"", p.distance_type(), "\""));
  const Shape x = l.shape(0);
  const int axis = AxisOf(l, "inner_distance_param.axis", p.axis(), x);
  const int64_t rows = x.Count(0, axis);
  const int64_t length = x.Count(axis, x.rank());
  const ValueId w = Centers(l, length);
  const int64_t outputs = b.shape(w)[0];
  const ValueId flat = b.Reshape(l.bottom(0), {rows, length});
  ValueId y = kNoId;
  if (is_l2) {
    const ValueId product = b.Add1("matmul", {flat, w}, {{"transpose_a", false}, {"transpose_b", true}});
    y = b.Pointwise("x0+x1-2*x2", {Squares(b, flat), b.Reshape(Squares(b, w), {1, outputs}), product});
  } else {
    y = b.Add1("reduce_sum", {b.Reshape(flat, {rows, 1, length}), b.Reshape(w, {1, outputs, length})},
               {{"expr", std::string("abs(x0-x1)")}, {"axes", Ints{2}}});
  }
  l.SetTop(0, b.Reshape(y, Joined(Part(x, 0, axis), {outputs})));
}

}  // namespace

LayerDef InnerDistanceLayer() {
  return {.type = "InnerDistance", .max_bottoms = 2, .build = BuildInnerDistance, .params = {"inner_distance_param"}};
}

}  // namespace moka
