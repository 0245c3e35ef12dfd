// Every top is the bottom.
#include "layers/front/layers.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) {
  for (int i = 0; i < l.top_count(); ++i) l.SetTop(i, l.bottom(0));
}

}  // namespace

LayerDef SplitLayer() {
  return {.type = "Split",
          .doc = "Copies of the bottom. Never needed: a blob may be read by any number of layers.",
          .max_tops = -1,
          .build = Build};
}

}  // namespace moka
