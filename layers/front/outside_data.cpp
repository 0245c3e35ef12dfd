// Data layers whose tops' shapes only their source knows: the data room is asked for them.
#include "layers/front/layers.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) { l.AddData(l.AskDataTypes()); }

LayerDef Row(std::string type, std::string doc, int max_tops, LayerPage page) {
  return {.type = std::move(type),
          .doc = std::move(doc),
          .min_bottoms = 0,
          .max_bottoms = 0,
          .max_tops = max_tops,
          .build = Build,
          .page = std::move(page)};
}

}  // namespace

LayerDef Hdf5DataLayer() {
  return Row(
      "HDF5Data",
      "A top for each dataset of its name in the HDF5 files that the text file hdf5_data_param.source lists; the rows "
      "of a batch are the first axis. Nets with the layer build, but no reader of its files exists: training or "
      "testing with it is an error.",
      -1,
      {.params = {"hdf5_data_param"},
       .formula = "Each top holds `batch_size` rows of the dataset named like it: `[batch_size,..]`. A net that is "
                  "built without the files takes the first top as images of `batch_size` and each other as "
                  "`[batch_size]`, unless shapes are given from outside: the fields say nothing of the other axes.",
       .gradient = "None: the tops are inputs of the net.",
       .source = "BVLC Caffe's hdf5_data_layer, without its reader; `shuffle` is accepted.",
       .example = R"(layer {
  name: "mnist"
  type: "HDF5Data"
  top: "data"
  top: "label"
  hdf5_data_param { source: "mnist_train_h5.txt" batch_size: 2 }
})"});
}

LayerDef VideoDataLayer() {
  return Row(
      "VideoData",
      "Clips [N,C,frames,H,W] of a list of videos, or frames of a camera or video file, and, optional, labels [N]. "
      "Nets with the layer build, but no reader of its files exists: training or testing with it is an error.",
      2,
      {.params = {"video_data_param", "transform_param"},
       .formula =
           "top 0: clips `[batch_size,C,new_length,H,W]`, C 3 or, with `is_color: false`, 1; H and W are the crop size "
           "of `transform_param`, else `new_height` and `new_width`. top 1 (optional): labels `[batch_size]`.",
       .gradient = "None: the tops are inputs of the net.",
       .source = "Two layers of one name: the video_data_layer of SSD's Caffe (Liu et al., arXiv 1512.02325; a camera "
                 "or a video file) and that of the clip-reading forks (temporal segment networks, Wang et al., arXiv "
                 "1608.00859; lists of videos). The fields of both are accepted; neither reader exists.",
       .example = R"(layer {
  name: "clips"
  type: "VideoData"
  top: "clips"
  top: "label"
  video_data_param { source: "clips.txt" batch_size: 2 new_length: 4 new_height: 12 new_width: 16 }
  transform_param { crop_size: 8 }
})"});
}

LayerDef WindowDataLayer() {
  return Row(
      "WindowData",
      "Windows of images for R-CNN [N,C,crop_size,crop_size] and, optional, their labels [N]. Nets with the layer "
      "build, but no reader of its files exists: training or testing with it is an error.",
      2,
      {.params = {"window_data_param", "transform_param"},
       .formula = "top 0: `[batch_size,3,crop_size,crop_size]`, windows of images; top 1 (optional): their labels "
                  "`[batch_size]`, 0 for background. crop_size is that of `transform_param` if given, else of "
                  "`window_data_param`.",
       .gradient = "None: the tops are inputs of the net.",
       .source = "Girshick et al., \"Rich feature hierarchies for accurate object detection and semantic "
                 "segmentation\" (R-CNN), 2013, arXiv 1311.2524; BVLC Caffe's window_data_layer, without its reader.",
       .example = R"(layer {
  name: "windows"
  type: "WindowData"
  top: "windows"
  top: "label"
  window_data_param { source: "windows.txt" batch_size: 2 crop_size: 8 fg_fraction: 0.25 }
})"});
}

}  // namespace moka
