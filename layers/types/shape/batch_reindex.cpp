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
  return {
      .type = "BatchReindex",
      .doc =
          "The items of the first bottom [N, ...] that the second, an index [M] of whole numbers from 0 to N-1, "
          "names: [M, ...]. An item's gradient is the sum over its places.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .build = BuildBatchReindex,
      .page = {.params = {},
               .formula = "`y[m, ...] = x[index[m], ...]`: y [M, ...] from x [N, ...] and index [M], floats that hold "
                          "whole numbers from 0 to N-1. Items may be left out, repeated and reordered; any other index "
                          "is an error.",
               .gradient = "`dx[n] = sum of dy[m] over all m with index[m] = n`, 0 for an item that is not named. None "
                           "for the index.",
               .source = "BVLC Caffe's batch_reindex_layer.",
               .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 3 dim: 4 } } }
layer {
  name: "index"
  type: "DummyData"
  top: "index"
  dummy_data_param { shape { dim: 5 } data_filler { type: "constant" value: 2 } }
}
layer { name: "rows" type: "BatchReindex" bottom: "x" bottom: "index" top: "rows" })"}};
}

}  // namespace moka
