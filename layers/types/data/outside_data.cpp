#include "layers/types/data/outside_data.h"

#include <utility>

#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildOutsideData(LayerBuilder& l) {
  const HDF5DataParameter& hdf5 = l.param().hdf5_data_param();
  l.Check(hdf5.scale() == 1 && !hdf5.mirror(), "hdf5_data_param.scale",
          "scale and mirror of hdf5_data_param are not part of Moka; a Power layer scales");
  l.AddData(l.AskDataTypes());
}

}  // namespace

LayerDef OutsideDataLayer(std::string type, std::string doc, int max_tops, LayerPage page) {
  return {.type = std::move(type),
          .doc = std::move(doc),
          .min_bottoms = 0,
          .max_bottoms = 0,
          .max_tops = max_tops,
          .build = BuildOutsideData,
          .page = std::move(page)};
}

LayerDef Hdf5DataLayer() {
  return OutsideDataLayer(
      "HDF5Data",
      "A top for each dataset of its name in the HDF5 files that the text file hdf5_data_param.source lists; the rows "
      "of a batch are the first axis. Files follow each other without a gap; shuffle gives each epoch a new order. "
      "crop_size_l, crop_size_h and crop_size_w of transform_param crop volumes.",
      -1,
      {.params = {"hdf5_data_param", "transform_param"},
       .formula = "Each top holds `batch_size` rows of the dataset named like it: `[batch_size,..]`. Datasets have one "
                  "axis or more, the same number of rows within a file and rows of one shape in all files; floats and "
                  "integers of up to 64 bits become float32. The list's names are separated by blanks or line ends. "
                  "Rows follow each other over the ends of files, and after the last row comes the first. With "
                  "shuffle the order of the files, and that of the rows within each file, is new in each "
                  "epoch.\n\nWith crop_size_l, crop_size_h and crop_size_w rows of all tops are volumes `[C,L,H,W]` "
                  "of one size, of which a box of that size is taken: one for all rows of a file in an epoch, drawn in "
                  "TRAIN, in the middle in TEST; mirror (probability 1/2, also one a file and epoch) turns the last "
                  "axis. The first top is `(volume - mean_value) * scale`, the others are only cut and mirrored."
                  "\n\nA net that is built without the files takes the first top as images of `batch_size` and "
                  "each other as `[batch_size]`, unless shapes are given from outside.",
       .gradient = "None: the tops are inputs of the net.",
       .source =
           "BVLC Caffe's hdf5_data_layer; other fields of transform_param are refused as there. Caffe holds a whole "
           "file in memory, here blocks of rows are read (a shuffled file of up to 2 GiB is held too). Volumes: Yu et "
           "al., \"Automatic 3D Cardiovascular MR Segmentation with Densely-Connected Volumetric ConvNets\", 2017, "
           "arXiv 1708.00573; 3D-Caffe's hdf5_data_layer, which draws when it opens a file and so never again where "
           "there is only one.",
       .example = R"(layer {
  name: "mnist"
  type: "HDF5Data"
  top: "data"
  top: "label"
  hdf5_data_param { source: "mnist_train_h5.txt" batch_size: 2 }
})"});
}

