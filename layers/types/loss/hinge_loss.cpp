// One-against-all hinge loss: sum of max(0, 1 - t*x) (or its squares) over classes, t = 1 at the label, else -1;
// divided by the batch.
#include "layers/net/layer.h"
#include "layers/shapes/shape_reader.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

void BuildHingeLoss(LayerBuilder& l) {
  const auto [rows, mask, count] = RowsWithLabels(l);
  const bool squares = l.param().hinge_loss_param().norm() == HingeLossParameter::L2;
  const Term loss = Max(1 + Term::Of(rows) * (1 - 2 * Term::Of(mask)), 0);
  l.SetTop(0, Term::Of(SumOf(l, squares ? Square(loss) : loss)) / count);
  l.SetLoss(0, 1);
}

void NeedsOfHingeLoss(const ShapeReader& reader) { NeedNumberAnItem(reader, 1); }

}  // namespace

LayerDef HingeLossLayer() {
  return {.type = "HingeLoss",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .auto_tops = true,
          .build = BuildHingeLoss,
          .traits = {.is_loss = true, .reads_scores = true},
          .needs = NeedsOfHingeLoss,
          .params = {"hinge_loss_param"}};
}

}  // namespace moka
