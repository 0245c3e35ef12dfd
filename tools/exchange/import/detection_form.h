// SSD's boxes, which an exporter took apart into some fifty nodes.
#pragma once

#include "tools/exchange/import/onnx_file.h"

namespace moka {

// Puts each group of nodes that Moka's exporter made of a DetectionOutput together again: the node that gave its rows
// stands for the layer (OnnxFile::layers). Nodes that are not exactly such a group stay as they are.
void JoinDetections(OnnxFile& file);

}  // namespace moka
