// The rows of all data layers, sorted by type once, and how one is found in them.
#include "data/data_layers.h"

#include <algorithm>

namespace moka {

const std::vector<DataLayerRow>& AllDataLayers() {
  static const std::vector<DataLayerRow> rows = [] {
    std::vector<DataLayerRow> all = DataLayerRows();
    std::ranges::sort(all, {}, &DataLayerRow::type);
    return all;
  }();
  return rows;
}

const DataLayerRow* FindDataLayer(std::string_view type) {
  const auto found = std::ranges::find(AllDataLayers(), type, &DataLayerRow::type);
  return found == AllDataLayers().end() ? nullptr : &*found;
}

const DataLayerRow& DataRowOf(const LayerParameter& layer) {
  static const DataLayerRow none{.type = {}, .has_records = false};
  const DataLayerRow* row = FindDataLayer(layer.type());
  return row == nullptr ? none : *row;
}

}  // namespace moka
