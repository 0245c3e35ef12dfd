// How a picture becomes a net's input: as the net's data layer says, over it the model's card, over both the command
// line.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "core/types.h"
#include "data/inspect/picture_reader.h"
#include "proto/moka.pb.h"
#include "proto/zoo.pb.h"
#include "tools/infer/source.h"

namespace moka {

struct PictureWay {
  LayerParameter layer;  // a data layer, or the input with the fields of one
  PictureReader::Order order = PictureReader::Order::kBgr;
  std::optional<StoredPictures> stored;  // what the layer's database holds, as far as it matters and is known
};

// Returns the way of pictures into the first input of `deploy`, which was derived from `net`; `sample` is its [C,H,W].
// Where neither net nor card nor flags say anything, the training net beside it (train_val.prototxt) does, and without
// one a warning says that nothing does. Errors: kConfig for what does not fit the input.
PictureWay PictureWayOf(const InferSource& source, const NetParameter& net, const NetParameter& deploy,
                        const Shape& sample);

}  // namespace moka
