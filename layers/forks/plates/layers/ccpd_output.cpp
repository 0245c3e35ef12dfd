// Licence plates (yuqj1991's Caffe): the best class of each of the seven heads, and whether a plate is right.
#include "core/text.h"
#include "layers/net/fields.h"
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
  return b.Pointwise(StrCat(classes - 1, "-x0"), {best});
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
  ValueId right = b.Pointwise(StrCat("eq(x0,", kHeads, ")"), {equal});
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
          .doc =
              "The best class of each of a licence plate's seven characters: bottoms are the probabilities of the "
              "province [N,num_chinese], of the city's letter [N,num_english] and of five letters or digits "
              "[N,num_letter] each (lp_det_param); the top is [1,1,N,7].",
          .min_bottoms = kHeads,
          .max_bottoms = kHeads,
          .build = BuildOutput,
          .page = {
              .params = {"lp_det_param"},
              .formula =
                  "`y[0,0,n,k]` is the class c with the highest `x_k[n,c]`, the first of equals; 0 where no value is "
                  "above 0.",
              .gradient = "None: no bottom gets one.",
              .source = "yuqj1991's Caffe, detection_ccpd_output_layer, for the plates of CCPD (Xu et al., ECCV 2018).",
              .example = R"(layer { name: "p" type: "Input" top: "p" input_param { shape { dim: 2 dim: 4 } } }
layer { name: "c" type: "Input" top: "c" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "d" type: "Input" top: "d" input_param { shape { dim: 2 dim: 5 } } }
layer {
  name: "plate"
  type: "DetectionCcpdOutput"
  bottom: "p"
  bottom: "c"
  bottom: "d"
  bottom: "d"
  bottom: "d"
  bottom: "d"
  bottom: "d"
  top: "plate"
  lp_det_param { num_chinese: 4 num_english: 3 num_letter: 5 }
})"}};
}

LayerDef LpEvaluateLayer() {
  return {
      .type = "LpEvaluate",
      .doc =
          "Whether licence plates are read right: bottoms are N rows of seven characters as read and as they are; the "
          "top [1,1,N,1] is 1 from the first plate on whose seven characters all agree, 0 before. N is bottom 0's "
          "first dimension: 1 for the top of DetectionCcpdOutput, of which only the first plate is looked at.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .build = BuildEvaluate,
      .page = {
          .params = {"lp_evaluate_param"},
          .formula = "`y[0,0,n,0]` is 1 if for some m <= n the values 7 m to 7 m + 6 of both bottoms, in row-major "
                     "order, are equal; else 0. lp_evaluate_param is read and not used.",
          .gradient = "None: neither bottom gets one.",
          .source = "yuqj1991's Caffe, ccpdlp_evaluate_layer, with what it does and may not have meant: its mark for "
                    "a right plate is never set back, and the rows of [1,1,N,7] count as one plate.",
          .example = R"(layer { name: "read" type: "Input" top: "read" input_param { shape { dim: 2 dim: 7 } } }
layer { name: "plate" type: "Input" top: "plate" input_param { shape { dim: 2 dim: 7 } } }
layer { name: "right" type: "LpEvaluate" bottom: "read" bottom: "plate" top: "right" })"}};
}

}  // namespace moka
