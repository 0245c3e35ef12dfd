// The forks' layers of clips and sequences, read by the data room: TridimData, VideoDataSeg, VideoDataRNN,
// ImageVideoData, RgbVideoData and FlowVideoData.
#include <utility>

#include "layers/net/layer.h"
#include "layers/types/data/outside_data.h"

namespace moka {
namespace {

LayerDef Row(std::string type, std::string doc, int max_tops, LayerPage page) {
  page.gradient = "None: the tops are inputs of the net.";
  return OutsideDataLayer(std::move(type), std::move(doc), max_tops, std::move(page));
}

constexpr const char* kSpread =
    "The text file source has for each video a line \"name pictures\" and that many lines \"picture label\" (paths "
    "without blanks, root_folder is put before them). Of a video of F {frames} the layer takes pair_size, at places "
    "`floor(i * F / (pair_size - 1))` for i from 0, the first alone for pair_size 1, at most F - 1; with rand_frame "
    "each is moved by a number drawn of `-floor(r/2) .. r-1-floor(r/2)`, `r = min(max(floor(F / (pair_size - 1) / 2), "
    "1), range_scale)`. Pictures are resized to new_height x new_width (bilinear) if these are given; a video has one "
    "crop (random in TRAIN, central in TEST) and one mirror (probability 1/2), and `y = (min(pixel * f, 255) - mean) * "
    "scale`, f 1 or with color_aug a number drawn of [0.8, 1.2) for each ";
constexpr const char* kSpreadTops =
    " The batch has `batch_size / pair_size` videos: their first pictures, then their second ones and so on. Top 1 "
    "(optional) is `[batch_size,2,1,1]`: the label and 1.";

std::string SpreadFrames(const std::string& frames, const std::string& each) {
  std::string text = kSpread;
  constexpr std::string_view kMark = "{frames}";
  text.replace(text.find(kMark), kMark.size(), frames);
  return text + each;
}

}  // namespace

LayerDef TridimDataLayer() {
  return Row(
      "TridimData",
      "Clips of videos [N,3,new_length,H,W] whose frames lie as pictures 000001.jpg, ... in a folder each, and, "
      "optional, labels [N]: VideoData of C3D, with its fields in tridim_data_param.",
      2,
      {.params = {"tridim_data_param", "transform_param", "sampling_param"},
       .formula = "Lines \"folder first_frame label\"; top 0 is `[batch_size,3,new_length,H,W]`, every "
                  "sampling_rate-th frame from first_frame on (with use_temporal_jitter the list has the number of "
                  "frames, and the first is drawn in TRAIN), resized to new_height x new_width (bilinear) if these are "
                  "given; crop (random in TRAIN, central in TEST), mirror (probability 1/2), mean and scale are one "
                  "for all frames of a clip. Top 1 (optional) is `[batch_size]`: the labels.",
       .gradient = {},
       .source = "Tran et al., \"Learning Spatiotemporal Features with 3D Convolutional Networks\", 2014, arXiv "
                 "1412.0767; 3D-STN's Caffe, tridim_data_layer. use_image must be true: video files are not read, nor "
                 "are use_multiple_label and use_sampling_rate_jitter; a missing frame is an error, where the fork "
                 "goes on with the next clip in TRAIN.",
       .example = R"(layer {
  name: "clips"
  type: "TridimData"
  top: "clips"
  top: "label"
  tridim_data_param { source: "clips.txt" batch_size: 2 new_length: 4 use_image: true }
  transform_param { crop_size: 8 }
})"});
}

LayerDef VideoDataSegLayer() {
  return Row(
      "VideoDataSeg",
      "Volumes of grey slices [N,1,new_length,H,W] and the label of every voxel, of the same shape, from "
      "numbered pictures in folders. The text file video_data_param.source lists the folders.",
      2,
      {.params = {"video_data_param"},
       .formula = "Lines \"folder first_slice folder_of_labels\", root_folder is put before both. Top 0 holds the "
                  "pictures `folder/img_%d.png`, top 1 (optional) `folder_of_labels/label_%d.png`, new_length of them "
                  "from first_slice on, as grey values 0..255; both are resized to new_height x new_width (bilinear, "
                  "which mixes labels) if these are given.",
       .gradient = {},
       .source = "ljpadam's Caffe-3D, video_data_seg_layer. There transform_param's crop and mirror are drawn for "
                 "pictures and labels apart and the mean is taken from both; here transform_param is an error. "
                 "Pictures of 16 bits, which that layer takes as they are, are an error too.",
       .example = R"(layer {
  name: "scans"
  type: "VideoDataSeg"
  top: "data"
  top: "label"
  video_data_param { source: "scans.txt" batch_size: 1 new_length: 4 new_height: 8 new_width: 8 }
})"});
}

LayerDef VideoDataRnnLayer() {
  return Row(
      "VideoDataRNN",
      "Sequences of clips for recurrent nets [T*N,C,H,W], T seq_length and N num_segments * batch_size, with labels "
      "and markers [T,N,1] (both optional). Frames lie as numbered pictures in a folder a video.",
      3,
      {.params = {"video_data_param", "transform_param", "sampling_param"},
       .formula =
           "Lines \"folder frames label\"; pictures `%d.jpg` (or suffix) for RGB and `%d_x.png`, `%d_y.png` for FLOW, "
           "the default, counted from 0. A video of F frames has `P = F - new_length + 1` places for a clip of "
           "new_length frames that follow each other, laid along the channels (C is new_length times 1, 3 for RGB with "
           "`is_color: true`, 2 for FLOW). Clip t of a sequence begins at `start + t * stride_seq`. With `W = "
           "stride_seq * (T - 1) + 1` the start is drawn of `0 .. max(stride_seq, P - W + 1) - 1` in TRAIN, where "
           "num_segments must be 1; in TEST starts are spread evenly from 0 to `max(stride_seq - 1, P - W)`, the "
           "middle for one. A sequence has L clips, those that lie in the video; with do_rolling it has T and goes on "
           "at the video's start (starts: any place in TRAIN, `round(i * P / num_segments) mod num_segments` in "
           "TEST).\n\nTop 0 has at row `t * N + n` clip t of sequence n, 0 after its end. Top 1 holds the label at the "
           "last eval_num of T clips, -1 at others and after the end; top 2 is -L at the first clip, 1 at others and 0 "
           "after the end. Frames are resized to new_height x new_width (bilinear); a sequence has one mirror "
           "(probability 1/2), each clip a crop of its own: random in TRAIN, also of several scales as in VideoData's "
           "first dialect, corners (fix_crop) being the picture's own; central in TEST.",
       .gradient = {},
       .source =
           "Caffe_action (Lyp100208), video_data_rnn_layer and SampleSegments. Rows after a sequence's end hold there "
           "what an earlier batch left. eval_last is taken for an older name of eval_num: 1.",
       .example = R"(layer {
  name: "clips"
  type: "VideoDataRNN"
  top: "clips"
  top: "label"
  top: "marker"
  video_data_param { source: "clips.txt" batch_size: 2 seq_length: 3 modality: FLOW new_height: 12 new_width: 16 }
  transform_param { crop_size: 8 is_flow: true }
})"});
}

LayerDef ImageVideoDataLayer() {
  return Row(
      "ImageVideoData",
      "Clips of videos [N,C,new_length,H,W], one picture of each [N,C,H,W] and their labels [N], for nets of two "
      "branches. Frames lie as pictures image_0001.jpg, ... in a folder a video.",
      3,
      {.params = {"video_data_param", "transform_param"},
       .formula =
           "Lines \"folder frames label\" (frames is not used; the files of the folder are counted). A video of F "
           "files has `floor(F / new_length)` clips; clip k has the frames `k * new_length + 1 + i * gap_example` for "
           "i from 0. Each item of a batch shows its video clip by clip and then takes the next video of the list that "
           "none has taken. Top 0 is `[batch_size,C,new_length,H,W]`, C 3 or, with `is_color: false`, 1; top 1 is its "
           "frame 21 (i 20), `[batch_size,C,H,W]`; top 2 the labels. Frames are resized to new_height x new_width "
           "(bilinear) if these are given; crop (random in TRAIN, central in TEST) and mirror (probability 1/2) are "
           "drawn for the clip and for its picture apart; `y = (pixel - mean) * scale`.",
       .gradient = {},
       .source =
           "video-caffe of zhzhong11, video_image_data_layer. The list is shuffled once, as there; after about as many "
           "batches as show every clip once the order begins again, where the fork goes on from the list's beginning "
           "item by item. Each item needs a video of its own in the list.",
       .example = R"(layer {
  name: "clips"
  type: "ImageVideoData"
  top: "clips"
  top: "image"
  top: "label"
  video_data_param { source: "clips.txt" batch_size: 2 new_length: 24 new_height: 12 new_width: 16 }
  transform_param { crop_size: 8 }
})"});
}

LayerDef RgbVideoDataLayer() {
  return Row(
      "RgbVideoData",
      "Pictures spread over videos [N,C,H,W] and, optional, their labels and markers [N,2,1,1], for recurrent "
      "nets: pair_size pictures a video, laid picture by picture.",
      2,
      {.params = {"image_data_param", "transform_param"},
       .formula = SpreadFrames("pictures",
                               "channel of a video.\n\nTop 0 is `[batch_size,C,H,W]`, C 3 or, with `is_color: false`, "
                               "1.") +
                  kSpreadTops,
       .gradient = {},
       .source = "lisa-caffe-lstm (xiaolonw), rgb_video_data_layer. multiview must be false; classnum has no "
                 "effect, as there.",
       .example = R"(layer {
  name: "frames"
  type: "RgbVideoData"
  top: "frames"
  top: "label"
  image_data_param { source: "frames.txt" batch_size: 4 pair_size: 2 new_height: 10 new_width: 12 }
  transform_param { crop_size: 8 }
})"});
}

LayerDef FlowVideoDataLayer() {
  return Row(
      "FlowVideoData",
      "Stacks of optical flow spread over videos [N,C,H,W] and, optional, their labels and markers [N,2,1,1], "
      "for recurrent nets: pair_size stacks a video, laid stack by stack.",
      2,
      {.params = {"image_data_param", "transform_param"},
       .formula =
           SpreadFrames("frames of pair_size_sub pictures each",
                        "picture and channel.\n\nTop 0 is `[batch_size,frame_num * pair_size_sub * c,H,W]`, c 3 or, "
                        "with `is_color: false`, 1: at each place frame_num times the frame's pictures, the number "
                        "at the beginning of a file's name (four digits are written) one more each time. With "
                        "read_mode 4 and 5 pictures are grey and the first of a frame (x) is mirrored with its sign, "
                        "`255 - pixel`; with 4 a pixel is then the flow `pixel / 255 * 2 * bound - bound`.") +
           kSpreadTops + " The label is that of the video's first picture.",
       .gradient = {},
       .source = "lisa-caffe-lstm (xiaolonw), flow_video_data_layer. multiview must be false; classnum has no "
                 "effect, as there. The fork's own draw of the mirror for read_mode 4 and 5 returns nothing; "
                 "here it is drawn as for other pictures.",
       .example = R"(layer {
  name: "flow"
  type: "FlowVideoData"
  top: "flow"
  top: "label"
  image_data_param {
    source: "flow.txt" batch_size: 4 pair_size: 2 pair_size_sub: 2 frame_num: 3 is_color: false read_mode: 5
    new_height: 10 new_width: 12
  }
  transform_param { crop_size: 8 mean_value: 128 }
})"});
}

}  // namespace moka
