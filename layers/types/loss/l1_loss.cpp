// sum |a - b| / N, N the batch (NVIDIA's layer). With one bottom, or a field of l1_loss_param, it is FlowNet's (Ilg et
// al., arXiv 1612.01925), for which NaN is what is not known: it counts for nothing.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/shape_reader.h"
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
  const Term known = Term::Of(d);
  const ValueId squares = Summed(b, Select(known == known, known * known * Decimal(scale), 0), {1});
  const Term square = Term::Of(squares);
  return SumOf(l, Sqrt(Select(square < Decimal(plateau * plateau), 0, square) + Decimal(epsilon)));
}

void BuildFlowNets(LayerBuilder& l) {
  const L1LossParameter& p = l.param().l1_loss_param();
  const GraphBuilder& b = l.b();
  const double plateau = Finite(l, "l1_loss_param.plateau", p.plateau());
  l.Check(plateau >= 0, "l1_loss_param.plateau", StrCat("plateau must not be negative, found ", plateau));
  const Shape x = l.shape(0);
  l.Check(x.rank() >= 1 && x.Count() >= 1, "bottom[0]", StrCat("the bottom must have values, found ", x.ToString()));
  const ValueId d = l.bottom_count() == 2 ? b.Pointwise("x0-x1", {l.bottom(0), Like0(l, 1)}) : l.bottom(0);
  const Term difference = Term::Of(d);
  const Term length =
      Select(difference == difference, Select(Abs(difference) < Decimal(plateau), 0, Abs(difference)), 0);
  const ValueId sum = p.l2_per_location() ? Lengths(l, d, plateau) : SumOf(l, length);
  if (!p.normalize_by_num_entries()) {
    l.SetTop(0, Term::Of(sum) / x[0]);
  } else {
    const double channels = x.rank() >= 2 ? static_cast<double>(x[1]) : 1;
    const ValueId known = SumOf(l, "eq(x0,x0)", {Constant(l, d)});
    l.SetTop(0, Term::Of(sum) / Term::Of(l.MeanOverRanks(known)) * Decimal(channels));
  }
  l.SetLoss(0, 1);
}

void BuildL1Loss(LayerBuilder& l) {
  if (IsFlowNets(l)) {
    BuildFlowNets(l);
    return;
  }
  const ValueId b = Like0(l, 1);
  l.SetTop(0, Term::Of(SumOf(l, "abs(x0-x1)", {l.bottom(0), b})) / l.shape(0)[0]);
  l.SetLoss(0, 1);
}

}  // namespace

LayerDef L1LossLayer() {
  return {.type = "L1Loss",
          .min_bottoms = 1,
          .max_bottoms = 2,
          .auto_tops = true,
          .build = BuildL1Loss,
          .traits = {.is_loss = true, .is_regression = true},
          .needs = NeedEqualCounts,
          .params = {"l1_loss_param"}};
}

}  // namespace moka
