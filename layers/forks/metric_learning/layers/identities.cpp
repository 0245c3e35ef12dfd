// Features of identities (yuqj1991's face recognition and re-identification): their norms, cosines with a margin, pairs
// and triplets of them.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/net/random_stream.h"
#include "layers/types/loss/own_gradient.h"
#include "layers/types/normalisation/unit_norm.h"

namespace moka {
namespace {

constexpr double kCosineEps = 1e-11;

void BuildSimpleNormalize(LayerBuilder& l) {
  const Shape x = l.shape(0);
  l.Check(x.rank() >= 1 && x.rank() <= 4, "bottom[0]",
          StrCat("the bottom must have 1 to 4 axes, found ", x.ToString()));
  l.SetTop(0, l.b().Reshape(UnitItems(l, l.bottom(0), 0, 0),
                            Shape{x[0], x.rank() > 1 ? x[1] : 1, x.rank() > 2 ? x[2] : 1, x.rank() > 3 ? x[3] : 1}));
}

void BuildCosines(LayerBuilder& l) {
  const CosinLossParameter& p = l.param().cosin_loss_param();
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  const int axis = AxisOf(l, "cosin_loss_param.axis", p.axis(), x);
  l.Check(axis == 1, "cosin_loss_param.axis", StrCat("axis must be 1, found ", p.axis()));
  l.Check(p.num_output() >= 1, "cosin_loss_param.num_output", "num_output must be given and at least 1");
  l.Check(l.shape(1).Count() == x[0], "bottom[1]",
          StrCat("bottom \"", l.param().bottom(1), "\" must have ", x[0], " labels, found ", l.shape(1).ToString()));
  const int64_t classes = p.num_output();
  const int64_t length = x.Count(1, x.rank());
  const ValueId weight =
      l.AddBlob(0, {classes, length}, p.cosin_filler(), ParameterRole::kWeight, "cosin_loss_param.cosin_filler");
  const ValueId cosine =
      b.Add1("matmul",
             {UnitItems(l, b.Reshape(l.bottom(0), {x[0], length}), kCosineEps, 0), UnitItems(l, weight, kCosineEps, 0)},
             {{"transpose_a", false}, {"transpose_b", true}});
  const ValueId mask =
      b.Add1("label_mask", {Constant(l, l.bottom(1))}, {{"shape", Ints{x[0], classes}}, {"axis", int64_t{1}}});
  const std::string margin = Number(Finite(l, "cosin_loss_param.margin", p.margin()));
  const std::string scale = Number(Finite(l, "cosin_loss_param.scale", p.scale()));
  l.SetTop(0, b.Pointwise(StrCat(scale, "*(x0+", margin, "*x1)"), {cosine, mask}));
}

void BuildVerify(LayerBuilder& l) {
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  const Shape label = l.shape(1);
  l.Check(x.rank() >= 1 && x[0] >= 2 && x[0] % 2 == 0, "bottom[0]",
          StrCat("the bottom must have an even number of items, found ", x.ToString()));
  l.Check(label.rank() >= 1 && label.Count() == x[0] && label[0] == x[0], "bottom[1]",
          StrCat("bottom \"", l.param().bottom(1), "\" must have ", x[0], " labels, found ", label.ToString()));
  const auto pairs = [&](ValueId value, const Shape& shape) {
    const ValueId rows = b.Reshape(value, {x[0] / 2, 2, shape.Count(1, shape.rank())});
    std::vector<ValueId> parts = b.Add("slice", {rows}, {{"axis", int64_t{1}}, {"sizes", Ints{1, 1}}});
    for (ValueId& part : parts) part = b.Reshape(part, shape.With(0, x[0] / 2));
    return parts;
  };
  const std::vector<ValueId> items = pairs(l.bottom(0), x);
  const std::vector<ValueId> labels = pairs(Constant(l, l.bottom(1)), label);
  l.SetTop(0, items[0]);
  l.SetTop(1, items[1]);
  l.SetTop(2, b.Pointwise("lt(abs(x0-x1),1)", labels));
}

void BuildSample(LayerBuilder& l) {
  const Shape x = l.shape(0);
  l.Check(x.rank() >= 2 && x.Count() > 0, "bottom[0]", StrCat("the bottom must be [N,..], found ", x.ToString()));
  l.Check(l.shape(1).Count() >= 1, "bottom[1]", "there must be a count for each label");
  const double alpha = Finite(l, "sample_triplet_param.alpha", l.param().sample_triplet_param().alpha());
  const GraphBuilder& b = l.b();
  const int64_t labels = l.shape(1).Count();
  const ValueId triplets =
      b.Add1("near_negatives",
             {b.Reshape(l.bottom(0), {x[0], x.Count(1, x.rank())}), b.Reshape(l.bottom(1), {labels}), l.RandomKey()},
             {{"alpha", alpha}, {"stream", static_cast<int64_t>(RandomStreamOf(l))}});
  l.SetTop(0, b.Reshape(triplets, {labels, 3, 1, 1}));
}

}  // namespace

LayerDef SimpleNormalizeLayer() {
  return {.type = "SimpleNormalize",
          .doc =
              "Each item of the batch over its norm: all elements of an item are one vector. The top is [N,C,H,W] "
              "with 1 for axes that the bottom lacks.",
          .build = BuildSimpleNormalize,
          .page = {.params = {},
                   .formula = "`y_n = x_n / |x_n|`, the norm over all elements of item n; 0 where x_n is 0.",
                   .gradient = "`dx_n = (dy_n - y_n (y_n . dy_n)) / |x_n|`; 0 where x_n is 0.",
                   .source = "yuqj1991's Caffe, simplenormalize_layer, whose top is not a number where x_n is 0.",
                   .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "norm" type: "SimpleNormalize" bottom: "x" top: "norm" })"}};
}

LayerDef CosinL2NormalizeLayer() {
  return {.type = "CosinL2Normalize",
          .doc =
              "CosFace's output layer. Bottoms: features [N,..] and N labels. The top [N,num_output] is scale times "
              "the cosines of each item with the vectors of the classes (blob 0, [num_output,D]), margin being added "
              "to that of the label, in both phases.",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .build = BuildCosines,
          .page = {.params = {"cosin_loss_param"},
                   .formula = "`y[n,k] = scale * (x_n . W_k / (|x_n| |W_k|) + margin [k = label_n])`, scale 64 and "
                              "margin -0.35 unless given; 1e-11 is added to both squared norms.",
                   .gradient = "The derivative of the formula for x and W. Labels get none.",
                   .source = "CosFace (Wang et al., arXiv 1801.09414); yuqj1991's Caffe, "
                             "cosin_l2_normalize_innerproduct. There the gradient of W is that of all iterations so "
                             "far added up, since its buffer is never cleared; here it is that of the batch.",
                   .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 4 } } }
layer {
  name: "cosines"
  type: "CosinL2Normalize"
  bottom: "x"
  bottom: "label"
  top: "cosines"
  cosin_loss_param { num_output: 5 scale: 30 cosin_filler { type: "xavier" } }
})"}};
}

