// Reusable blocks: groups of layers defined once in NetParameter.block and used by layers of type "Block".
//
//   block { name: "unit" param { name: "id" } param { name: "width" default: "64" to:
//   "conv.convolution_param.num_output" }
//     layer { name: "conv" type: "Convolution" bottom: "${bottom}" top: "unit${id}" convolution_param { kernel_size: 3
//     } } }
//   layer { name: "u1" type: "Block" bottom: "data" top: "unit1" block_param { block: "unit" set: "id=1" set:
//   "width=32" } }
//
// In texts of the block's layers `${x}` is parameter x; `${name}`, `${bottom}`, `${bottom1}`, `${top}`, ... are the
// using layer's. `to` sets typed fields; whole numbers may be products ("6*${classes}"). Names are used as written:
// what must differ between uses needs a parameter. The using layer's include/exclude rules go to every layer of the
// block. Blocks may use blocks.
#pragma once

#include "proto/moka.pb.h"

namespace moka {

constexpr int kBlockDepthLimit = 16;
constexpr int kExpandedLayerLimit = 100000;

// Replaces every layer of type "Block" by the block's layers, and drops the definitions. Expanded layers keep the place
// of the block's line, with a note of its use. Errors: kConfig at the using layer or the block's field (unknown block
// or parameter, missing value, unused bottom or top, names that collide, cycles, limits).
void ExpandBlocks(NetParameter& net);

}  // namespace moka