LayerDef VideoDataLayer() {
  return OutsideDataLayer(
      "VideoData",
      "Clips of videos, whose frames lie as numbered pictures in a folder each, and, optional, labels [N]: "
      "[N,C,frames,H,W], or with segments the frames along the channels. The text file source lists the folders.",
      2,
      {.params = {"video_data_param", "transform_param", "sampling_param"},
       .formula =
           "Four layers of one name, told apart by their fields. (1) Temporal segments, if num_segments, modality, "
           "name_pattern or length_first is set; lines \"folder frames label\". Each of num_segments equal parts of a "
           "video gives new_length frames that follow each other, from a drawn one in TRAIN and the middle ones in "
           "TEST (from the first where a part is shorter). Top 0 is `[batch_size,num_segments*new_length*C,H,W]`, C 3 "
           "for RGB in the order B,G,R (1 with grayscale) or 2, x and y, for FLOW, the default; the order within a "
           "segment is frame, colour, or with length_first colour, frame. Frames are named by name_pattern, by default "
           "`image_%04d.jpg` and `flow_%c_%04d.jpg`, counted from 1. In TRAIN transform_param's multi_scale takes "
           "crops whose sides are scale_ratios (default 1, 0.875, 0.75, 0.66) of the shorter side, at most max_distort "
           "ratios apart, resized to crop_size; fix_crop takes them at the corners and the centre only, more_fix_crop "
           "at eight more places. With is_flow a mirrored x is `255 - x`.\n\n(2) C3D, if image_data_param or use_image "
           "is set; lines \"folder first_frame label\", frames `%06d.jpg`. Top 0 is `[batch_size,3,new_length,H,W]`, "
           "every sampling_rate-th frame; with use_temporal_jitter the list has the number of frames, and the first "
           "is drawn in TRAIN.\n\n(3) Else video-caffe: lines \"folder first_frame label\", frames `image_%04d.jpg`, "
           "C 3 or, with `is_color: false`, 1.\n\n(4) Caffe_action, if rep_label, num_views, stride_tmp, suffix or "
           "transform_param's num_segments is set; lines \"folder frames label\", pictures `%d.jpg` (or suffix) and "
           "`%d_x.png`, `%d_y.png`, counted from 0; a video that is too short begins again. Each of num_segments "
           "segments is an item of its own: top 0 is `[batch_size,new_length*C,H,W]`, top 1 "
           "`[batch_size/num_segments,1,1,1]`. Segment i begins at `floor(d + i * w + 0.5)`, `w = (frames - new_length "
           "+ 1) / num_segments` and d drawn below floor(w), in TRAIN, else evenly spread from the first place to the "
           "last (the middle for one). Crops are as in (1) but for corners, which are the picture's own.\n\nFrames are "
           "resized to new_height x new_width (bilinear) if these are "
           "given; crop (random in TRAIN, central in TEST), mirror (probability 1/2 in both phases), mean and scale "
           "are one for all frames of a clip. mean_value repeats over the channels. Top 1 (optional) is "
           "`[batch_size]`: the labels.",
       .gradient = "None: the tops are inputs of the net.",
       .source = "The video_data_layers of temporal segment networks' Caffe (Wang et al., arXiv 1608.00859), of C3D "
                 "(Tran et al., arXiv 1412.0767), of video-caffe and of Caffe_action (Lyp100208). Video files and "
                 "cameras (those layers', and that of "
                 "SSD's Caffe) are not read, nor are rand_step, use_multiple_label and use_sampling_rate_jitter; a "
                 "missing frame is an error, where the forks go on with what was there.",
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
  return OutsideDataLayer(
      "WindowData",
      "Windows of images for R-CNN [N,3,crop_size,crop_size], drawn at random, and, optional, their labels [N]. The "
      "text file window_data_param.source lists images and their windows.",
      2,
      {.params = {"window_data_param", "transform_param"},
       .formula =
           "The file has for each image `# index` (from 0), its path, channels (3), height, width and number of "
           "windows, then for each window class, overlap, x1, y1, x2, y2 (inclusive, from 0). A window with an overlap "
           "of fg_threshold or more is foreground, one below bg_threshold is background and of class 0. Each batch is "
           "`batch_size - floor(batch_size * fg_fraction)` background windows, then foreground windows, each drawn "
           "from all of its kind.\n\nTop 0 is `[batch_size,3,crop_size,crop_size]`: the window, resized (bilinear); "
           "with context_pad or crop_mode \"square\" the window or the tightest square around it, enlarged by "
           "`crop_size / (crop_size - 2 * context_pad)` about its centre, where what lies outside the image is 0. `y = "
           "(pixel - mean) * scale`, a mean image is taken at its middle; mirror has probability 1/2. Top 1 (optional) "
           "is `[batch_size]`: classes. crop_size, mirror, scale and mean_file are those of transform_param if given, "
           "else of window_data_param.",
       .gradient = "None: the tops are inputs of the net.",
       .source = "Girshick et al., \"Rich feature hierarchies for accurate object detection and semantic "
                 "segmentation\" (R-CNN), 2013, arXiv 1311.2524; BVLC Caffe's window_data_layer. cache_images has no "
                 "effect. Caffe passes over transform_param.scale; here it counts if window_data_param has none.",
       .example = R"(layer {
  name: "windows"
  type: "WindowData"
  top: "windows"
  top: "label"
  window_data_param { source: "windows.txt" batch_size: 2 crop_size: 8 fg_fraction: 0.25 }
})"});
}

}  // namespace moka