LayerDef Identity2VerifyLayer() {
  return {.type = "Identity2Verify",
          .doc =
              "Items and their labels as pairs: top 0 is items 0, 2, .. of bottom 0, top 1 items 1, 3, .., top 2 "
              "1 for a pair whose labels (bottom 1) are equal, else 0.",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .min_tops = 3,
          .max_tops = 3,
          .build = BuildVerify,
          .page = {.params = {},
                   .formula = "`a_i = x[2 i]`, `b_i = x[2 i + 1]`, `s_i = [|label[2 i] - label[2 i + 1]| < 1]`, i from "
                              "0 to N/2 - 1; a and b are [N/2,..] like bottom 0, s like bottom 1.",
                   .gradient = "Each item gets that of its copy. Labels get none.",
                   .source = "yuqj1991's Caffe, identity2verify_layer.",
                   .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 4 } } }
layer {
  name: "pairs"
  type: "Identity2Verify"
  bottom: "x"
  bottom: "label"
  top: "a"
  top: "b"
  top: "same"
})"}};
}

LayerDef SampleTripletLayer() {
  return {.type = "SampleTriplet",
          .doc =
              "Triplets of rows of features [N,..] that come label by label, bottom 1 [L] saying how many rows each "
              "label has. The top [L,3,1,1] has anchor, positive and negative of the first L triplets; -1 where there "
              "are fewer.",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .build = BuildSample,
          .page = {.params = {"sample_triplet_param"},
                   .formula =
                       "For each label, each of its rows a but the last and each later row p of it: of the rows n of "
                       "other labels with `|a-n|^2 < |a-p|^2 + alpha` (default 0.2) one is drawn; without any there is "
                       "no triplet. The triplets are in that order.",
                   .gradient = "None: no bottom gets one.",
                   .source =
                       "After FaceNet (Schroff, Kalenichenko, Philbin, arXiv 1503.03832); yuqj1991's Caffe, "
                       "sample_triplet_layer. There the top grows with the triplets found, but its TripletLoss reads L "
                       "rows, those of older batches where there are fewer; here the others are left out.",
                   .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "counts" type: "DummyData" top: "counts" dummy_data_param { shape { dim: 2 } data_filler { value: 2 } } }
layer {
  name: "triplets"
  type: "SampleTriplet"
  bottom: "x"
  bottom: "counts"
  top: "triplets"
  sample_triplet_param { alpha: 0.5 }
})"}};
}

}  // namespace moka
