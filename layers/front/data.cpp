// Data: tops read from a database by the data room, which tells their shapes.
#include "layers/front/layers.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) { l.AddData(l.AskDataTypes()); }

}  // namespace

LayerDef DatabaseLayer() {
  return {.type = "Data",
          .doc = "Images (and labels) from an LMDB of Datum records, transformed by transform_param.",
          .min_bottoms = 0,
          .max_bottoms = 0,
          .max_tops = 2,
          .build = Build};
}

}  // namespace moka
