// Reads blobs so that they are not printed as outputs.
#include "layers/front/layers.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) { Require(l.top_count() == 0, "Silence has no tops"); }

}  // namespace

LayerDef SilenceLayer() {
  return {.type = "Silence",
          .doc = "Reads its bottoms, so that they are no outputs of the net.",
          .max_bottoms = -1,
          .min_tops = 0,
          .max_tops = 0,
          .build = Build};
}

}  // namespace moka
