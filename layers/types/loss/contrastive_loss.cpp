// Contrastive loss of pairs (Hadsell et al. 2006): d^2 of similar pairs and max(margin - d, 0)^2 of the others, summed
// and divided by 2N. The gradient of the latter is Caffe's, with d + 1e-4 as divisor: where a pair coincides it is 0.
// CaffeExp, of the time before the layer was put right, has max(margin - d^2, 0); its nets give a fourth bottom, which
// its layer does not read, and name the right one MineContrastiveLoss.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/shape_reader.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

// The divisor of the gradient of a pair that is not similar, of its squared distance.
using Divisor = Term (*)(const Term& square);

void BuildContrastive(LayerBuilder& l, const Term& margin, bool is_legacy, Divisor divisor) {
  const GraphBuilder& b = l.b();
  const ValueId x = Vectors(l, 0);
  const ValueId y = Vectors(l, 1);
  const int64_t count = l.shape(0)[0];
  l.Check(l.shape(2).Count() == count, "bottom[2]",
          StrCat("bottom \"", l.param().bottom(2), "\" must have one value for each of the ", count, " pairs, found ",
                 l.shape(2).ToString()));
  const ValueId similar = b.Reshape(l.bottom(2), {count, 1});
  const ValueId distances = Summed(b, Square(Term::Of(x) - Term::Of(y)), {1});  // [N,1]
  const std::vector<ValueId> inputs{distances, similar};
  const Term square = Term::Of(distances);
  // Caffe's similarity is the integer part.
  const Term is_similar = Abs(Term::Of(similar)) >= 1;
  const Term gap = margin - (is_legacy ? square : Sqrt(square));
  const Term apart = is_legacy ? Max(gap, 0) : Square(Max(gap, 0));
  const Term slope = is_legacy ? -(gap > 0) : -Max(gap, 0) / divisor(square);
  const ValueId sum = SumOf(l, Select(is_similar, square, apart), inputs);
  // The gradient of the sum over 2: factor * (x - y) for x, its negative for y.
  const ValueId factor = b.Pointwise(Select(is_similar, 1, slope), inputs);
  const ValueId dx = b.Pointwise("x0*(x1-x2)", {factor, x, y});
  const ValueId half = b.Pointwise("x0/2", {sum});
  const ValueId loss = WithGradients(l, half, {{x, dx}, {y, b.Pointwise("-x0", {dx})}});
  l.SetTop(0, Term::Of(loss) / count);
  l.SetLoss(0, 1);
}

void BuildContrastive(LayerBuilder& l) {
  const ContrastiveLossParameter& p = l.param().contrastive_loss_param();
  l.Check(l.bottom_count() == 3 || !p.has_legacy_version() || p.legacy_version(),
          "contrastive_loss_param.legacy_version",
          "a fourth bottom belongs to the version of the layer that legacy_version names");
  BuildContrastive(l, Decimal(Finite(l, "contrastive_loss_param.margin", p.margin())),
                   p.legacy_version() || l.bottom_count() == 4, [](const Term& square) { return Sqrt(square) + 1e-4; });
}

void BuildMine(LayerBuilder& l) {
  const ContrastiveLossParameter& p = l.param().mine_contrastive_loss_param();
  l.Check(!p.has_legacy_version(), "mine_contrastive_loss_param.legacy_version",
          "MineContrastiveLoss has no legacy_version");
  BuildContrastive(l, Decimal(Finite(l, "mine_contrastive_loss_param.margin", p.margin())), false,
                   [](const Term& square) { return Select(square > 0, Sqrt(square), 1); });
}

// Two rows of one length, and whether they belong together.
void NeedsOfContrastiveLoss(const ShapeReader& reader) {
  NeedNumberAnItem(reader, 2);
  const Shape* a = reader.bottom(0);
  const Shape* b = reader.bottom(1);
  if (reader.has_failed() && a != nullptr && b != nullptr && a->rank() > b->rank()) reader.Require(1, *a);
}

}  // namespace

LayerDef ContrastiveLossLayer() {
  return {.type = "ContrastiveLoss",
          .min_bottoms = 3,
          .max_bottoms = 4,
          .auto_tops = true,
          .build = BuildContrastive,
          .traits = {.is_loss = true},
          .needs = NeedsOfContrastiveLoss,
          .params = {"contrastive_loss_param"}};
}

LayerDef MineContrastiveLossLayer() {
  return {.type = "MineContrastiveLoss",
          .min_bottoms = 3,
          .max_bottoms = 4,
          .auto_tops = true,
          .build = BuildMine,
          .traits = {.is_loss = true},
          .params = {"mine_contrastive_loss_param"}};
}

}  // namespace moka
