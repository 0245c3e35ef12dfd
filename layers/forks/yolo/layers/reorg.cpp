// Reorg (YOLO v2's pass-through): space to depth as darknet's reorg does it, which reads the bottom as if it were
// [C/s^2, H s, W s]: element (o t + c, h, w) of the result, t = C/s^2, is the one at (c, h s + o / s, w s + o % s), and
// the result is then seen as [C s^2, H/s, W/s]. With reverse that reading is undone: [C/s^2, H s, W s]. Both are
// reshapes around one transpose.
#include "core/size.h"
#include "core/text.h"
#include "layers/forks/yolo/layers/reorganised.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

constexpr int64_t kDefaultStride = 2;  // of YOLO9000's port; others' files always say it

// C / s^2.
int64_t ReadPlanes(const LayerBuilder& l, int64_t s, const std::string& field) {
  const Shape x = l.shape(0);
  l.Check(x.rank() == 4, "bottom[0]", StrCat("the bottom must be [N,C,H,W], found ", x.ToString()));
  l.Check(s >= 1 && s <= INT32_MAX, field, "stride must be from 1 to 2^31-1");
  l.Check(x[1] % (s * s) == 0, field,
          StrCat("the bottom's channels ", x.ToString(), " do not divide by stride^2 = ", s * s));
  return x[1] / (s * s);
}

void BuildReorg(LayerBuilder& l) {
  const ReorgParameter& p = l.param().reorg_param();
  const int64_t s = p.has_stride() ? p.stride() : kDefaultStride;
  if (p.reverse()) {
    const int64_t t = ReadPlanes(l, s, "reorg_param.stride");
    const GraphBuilder& b = l.b();
    const Shape x = l.shape(0);
    const ValueId apart = b.Reshape(l.bottom(0), {x[0], s, s, t, x[2], x[3]});
    const ValueId moved = b.Add1("transpose", {apart}, {{"perm", Ints{0, 3, 4, 1, 5, 2}}});
    l.SetTop(0, b.Reshape(moved, {x[0], t, (Size(x[2]) * s).value(), (Size(x[3]) * s).value()}));
    return;
  }
  l.SetTop(0, Reorganized(l, s, "reorg_param.stride"));
}

}  // namespace

ValueId Reorganized(const LayerBuilder& l, int64_t stride, const std::string& field) {
  const int64_t s = stride;
  const int64_t t = ReadPlanes(l, s, field);
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  l.Check(x[2] % s == 0 && x[3] % s == 0, field,
          StrCat("height and width of the bottom ", x.ToString(), " do not divide by the stride ", s));
  const ValueId apart = b.Reshape(l.bottom(0), {x[0], t, x[2], s, x[3], s});
  const ValueId moved = b.Add1("transpose", {apart}, {{"perm", Ints{0, 3, 5, 1, 2, 4}}});
  return b.Reshape(moved, {x[0], (Size(x[1]) * s * s).value(), x[2] / s, x[3] / s});
}

LayerDef ReorgLayer() { return {.type = "Reorg", .build = BuildReorg, .params = {"reorg_param"}}; }

}  // namespace moka
