// MultilabelImageData (DRML) and MultiLabelImageData (PG-CNN): ImageData with several labels a line.
#include "core/text.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildMultilabelImageData(LayerBuilder& l) { l.AddData(l.AskDataTypes()); }

LayerDef Row(const std::string& type) {
  return {
      .type = type,
      .doc =
          "Images [N,C,H,W] and several labels each from a list of files (lines \"path label label ..\"). In "
          "image_data_param (DRML) multilabel_num says how many, and they are [N,multilabel_num,1,1]; in "
          "multi_label_image_data_param (PG-CNN), which has the same other fields, it is label_num, and they are "
          "[N,label_num]. transform_param has the crop, mirror, mean and scale.",
      .min_bottoms = 0,
      .max_bottoms = 0,
      .max_tops = 2,
      .build = BuildMultilabelImageData,
      .page = {
          .params = {"image_data_param", "multi_label_image_data_param", "transform_param", "sampling_param"},
          .formula =
              "top 0: images `[batch_size,C,H,W]`, C 3 or, with `is_color: false`, 1, made as ImageData makes them; H "
              "and W are the crop size of `transform_param`, else `new_height` and `new_width`, else the files', which "
              "then have one size. top 1 (optional): their labels, numbers as they stand in the list, "
              "`[batch_size,multilabel_num,1,1]` of `image_data_param` or `[batch_size,label_num]` of "
              "`multi_label_image_data_param`. Labels that are places in the image do not move with its crop, "
              "mirror and augment. Words of a line are separated by blanks, so paths hold none.",
          .gradient = "None: the tops are inputs of the net.",
          .source =
              "DRML (Zhao, Chu, Zhang, \"Deep Region and Multi-label Learning for Facial Action Unit Detection\", "
              "CVPR 2016), image_data_layer_multilabel; PG-CNN (Li et al., \"Occlusion Aware Facial Expression "
              "Recognition Using CNN With Attention Mechanism\", 2019), multi_label_image_data_layer, which reads "
              "whole numbers only. A line with more or fewer labels is an error, where they go on with the next word.",
          .example = StrCat(R"(layer {
  name: "faces"
  type: ")",
                            type, R"("
  top: "faces"
  top: "label"
  transform_param { crop_size: 8 }
  image_data_param { source: "faces.txt" batch_size: 2 multilabel_num: 12 }
})")}};
}

}  // namespace

LayerDef MultilabelImageDataLayer() { return Row("MultilabelImageData"); }
LayerDef MultiLabelImageDataLayer() { return Row("MultiLabelImageData"); }

}  // namespace moka
