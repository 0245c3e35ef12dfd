// CaffeOnSpark's data layers: a MemoryData layer whose source_class says what fills it, and CoSData over columns of a
// data frame. An LMDB on this machine is read as the layer Data reads it; what lies in Spark's own forms is refused,
// with what to make of it instead.
#pragma once

#include "proto/moka.pb.h"

namespace moka {

// MemoryData of the class com.yahoo.ml.caffe.LMDB becomes Data over the folder its source names. True if there was one.
bool UpgradeSparkSources(NetParameter& net);

// Errors: kConfig at a layer that is left with a source_class or is of type CoSData.
void RefuseSparkSource(const LayerParameter& layer);

}  // namespace moka
