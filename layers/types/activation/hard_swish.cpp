// y = x * min(max(x + 3, 0), 6) / 6 (MobileNetV3, Howard et al., arXiv 1905.02244).
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildHardSwish(LayerBuilder& l) {
  const Term x = l.Bottom(0);
  l.SetTop(0, x * Min(Max(x + 3, 0), 6) / 6);
}

}  // namespace

LayerDef HardSwishLayer() { return {.type = "HardSwish", .build = BuildHardSwish}; }

}  // namespace moka
