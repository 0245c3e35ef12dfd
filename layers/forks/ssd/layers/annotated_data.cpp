// AnnotatedData: images with boxes, read from a database by the data room, which tells the shapes. Ground truth is
// [1,1,G,8] with G the most boxes a batch can have; rows of no box have the item id -1.
#include "core/text.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildAnnotatedData(LayerBuilder& l) {
  const DataParameter& data = l.param().data_param();
  if (l.param().transform_param().caffe_yolo()) {
    l.Check(!data.random(), "data_param.random", "random: true changes the images' size, which is fixed here");
    l.Check(l.top_count() == data.side_size() + 1, "data_param.side",
            StrCat("with caffe_yolo data_param.side must be given once for each top after the first, found ",
                   data.side_size(), " for ", l.top_count() - 1, " tops"));
  } else {
    l.Check(l.top_count() <= 3, "top[3]",
            StrCat("AnnotatedData takes 1 to 3 tops, found ", l.top_count(), "; more need transform_param.caffe_yolo"));
  }
  l.AddData(l.AskDataTypes());
}

}  // namespace

LayerDef AnnotatedDataLayer() {
  return {
      .type = "AnnotatedData",
      .doc =
          "Images from an LMDB of AnnotatedDatum records, transformed with their boxes; the second top is the "
          "ground truth [1,1,G,8], rows of item_id, group_label, instance_id, xmin, ymin, xmax, ymax, difficult. G "
          "is the most a batch can have; unused rows have item_id -1. With yolo_data_type 1 it is "
          "YOLO's lists [N,1,300,5]. A third top (MobileNet-YOLO) holds label images [N,C,H,W]. With "
          "transform_param.caffe_yolo (Synopsys), whose batches come from the program that runs the net, there is "
          "instead a top [N, 7 S^2] for each data_param.side S.",
      .min_bottoms = 0,
      .max_bottoms = 0,
      .max_tops = -1,
      .build = BuildAnnotatedData,
      .page = {
          .params = {"data_param", "transform_param", "annotated_data_param", "sampling_param"},
          .formula =
              "Top 0 is [N,C,H,W], `(pixel - mean_value) * scale / std_value`, N = batch_size, H and W "
              "those of crop_size (or crop_h, crop_w), else of resize_param, else of the records, which "
              "must then be equal. An image and its boxes are in turn distorted (distort_param), expanded "
              "(expand_param), cut to a window of a batch_sampler, resized (resize_param), cropped (at "
              "random in TRAIN, the centre in TEST), mirrored and changed by augment (TRAIN; "
              "docs/augmentation.md).\n\nTop 1 is [1,1,G,8] with G = N times "
              "the most boxes of a record (at least 1). A row is (item_id, group_label, instance_id, xmin, "
              "ymin, xmax, ymax, difficult), item_id the image's place in the batch and corners fractions "
              "of the image as it is in top 0. Boxes outside of it, or that emit_constraint leaves out, "
              "have no row; unused rows have item_id -1.\n\nyolo_data_type 1 (MobileNet-YOLO): top 1 is [N,1,300,5], "
              "(group_label - 1, x, y, w, h) with centres and sides, then zeros; without train_diffcult no "
              "difficult boxes. Without batch_samplers the window is jittered if yolo_data_type is 1 or "
              "yolo_data_jitter j (0.3) given: in 3 of 5 draws each side is from 1 - j to 1 of the image's "
              "(both alike with FIT_LARGE_SIZE_AND_PAD), in 1 from 1 - j/2, in 1 the window is the image.\n\nTop "
              "2, the datum's seg_label cut to the window, resized (area) and mirrored like the image, is H and "
              "W divided by seg_scales (8), or of seg_resize_height and width: with single_class [N,1,..] of 1 "
              "for grey above 100, else 0; else a map for each label_id of label_map_file, the part of each "
              "pixel that has a value whose item has it.\n\ncaffe_yolo: tops 1, 2, .. are [N, 7 S^2], S the "
              "first, second, .. data_param.side. An item is four planes of S x S cells: difficult (0 or 1), "
              "object (0 or 1), class (-1: none) and, a cell after the other, the box's x, y of its centre, width "
              "and height as fractions of the image.",
          .gradient = "None: the tops are data.",
          .source =
              "SSD's Caffe (Liu et al., arXiv 1512.02325). Ground truth has a fixed number of rows, with "
              "item id -1 where there is no box; Caffe's has as many as the batch has boxes. Of "
              "Synopsys' caffe_yolo is no part of the reader: `moka train` and `moka test` refuse it. Of "
              "annotated_data_param yoloformat, has_landmarks and crop_type (other than "
              "CROP_DEFAULT and CROP_BATCH) of yuqj1991's fork are refused when the data is opened, as is "
              "difficult_label_warmup. MobileNet-YOLO (eric612) draws one of several resize_params for each batch, "
              "here the first counts; it resizes a single class to sides that are exchanged, here to the top's; and "
              "it jitters every layer's windows, here YOLO's.",
          .example = R"(layer {
  name: "data"
  type: "AnnotatedData"
  top: "data"
  top: "label"
  data_param { source: "train_lmdb" backend: LMDB batch_size: 2 }
  transform_param { mean_value: 104 mean_value: 117 mean_value: 123 resize_param { height: 64 width: 64 } }
  annotated_data_param {
    batch_sampler {
      sampler { min_scale: 0.5 max_scale: 1 min_aspect_ratio: 0.5 max_aspect_ratio: 2 }
      sample_constraint { min_jaccard_overlap: 0.5 }
      max_sample: 1
      max_trials: 50
    }
  }
})"}};
}

}  // namespace moka
