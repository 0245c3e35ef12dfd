// Finds by the layers' traits which outputs may not be negative; a negative one is told once, with the layer's place.
#include "optim/step/loss_signs.h"

#include "core/log.h"
#include "core/text.h"
#include "layers/net/layer.h"
#include "proto/text/places.h"

namespace moka {
namespace {

// Rounding alone makes no loss less than this.
constexpr double kLeast = -1e-4;

}  // namespace

LossSigns::LossSigns(const NetParameter& net) {
  for (const LayerParameter& layer : net.layer()) {
    const char* needed = TraitsOf(layer).is_negative_without;
    if (needed == nullptr || layer.top_size() == 0) continue;
    warnings_[layer.top(0)] = StrCat(PlaceOf(layer).ToString(), ": the loss of layer \"", Printable(layer.name()),
                                     "\" is negative, as it never is with what ", layer.type(), " needs: ", needed);
  }
}

void LossSigns::Look(const std::vector<OutputValue>& outputs) {
  for (const OutputValue& output : outputs) {
    if (!(output.value < kLeast)) continue;  // nor is NaN
    if (const auto warning = warnings_.extract(output.name)) LogWarning(warning.mapped());
  }
}

}  // namespace moka
