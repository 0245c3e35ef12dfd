// ImageData: images named by the lines of a text file, read by the data room, which tells their shapes.
#include "layers/front/fields.h"
#include "layers/front/layers.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) {
  const ImageDataParameter& p = l.param().image_data_param();
  const bool has_labels = p.label_size() == 0 || p.label(p.label_size() - 1);
  l.Check(l.top_count() == 2 || !has_labels, "top",
          "ImageData takes 2 tops, images and labels, found 1; label: false is for images alone");
  l.Check(p.rate_height() == 0 && p.rate_width() == 0, "image_data_param.rate_height",
          "rate_height and rate_width are not part of Moka; crop_size in transform_param crops at random");
  l.AddData(l.AskDataTypes());
}

}  // namespace

LayerDef ImageDataLayer() {
  return {
      .type = "ImageData",
      .doc =
          "Images [batch_size,C,H,W] and labels [batch_size] from a list of files (image_data_param.source, lines "
          "\"path label\"), resized if new_height and new_width are given and transformed by transform_param.",
      .min_bottoms = 0,
      .max_bottoms = 0,
      .max_tops = 2,
      .build = Build,
      .page = {
          .params = {"image_data_param", "transform_param"},
          .formula =
              "Top 0 is [batch_size,C,H,W]: image n, read from root_folder followed by the path, decoded to 3 channels "
              "in the order B,G,R (1 if is_color is false), resized to new_height x new_width (bilinear) if these are "
              "given, then `y = (pixel - mean) * scale / std` of the crop. H and W are those of the crop, else of the "
              "resized image, else of the files, which then have one size. The crop is random in TRAIN and central in "
              "TEST; mirror reverses rows with probability 1/2 in both phases.\n\nTop 1 is [batch_size]: the labels, "
              "whole numbers. Lines follow each other in the list's order, or with shuffle in a new order each epoch; "
              "rand_skip leaves out fewer than that many at the start, a random number. With `label: false` "
              "(DeBlurNet) "
              "there may be one top.",
          .gradient = "None: the layer has no bottoms, its tops come from outside.",
          .source = "BVLC Caffe's image_data_layer and data_transformer. The path may hold blanks, and the crop, "
                    "mirror, mean_file and scale of image_data_param, which are older, stand for those of "
                    "transform_param. Fields of forks are not used.",
          .example = R"(layer {
  name: "data"
  type: "ImageData"
  top: "data"
  top: "label"
  transform_param { crop_size: 8 mean_value: 127 }
  image_data_param { source: "train.txt" batch_size: 2 new_height: 10 new_width: 10 shuffle: true }
})"}};
}

}  // namespace moka
