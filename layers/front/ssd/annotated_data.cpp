// AnnotatedData: images with boxes, read from a database by the data room, which tells the shapes. Ground truth is
// [1,1,G,8] with G the most boxes a batch can have; rows of no box have the item id -1.
#include "layers/front/ssd/layers.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) { l.AddData(l.AskDataTypes()); }

}  // namespace

LayerDef AnnotatedDataLayer() {
  return {.type = "AnnotatedData",
          .doc =
              "Images from an LMDB of AnnotatedDatum records, transformed with their boxes; the second top is the "
              "ground truth [1,1,G,8], rows of item_id, group_label, instance_id, xmin, ymin, xmax, ymax, difficult. G "
              "is the most a batch can have; unused rows have item_id -1.",
          .min_bottoms = 0,
          .max_bottoms = 0,
          .max_tops = 2,
          .build = Build};
}

}  // namespace moka
