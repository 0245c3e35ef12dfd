// sum |a - b| / N, N the batch (NVIDIA's layer). With one bottom, or a field of l1_loss_param, it is FlowNet's (Ilg et
// al., arXiv 1612.01925), for which NaN is what is not known: it counts for nothing.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

bool IsFlowNets(const LayerBuilder& l) {
  const L1LossParameter& p = l.param().l1_loss_param();
  return l.bottom_count() == 1 || p.has_l2_per_location() || p.has_l2_prescale_by_channels() ||
         p.has_normalize_by_num_entries() || p.has_epsilon() || p.has_plateau();
}

// The sum of the vectors' lengths over all pixels. Those within the plateau, and unknown ones, still cost epsilon's
// root.
ValueId Lengths(const LayerBuilder& l, ValueId d, double plateau) {
  const L1LossParameter& p = l.param().l1_loss_param();
  const GraphBuilder& b = l.b();
  const double epsilon = Finite(l, "l1_loss_param.epsilon", p.epsilon());
  l.Check(epsilon >= 0, "l1_loss_param.epsilon", StrCat("epsilon must not be negative, found ", epsilon));
  const Shape x = l.shape(0);
  l.Check(x.rank() >= 2, "bottom[0]", StrCat("l2_per_location needs a channel axis, found ", x.ToString()));
  const double scale = p.l2_prescale_by_channels() ? 1 / static_cast<double>(x[1]) : 1;
  const std::string square = StrCat("select(eq(x0,x0),x0*x0*", Number(scale), ",0)");
  const ValueId squares = b.Add1("reduce_sum", {d}, {{"expr", square}, {"axes", Ints{1}}});
  return SumOf(l, StrCat("sqrt(select(lt(x0,", Number(plateau * plateau), "),0,x0)+", Number(epsilon), ")"), {squares});
}

void BuildFlowNets(LayerBuilder& l) {
  const L1LossParameter& p = l.param().l1_loss_param();
  const GraphBuilder& b = l.b();
  const double plateau = Finite(l, "l1_loss_param.plateau", p.plateau());
  l.Check(plateau >= 0, "l1_loss_param.plateau", StrCat("plateau must not be negative, found ", plateau));
  const Shape x = l.shape(0);
  l.Check(x.rank() >= 1 && x.Count() >= 1, "bottom[0]", StrCat("the bottom must have values, found ", x.ToString()));
  const ValueId d = l.bottom_count() == 2 ? b.Pointwise("x0-x1", {l.bottom(0), Like0(l, 1)}) : l.bottom(0);
  const ValueId sum =
      p.l2_per_location()
          ? Lengths(l, d, plateau)
          : SumOf(l, StrCat("select(eq(x0,x0),select(lt(abs(x0),", Number(plateau), "),0,abs(x0)),0)"), {d});
  if (!p.normalize_by_num_entries()) {
    l.SetTop(0, b.Pointwise(StrCat("x0/", x[0]), {sum}));
  } else {
    const double channels = x.rank() >= 2 ? static_cast<double>(x[1]) : 1;
    const ValueId known = SumOf(l, "eq(x0,x0)", {Constant(l, d)});
    l.SetTop(0, b.Pointwise(StrCat("x0/x1*", Number(channels)), {sum, l.MeanOverRanks(known)}));
  }
  l.SetLoss(0, 1);
}

void BuildL1Loss(LayerBuilder& l) {
  if (IsFlowNets(l)) {
    BuildFlowNets(l);
    return;
  }
  const ValueId b = Like0(l, 1);
  l.SetTop(0, l.b().Pointwise(StrCat("x0/", l.shape(0)[0]), {SumOf(l, "abs(x0-x1)", {l.bottom(0), b})}));
  l.SetLoss(0, 1);
}

}  // namespace

LayerDef L1LossLayer() {
  return {
      .type = "L1Loss",
      .doc =
          "The sum of absolute differences of the two bottoms divided by the batch, a scalar; the bottoms have one "
          "batch and one count, and both get a gradient. FlowNet's, with one bottom or a field of l1_loss_param: NaNs "
          "count for nothing; l2_per_location: the lengths of the channels' vectors; plateau: what is below costs "
          "nothing; normalize_by_num_entries: divided by the pixels that are known.",
      .min_bottoms = 1,
      .max_bottoms = 2,
      .auto_tops = true,
      .build = BuildL1Loss,
      .page = {
          .params = {"l1_loss_param"},
          .formula =
              "`y = sum of |a - b| / N`, a scalar; N is a's first dimension. a and b have one first dimension and one "
              "number of elements. Its loss weight is 1 unless given.\n\nWith one bottom (d = a) or a field of "
              "l1_loss_param, `d = a - b`, 0 where it is NaN: `y = sum of |d| / Z`, |d| below plateau (default 0) "
              "left out; with l2_per_location `y = sum over pixels of sqrt(s + epsilon) / Z`, s the sum of d^2 over "
              "the channels (axis 1), divided by their number with l2_prescale_by_channels, and 0 where it is below "
              "plateau^2; epsilon is 0.01 by default. Z is N, or with normalize_by_num_entries the number of d that "
              "are not NaN divided by the channels.",
          .gradient =
              "`da = dy * sign(a - b) / N`, 0 where they are equal; `db = -da`: both bottoms get one. "
              "l2_per_location: `da = dy * d / sqrt(s + epsilon) / Z` (divided by the channels where s is), 0 where d "
              "is NaN or s below the plateau.",
          .source = "NVIDIA's Caffe, l1_loss_layer, and FlowNet 2's (Ilg et al., arXiv 1612.01925) layer of that "
                    "name; without a field and with two bottoms they differ for NaN alone, of which NVIDIA's is kept.",
          .example = R"(layer { name: "a" type: "Input" top: "a" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "b" type: "Input" top: "b" input_param { shape { dim: 2 dim: 3 } } }
layer {
  name: "loss"
  type: "L1Loss"
  bottom: "a"
  bottom: "b"
  top: "loss"
})"}};
}

}  // namespace moka
