// ImageData: images named by the lines of a text file, read by the data room, which tells their shapes.
#include "core/size.h"
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildImageData(LayerBuilder& l) {
  const ImageDataParameter& p = l.param().image_data_param();
  const bool has_labels = p.label_size() == 0 || p.label(p.label_size() - 1);
  if (p.has_sample_num()) {
    l.Check(l.top_count() == 3 && has_labels, "image_data_param.sample_num",
            StrCat("with sample_num ImageData has 3 tops, found ", l.top_count()));
    l.Check(
        p.has_label_num() && Size(int64_t{p.label_num()}) * int64_t{p.sample_num()} == Size(int64_t{p.batch_size()}),
        "image_data_param.batch_size",
        StrCat("batch_size must be label_num * sample_num = ", p.label_num(), " * ", p.sample_num(), ", found ",
               p.batch_size()));
    l.AddData(l.AskDataTypes());
    return;
  }
  l.Check(l.top_count() != 3 || (has_labels && p.batch_size() % 16 == 0), "image_data_param.batch_size",
          StrCat("with a third top, clip markers, batch_size must be a multiple of 16, found ", p.batch_size()));
  l.Check(l.top_count() >= 2 || !has_labels, "top",
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
          "\"path label\"), resized if new_height and new_width are given and transformed by transform_param. With a "
          "third top, clip markers [batch_size], the images are sequences of 16 from folders; with sample_num, of "
          "which there is no reader, label_num classes are drawn for a batch and sample_num images of each.",
      .min_bottoms = 0,
      .max_bottoms = 0,
      .max_tops = 3,
      .build = BuildImageData,
      .page = {
          .params = {"image_data_param", "transform_param", "sampling_param"},
          .formula =
              "Top 0 is [batch_size,C,H,W]: image n, read from root_folder followed by the path, decoded to 3 channels "
              "in the order B,G,R (1 if is_color is false), resized to new_height x new_width (bilinear) if these are "
              "given, then `y = (pixel - mean) * scale / std` of the crop. H and W are those of the crop, else of the "
              "resized image, else of the files, which then have one size. The crop is random in TRAIN and central in "
              "TEST; mirror reverses rows with probability 1/2 in both phases.\n\nTop 1 is [batch_size]: the labels, "
              "whole numbers. Lines follow each other in the list's order, or with shuffle in a new order each epoch; "
              "rand_skip leaves out fewer than that many at the start, a random number. With `label: false` "
              "(DeBlurNet) there may be one top. With shuffle pair_size lines that follow each other stay together "
              "(lines left over at the list's end are then not shown). In TRAIN transform_param.augment and mixing "
              "change "
              "samples at random as they do Data's (docs/augmentation.md).\n\n"
              "With three tops lines are \"name label\" and the layer takes 16 pictures (by name) that follow "
              "each other of the folder root_folder/name, name without what stands before its first slash, from a "
              "drawn one on in both phases, with one crop and one mirror. The batch has batch_size / 16 such "
              "sequences, their first pictures, then their second ones and so on; the third top is 0 at first "
              "pictures and 1 at the others.\n\nWith sample_num three tops are images [batch_size,C,H,W], "
              "the number of images of each class drawn [label_num] and the class of each image [batch_size], "
              "batch_size being label_num * sample_num. Such nets build; reading is an error.",
          .gradient = "None: the layer has no bottoms, its tops come from outside.",
          .source = "BVLC Caffe's image_data_layer and data_transformer. The path may hold blanks, and the crop, "
                    "mirror, mean_file and scale of image_data_param, which are older, stand for those of "
                    "transform_param. pair_size is Contrastive-Loss's and Triplet-Loss's (wujiyang), the third top is "
                    "that of caffe_qi's LRCN, which shuffles its list only once; here each epoch has its order. "
                    "raw_hdf5 must be false. sample_num is yuqj1991's, without its reader.",
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
