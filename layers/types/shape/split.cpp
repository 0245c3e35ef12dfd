// Every top is the bottom.
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildSplit(LayerBuilder& l) {
  for (int i = 0; i < l.top_count(); ++i) l.SetTop(i, l.bottom(0));
}

}  // namespace

LayerDef SplitLayer() {
  return {.type = "Split",
          .max_tops = -1,
          .build = BuildSplit,
          .traits = {.top_shape = TopShape::kOfBottoms, .hands_on = true, .copies = true}};
}

}  // namespace moka
