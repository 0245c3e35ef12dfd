// Reads blobs so that they are not printed as outputs.
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildSilence(LayerBuilder& l) { Require(l.top_count() == 0, "Silence has no tops"); }

}  // namespace

LayerDef SilenceLayer() {
  return {.type = "Silence",
          .max_bottoms = -1,
          .min_tops = 0,
          .max_tops = 0,
          .build = BuildSilence,
          .traits = {.reads_scores = true, .discards = true}};
}

}  // namespace moka
