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
  const Term margin = Decimal(Finite(l, "cosin_loss_param.margin", p.margin()));
  const Term scale = Decimal(Finite(l, "cosin_loss_param.scale", p.scale()));
  l.SetTop(0, scale * (Term::Of(cosine) + margin * Term::Of(mask)));
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

LayerDef SimpleNormalizeLayer() { return {.type = "SimpleNormalize", .build = BuildSimpleNormalize}; }

LayerDef CosinL2NormalizeLayer() {
  return {.type = "CosinL2Normalize",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .build = BuildCosines,
          .params = {"cosin_loss_param"}};
}

LayerDef Identity2VerifyLayer() {
  return {.type = "Identity2Verify",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .min_tops = 3,
          .max_tops = 3,
          .build = BuildVerify};
}

LayerDef SampleTripletLayer() {
  return {.type = "SampleTriplet",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .build = BuildSample,
          .params = {"sample_triplet_param"}};
}

}  // namespace moka
