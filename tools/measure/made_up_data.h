// Data layers without their data: each becomes a DummyData layer of the same name and tops, with the shapes that its
// fields, its readers and the card say, so that an entry is built, run and trained by the very code that real data
// goes through.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/types.h"
#include "proto/moka.pb.h"
#include "proto/zoo.pb.h"

namespace moka {

// Plain row-major values of one blob.
struct BlobValues {
  Shape shape;
  std::vector<float> values;
};
using Blobs = std::map<std::string, BlobValues>;

// Returns a net, filtered for its phase, with made-up data: every data layer has batches of `batch`. Errors: kConfig at
// a layer whose shapes nothing says.
NetParameter WithMadeUpData(const NetParameter& net, const ZooCheck& check, int64_t batch);

// The smallest number of rows of the Embed and EmbedSum layers that a top reaches as it is; 0: none does.
int64_t RowsRead(const NetParameter& net, const std::string& top);

// Returns the values of a top of such a data layer as a filler: `values`, "uniform" or "constant". `batch`: items of
// the layer.
FillerParameter MadeUpContents(const NetParameter& net, const ZooCheck& check, const LayerParameter& layer, int top,
                               const Shape& shape, int64_t batch);

// The first batch of every data layer of such a net, a pure function of its text.
Blobs MadeUpBatch(const NetParameter& net);

// Sets every batch size that the layer's fields give; false where they give none.
bool SetBatchSize(LayerParameter& layer, int64_t batch);

// The batch of the net's first data layer as its fields say it; 0 where none does.
int64_t BatchOf(const NetParameter& net);

}  // namespace moka
