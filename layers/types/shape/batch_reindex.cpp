// y[m] = x[index[m]]: items of the batch chosen, repeated or reordered by a second bottom.
#include "core/text.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildBatchReindex(LayerBuilder& l) {
  l.Check(l.shape(0).rank() >= 1, "bottom[0]", "the bottom needs at least one axis");
  l.Check(l.shape(1).rank() == 1, "bottom[1]",
          StrCat("the index \"", l.param().bottom(1), "\" must have one axis, found ", l.shape(1).ToString()));
  l.SetTop(0, l.b().Add1("reindex", l.bottoms()));
}

}  // namespace

LayerDef BatchReindexLayer() {
  return {.type = "BatchReindex", .min_bottoms = 2, .max_bottoms = 2, .build = BuildBatchReindex};
}

}  // namespace moka
