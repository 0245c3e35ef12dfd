// y[m] = x[index[m]]: items of the batch chosen, repeated or reordered by a second bottom.
#include "core/text.h"
#include "layers/front/shape/layers.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) {
  l.Check(l.shape(0).rank() >= 1, "bottom[0]", "the bottom needs at least one axis");
  l.Check(l.shape(1).rank() == 1, "bottom[1]",
          StrCat("the index \"", l.param().bottom(1), "\" must have one axis, found ", l.shape(1).ToString()));
  l.SetTop(0, l.b().Add1("reindex", l.bottoms()));
}

}  // namespace

LayerDef BatchReindexLayer() {
  return {.type = "BatchReindex",
          .doc =
              "The items of the first bottom [N, ...] that the second, an index [M] of whole numbers from 0 to N-1, "
              "names: [M, ...]. An item's gradient is the sum over its places.",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .build = Build};
}

}  // namespace moka
