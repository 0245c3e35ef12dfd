// The losses of generative adversarial nets, each the mean over scores of a function of one score.
#include <array>

#include "layers/net/layer.h"

namespace moka {
namespace {

// log(1 + exp(x)) without overflow; of -x as well.
constexpr const char* kSoftplus = "max(x0,0)+log(1+exp(-abs(x0)))";
constexpr const char* kSoftplusOfMinus = "max(-x0,0)+log(1+exp(-abs(x0)))";

// The losses of a score by kind and side, in the order of GanLossParameter.
constexpr std::array<std::array<const char*, 3>, 4> kOfScore = {{
    {kSoftplusOfMinus, kSoftplus, kSoftplusOfMinus},
    {"max(1-x0,0)", "max(1+x0,0)", "-x0"},
    {"-x0", "x0", "-x0"},
    {"(x0-1)*(x0-1)/2", "x0*x0/2", "(x0-1)*(x0-1)/2"},
}};

void BuildGanLoss(LayerBuilder& l) {
  const GanLossParameter& p = l.param().gan_loss_param();
  const char* of_score = kOfScore.at(static_cast<size_t>(p.kind())).at(static_cast<size_t>(p.side()));
  const ValueId sum = l.b().SumAll(l.b().Pointwise(of_score, {l.bottom(0)}));
  l.SetTop(0, Term::Of(sum) / l.shape(0).Count());
  l.SetLoss(0, 1);
}

}  // namespace

LayerDef GanLossLayer() {
  return {.type = "GanLoss",
          .auto_tops = true,
          .build = BuildGanLoss,
          .traits = {.is_loss = true},
          .params = {"gan_loss_param"}};
}

}  // namespace moka
