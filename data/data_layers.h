// The types of layers that this room reads: a row each, a function `DataLayerRow NAME()` in the file of its opener,
// which the build finds. The room's parts ask a type's row what they must know of it, never its name.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/record_kind.h"
#include "proto/moka.pb.h"

namespace moka {

class Pipeline;
struct PipelineOptions;

struct DataLayerRow {
  std::string type;
  // Errors: as OpenPipeline.
  std::unique_ptr<Pipeline> (*open)(const LayerParameter& layer, const PipelineOptions& options) = nullptr;
  std::optional<RecordKind> database = {};  // what the records of data_param's database are
  bool has_records = true;                  // else the program or fillers make each batch
  bool reads_list = false;                  // a list of pictures, and data_param is another's message
  bool reads_own_list = true;               // multi_label_image_data_param stands in image_data_param's place
  bool warps_windows = false;               // resizes each window to the crop
  bool augments = false;                    // transform_param.augment
  bool mixes = false;                       // transform_param.mixing
};

// The rows of this build in no order that matters.
std::vector<DataLayerRow> DataLayerRows();
// All of them, sorted by type.
const std::vector<DataLayerRow>& AllDataLayers();
// Null for other types.
const DataLayerRow* FindDataLayer(std::string_view type);
// The row of the layer's type; where this room does not read it, one that reads nothing.
const DataLayerRow& DataRowOf(const LayerParameter& layer);

}  // namespace moka
