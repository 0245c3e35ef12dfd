// The rows of data layers here and of their types among the layers say the same of where their data comes from.
#include <gtest/gtest.h>

#include "data/data_layers.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

TEST(DataRows, AgreeWithTheTraitsOfTheirTypes) {
  ASSERT_FALSE(AllDataLayers().empty());
  for (const DataLayerRow& row : AllDataLayers()) {
    const LayerDef* layer = FindLayer(row.type);
    ASSERT_NE(layer, nullptr) << row.type;
    const DataKind kind = layer->traits.data;
    EXPECT_EQ(row.has_records, kind != DataKind::kFillers && kind != DataKind::kProgram) << row.type;
    EXPECT_EQ(row.database == RecordKind::kDatum, kind == DataKind::kRecords) << row.type;
    EXPECT_EQ(row.database == RecordKind::kAnnotated, kind == DataKind::kBoxes) << row.type;
    EXPECT_NE(row.open, nullptr) << row.type;
  }
}

}  // namespace
}  // namespace moka
