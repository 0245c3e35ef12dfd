// The losses of generative adversarial nets, each the mean over scores of a function of one score.
#include <array>

#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

// log(1 + exp(x)) without overflow; of -x as well.
constexpr const char* kSoftplus = "max(x0,0)+log(1+exp(-abs(x0)))";
constexpr const char* kSoftplusOfMinus = "max(-x0,0)+log(1+exp(-abs(x0)))";

// By kind and side, in the order of GanLossParameter.
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
  l.SetTop(0, l.b().Pointwise(StrCat("x0/", l.shape(0).Count()), {sum}));
  l.SetLoss(0, 1);
}

}  // namespace

LayerDef GanLossLayer() {
  return {
      .type = "GanLoss",
      .doc =
          "A critic's or a generator's loss: the mean over scores of a function that gan_loss_param's kind (LOGISTIC, "
          "HINGE, WASSERSTEIN, LEAST_SQUARES) and side (REAL, FAKE, GENERATOR) choose.",
      .auto_tops = true,
      .build = BuildGanLoss,
      .page = {
          .params = {"gan_loss_param"},
          .formula =
              "`y = mean of f(x)` over all elements of the bottom, which are scores, not probabilities; a scalar. Its "
              "loss weight is 1 unless given. f is\n\n| kind | REAL | FAKE | GENERATOR |\n|---|---|---|---|\n| "
              "LOGISTIC "
              "| log(1 + exp(-x)) | log(1 + exp(x)) | log(1 + exp(-x)) |\n| HINGE | max(0, 1 - x) | max(0, 1 + x) | -x "
              "|\n| WASSERSTEIN | -x | x | -x |\n| LEAST_SQUARES | (x - 1)^2 / 2 | x^2 / 2 | (x - 1)^2 / 2 |\n\nA "
              "critic's net has a REAL and a FAKE loss, a generator's one GENERATOR loss (the solver's `turn` fields "
              "say who learns when).",
          .gradient = "`dx = dy * f'(x) / count`; at the hinge's kink 0.",
          .source =
              "LOGISTIC: Goodfellow et al., arXiv 1406.2661, the generator's loss that does not saturate. HINGE: Lim, "
              "Ye, arXiv 1705.02894; Miyato et al., arXiv 1802.05957. WASSERSTEIN: Arjovsky, Chintala, Bottou, arXiv "
              "1701.07875; its critic's weights are clipped (`clip_weights` of a turn). LEAST_SQUARES: Mao et al., "
              "arXiv 1611.04076, with a = 0 and b = c = 1.",
          .example = R"(layer { name: "score" type: "Input" top: "score" input_param { shape { dim: 4 dim: 1 } } }
layer {
  name: "loss"
  type: "GanLoss"
  bottom: "score"
  top: "loss"
  gan_loss_param { kind: HINGE side: FAKE }
})"}};
}

}  // namespace moka
