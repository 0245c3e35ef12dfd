// A net as BVLC's schema has it, for files that real Caffe and tools made for it read.
#pragma once

#include "proto/moka.pb.h"

namespace moka {

// The net without what BVLC's caffe.proto lacks: Moka's own fields and those of forks (numbers from 1000 up, SSD's
// below), their enumerators, blocks and places in the text. Layers keep their order, names, types, bottoms and tops;
// blobs are left out.
NetParameter CaffeNet(const NetParameter& net);

}  // namespace moka
