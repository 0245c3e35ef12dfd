// RecordData: tops read from a database of Moka's own records by the data room, which tells their shapes.
#include "layers/net/layer.h"
#include "layers/types/data/outside_data.h"

namespace moka {

LayerDef RecordDataLayer() {
  return OutsideDataLayer(
      "RecordData",
      "Pictures with what belongs to them - labels, numbers, boxes, masks, instances, points, texts - from an LMDB of "
      "Moka's "
      "own records (data_param). record_data_param.output says what each top is; transform_param's changes of shape "
      "are made to all of them.",
      8,
      {.params = {"data_param", "record_data_param", "transform_param", "sampling_param"},
       .formula =
           "N is batch_size. A picture is resized (record_data_param.height and width, or transform_param's "
           "resize_short; linear, antialiased), cropped (crop_size, or crop_h and crop_w: at random in TRAIN, the "
           "centre "
           "in TEST; or in TRAIN rand_resized_crop), mirrored with probability 1/2 if mirror is set, changed by "
           "augment "
           "(TRAIN; docs/augmentation.md) and written as `(pixel - mean_value) * scale / std_value`. All that belongs "
           "to "
           "it takes the same steps:\n\n"
           "- PICTURE [N,C,H,W]: C is 3 (B,G,R) or 1, H and W those of the crop, else of the resized picture.\n"
           "- LABELS [N], or [N,L] where records have L labels. TARGETS [N,T]: the record's numbers.\n"
           "- BOXES [1,1,G,8], G = N x max_boxes: rows of the item's place in the batch, class (from 1), row in its "
           "item "
           "(from 1), xmin, ymin, xmax, ymax as fractions of top 0, difficult (0 or 1, 2 of a crowd that is kept). "
           "Boxes are cut to the picture "
           "after each step; one of which less than min_visible of the area is left then has no row. Where INSTANCES "
           "is an output, "
           "too, boxes with masks are the bounds of the pixels that it shows. Unused rows are "
           "-1 "
           "throughout. Without max_boxes it is the most of any record.\n"
           "- MASK [N,1,H,W]: each pixel's class, taken from the nearest pixel. What comes from beyond the picture is "
           "ignore_label.\n"
           "- INSTANCES [N,1,H,W]: for each pixel the row of its box in the item, of several that of the box with the "
           "fewest pixels, crowds beneath difficult boxes and these beneath all others; 0 where there is none, or "
           "where its box has no row.\n"
           "- POINTS [N,P,3]: x and y as fractions of top 0, then 1, or 0 for a point that is not visible or has left "
           "the picture. Where boxes have the points it is [N,max_boxes,P,3], a row of BOXES each, with 2 for a "
           "visible point, 1 for a hidden one, and zeros throughout for one that was not labelled or has left the "
           "picture. In a mirrored picture points named left_X and right_X take each other's places.\n"
           "- TEXTS [N,X,T]: of each of a record's X texts the numbers of its words in vocabulary (tokens says what "
           "words are), the end mark 2, then 0; T is text_length, and a longer text is cut. 3 is a word that the "
           "vocabulary lacks.\n\n"
           "What records have stands in schema.prototxt in the database's folder; an output that they do not have is "
           "an "
           "error. Order, sampling and resuming are as in Data.",
       .gradient = "None: the tops come from outside.",
       .source = "Moka's own; proto/record.proto is the record, docs/data.md says how databases of them are made. "
                 "Boxes are laid out as AnnotatedData's (SSD's Caffe, Liu et al., arXiv 1512.02325), so SSD's layers "
                 "take them.",
       .example = R"(layer {
  name: "data"
  type: "RecordData"
  top: "data"
  top: "boxes"
  top: "mask"
  data_param { source: "cells" batch_size: 2 shuffle: true }
  record_data_param { output: PICTURE output: BOXES output: MASK height: 40 width: 48 max_boxes: 3 }
  transform_param { crop_size: 32 mirror: true mean_value: 128 augment { affine { degrees: 10 } } }
})"});
}

}  // namespace moka
