// Licence plates (yuqj1991's Caffe): the best class of each of the seven heads, and whether a plate is right.
#include "core/text.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

constexpr int kHeads = 7;

// The first of a head's highest values above 0, class 0 if there is none; [N,1].
ValueId BestClass(const LayerBuilder& l, int head, int64_t classes) {
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(head);
  l.Check(x.rank() >= 1 && x[0] == l.shape(0)[0] && x.Count() == x[0] * classes, StrCat("bottom[", head, "]"),
          StrCat("bottom \"", l.param().bottom(head), "\" must have ", classes, " values for each of ", l.shape(0)[0],
                 " plates, found ", x.ToString()));
  // argmax takes the last of equals, so the classes are turned round.
  const ValueId rows = b.Reshape(b.Pointwise("max(x0,0)", {l.bottom(head)}), {x[0], classes});
  const ValueId turned = b.Add1("flip", {rows}, {{"axes", Ints{1}}});
  const ValueId best = b.Add1("argmax", {turned}, {{"has_axis", true}, {"axis", int64_t{1}}});
  return Computed(b, classes - 1 - Term::Of(best));
}

void BuildOutput(LayerBuilder& l) {
  const LpDetParameter& p = l.param().lp_det_param();
  l.Check(p.num_chinese() >= 1 && p.num_english() >= 1 && p.num_letter() >= 1, "lp_det_param",
          "num_chinese, num_english and num_letter must be given, at least 1");
  l.Check(l.shape(0).rank() >= 1, "bottom[0]", "the bottoms need a batch axis");
  std::vector<ValueId> best;
  for (int head = 0; head < kHeads; ++head) {
    best.push_back(BestClass(l, head, head == 0 ? p.num_chinese() : head == 1 ? p.num_english() : p.num_letter()));
  }
  const ValueId plates = l.b().Add1("concat", best, {{"axis", int64_t{1}}});
  l.SetTop(0, l.b().Reshape(plates, {1, 1, l.shape(0)[0], kHeads}));
}

// The first N * 7 values of a bottom as rows.
ValueId PlatesOf(const LayerBuilder& l, int bottom, int64_t plates) {
  const int64_t count = l.shape(bottom).Count();
  l.Check(count >= plates * kHeads, StrCat("bottom[", bottom, "]"),
          StrCat("bottom \"", l.param().bottom(bottom), "\" ", l.shape(bottom).ToString(), " has no ", kHeads,
                 " characters for each of ", plates, " plates"));
  ValueId flat = l.b().Reshape(l.bottom(bottom), {count});
  if (count > plates * kHeads) {
    const Ints sizes{plates * kHeads, count - plates * kHeads};
    flat = l.b().Add("slice", {flat}, {{"axis", int64_t{0}}, {"sizes", sizes}})[0];
  }
  return l.b().Reshape(flat, {plates, kHeads});
}

// Plate i counts as right if it or one before it is: the fork never sets its mark back.
void BuildEvaluate(LayerBuilder& l) {
  const GraphBuilder& b = l.b();
  l.Check(l.shape(0).rank() >= 1, "bottom[0]", "the bottom needs a batch axis");
  const int64_t plates = l.shape(0)[0];
  const ValueId equal = b.Add1("reduce_sum", {PlatesOf(l, 0, plates), PlatesOf(l, 1, plates)},
                               {{"expr", std::string("eq(x0,x1)")}, {"axes", Ints{1}}});
  ValueId right = Computed(b, Term::Of(equal) == kHeads);
  if (plates > 1) {
    const Ints ones(static_cast<size_t>(plates), 1);
    std::vector<ValueId> each = b.Add("slice", {right}, {{"axis", int64_t{0}}, {"sizes", ones}});
    for (size_t i = 1; i < each.size(); ++i) each[i] = b.Pointwise("max(x0,x1)", {each[i - 1], each[i]});
    right = b.Add1("concat", each, {{"axis", int64_t{0}}});
  }
  l.SetTop(0, b.Reshape(right, {1, 1, plates, 1}));
}

}  // namespace

LayerDef DetectionCcpdOutputLayer() {
  return {.type = "DetectionCcpdOutput",
          .min_bottoms = kHeads,
          .max_bottoms = kHeads,
          .build = BuildOutput,
          .params = {"lp_det_param"}};
}

LayerDef LpEvaluateLayer() {
  return {.type = "LpEvaluate",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .build = BuildEvaluate,
          .params = {"lp_evaluate_param"}};
}

}  // namespace moka
