#include "optim/step/loss_signs.h"

#include "core/log.h"
#include "core/text.h"
#include "proto/text/places.h"

namespace moka {
namespace {

// Rounding alone makes no loss less than this.
constexpr double kLeast = -1e-4;

const std::map<std::string, std::string>& Needs() {
  static const std::map<std::string, std::string> kNeeds = {
      {"MultinomialLogisticLoss", "probabilities, which a Softmax makes of scores"},
      {"SigmoidCrossEntropyLoss", "targets from 0 to 1"},
  };
  return kNeeds;
}

}  // namespace

LossSigns::LossSigns(const NetParameter& net) {
  for (const LayerParameter& layer : net.layer()) {
    const auto needs = Needs().find(layer.type());
    if (needs == Needs().end() || layer.top_size() == 0) continue;
    warnings_[layer.top(0)] =
        StrCat(PlaceOf(layer).ToString(), ": the loss of layer \"", Printable(layer.name()),
               "\" is negative, as it never is with what ", layer.type(), " needs: ", needs->second);
  }
}

void LossSigns::Look(const std::vector<OutputValue>& outputs) {
  for (const OutputValue& output : outputs) {
    if (!(output.value < kLeast)) continue;  // nor is NaN
    if (const auto warning = warnings_.extract(output.name)) LogWarning(warning.mapped());
  }
}

}  // namespace moka
