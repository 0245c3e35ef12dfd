// RecordData: tops read from a database of Moka's own records by the data room, which tells their shapes.
#include <algorithm>

#include "core/size.h"
#include "layers/net/layer.h"
#include "layers/shapes/data_guess.h"
#include "layers/types/data/outside_data.h"

namespace moka {
namespace {

// One of what records may have several of.
Shape RecordTop(const LayerParameter& layer, int top, const GuessedPicture& picture) {
  const RecordDataParameter& p = layer.record_data_param();
  if (top >= p.output_size()) return {};
  const int64_t batch = picture.batch;
  switch (p.output(top)) {
    case RecordDataParameter::TARGETS: return {batch, 1};
    case RecordDataParameter::BOXES: return {1, 1, (Size(batch) * std::max<int64_t>(p.max_boxes(), 1)).value(), 8};
    case RecordDataParameter::MASK:
    case RecordDataParameter::INSTANCES: return {batch, 1, picture.h, picture.w};
    case RecordDataParameter::POINTS: return {batch, 1, 3};
    case RecordDataParameter::TEXTS: return {batch, 1, int64_t{p.text_length()}};
    default: return {};
  }
}

GuessedTypes GuessRecordData(const LayerParameter& layer) {
  return GuessPictures(layer, {.top = RecordTop, .says_tops = true});
}

}  // namespace

LayerDef RecordDataLayer() {
  return OutsideDataLayer("RecordData", {.guess = GuessRecordData}, 8,
                          {"data_param", "record_data_param", "transform_param", "sampling_param"});
}

}  // namespace moka
