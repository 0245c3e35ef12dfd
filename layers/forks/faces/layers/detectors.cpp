// Losses and outputs of detectors of faces by the centres of cells (yuqj1991), and its focal loss.
#include <cfloat>

#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/loss/loss_normalizer.h"
#include "layers/types/loss/own_gradient.h"
#include "layers/types/loss/padding.h"

namespace moka {
namespace {

std::string Divisor(const LayerBuilder& l) {
  const LossParameter& p = l.param().loss_param();
  LossParameter::NormalizationMode mode = LossParameter::VALID;
  if (p.has_normalize()) mode = p.normalize() ? LossParameter::VALID : LossParameter::BATCH_SIZE;
  if (p.has_normalization()) mode = p.normalization();
  l.Check(mode != LossParameter::PRE_FIXED, "loss_param.normalization", "PRE_FIXED does not go with this layer");
  return mode == LossParameter::VALID ? "valid" : mode == LossParameter::NONE ? "none" : "batch";
}

void BuildGridLoss(LayerBuilder& l) {
  const std::string message = "center_object_loss_param.";
  const CenterObjectLossParameter& p = l.param().center_object_loss_param();
  const bool is_softmax = p.class_type() == CenterObjectLossParameter::SOFTMAX;
  const uint32_t classes = is_softmax ? 2 : 1;
  l.Check(p.num_class() == classes, message + "num_class",
          StrCat("num_class must be ", classes, is_softmax ? " (SOFTMAX: background and face)" : " (SIGMOID)",
                 ", found ", p.num_class()));
  l.Check(!p.has_lm() || is_softmax, message + "has_lm", "landmarks go with class_type: SOFTMAX");
  l.Check(p.share_location(), message + "share_location", "share_location must be true");
  l.Check(
      p.bias_scale_size() == 1 && p.has_bias_num() && p.bias_num() == 1, message + "bias_scale",
      StrCat("bias_scale must be given once and bias_num be 1, found ", p.bias_scale_size(), " and ", p.bias_num()));
  const double box = Finite(l, message + "bias_scale", p.bias_scale(0));
  l.Check(box >= 1, message + "bias_scale", StrCat("bias_scale must be at least 1, found ", box));
  l.Check(p.net_height() >= 1, message + "net_height", "net_height must be given and at least 1");
  const Shape x = l.shape(0);
  const int64_t channels = 4 + (p.has_lm() ? 10 : 0) + int64_t{classes};
  l.Check(x.rank() == 4 && x.Count() > 0 && x[1] == channels, "bottom[0]",
          StrCat("bottom \"", l.param().bottom(0), "\" must be [N,", channels, ",H,W], found ", x.ToString()));
  const Shape label = l.shape(1);
  const int64_t columns = p.has_lm() ? 19 : 8;
  l.Check(label.rank() >= 1 && label[label.rank() - 1] == columns, "bottom[1]",
          StrCat("labels must be rows of ", columns, " numbers, found ", label.ToString()));
  const std::vector<ValueId> y = l.b().Add("center_grid_loss", {l.bottom(0), l.bottom(1)},
                                           {{"softmax", is_softmax},
                                            {"landmarks", p.has_lm()},
                                            {"box", box},
                                            {"low", static_cast<double>(p.low_bbox_scale())},
                                            {"high", static_cast<double>(p.up_bbox_scale())},
                                            {"height", static_cast<double>(p.net_height())},
                                            {"divide_by", Divisor(l)}});
  if (Divisor(l) != "batch") l.NoteUnequal("divides by what its own part of a batch has, or not at all");
  l.SetTop(0, WithGradients(l, y[0], {{l.bottom(0), y[1]}}));
  l.SetLoss(0, 1);
}

void BuildPeaks(LayerBuilder& l) {
  const std::string message = "detection_output_param.";
  const DetectionOutputParameter& p = l.param().detection_output_param();
  const Shape x = l.shape(0);
  const Shape s = l.shape(1);
  const int64_t channels = p.has_lm() ? 14 : 4;
  l.Check(x.rank() == 4 && x.Count() > 0 && x[1] == channels, "bottom[0]",
          StrCat("bottom \"", l.param().bottom(0), "\" must be [N,", channels, ",H,W], found ", x.ToString()));
  l.Check(
      s.rank() == 4 && s.With(1, channels) == x && s[1] + 1 == p.num_classes(), "bottom[1]",
      StrCat("bottom \"", l.param().bottom(1), "\" must have a score for each class but the background (num_classes ",
             p.num_classes(), ") at each place of ", x.ToString(), ", found ", s.ToString()));
  const float confidence = p.has_confidence_threshold() ? p.confidence_threshold() : -FLT_MAX;
  l.SetTop(0, l.b().Add1("center_peaks", {l.bottom(0), l.bottom(1)},
                         {{"landmarks", p.has_lm()},
                          {"confidence", Finite(l, message + "confidence_threshold", confidence)},
                          {"nms", Finite(l, message + "nms_thresh", p.nms_thresh())},
                          {"keep", int64_t{p.keep_top_k()}}}));
}

// softmax_losses tells each label's -log p, so p is exp(-loss); the derivative follows.
void BuildFocal(LayerBuilder& l) {
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  const int axis = AxisOf(l, "softmax_param.axis", l.param().softmax_param().axis(), x);
  CheckLabelCount(l, axis);
  const LossParameter& p = l.param().loss_param();
  Attributes attributes{{"axis", int64_t{axis}}, {"smoothing", 0.0}};
  SetIgnoredLabel(l, p, attributes);
  const std::vector<ValueId> y = b.Add("softmax_losses", {l.bottom(0), l.bottom(1)}, attributes);
  const ValueId focal = b.Pointwise("t0=1-exp(-x0);0.75*x0*t0*t0", {y[0]});
  const int64_t outer = x.Count(0, axis);
  l.SetTop(0, Normalized(l, b.SumAll(focal),
                         {.batch = outer,
                          .positions = (Size(outer) * x.Count(axis + 1, x.rank())).value(),
                          .valid = p.has_ignore_label() ? b.SumAll(y[1]) : kNoId},
                         LossParameter::VALID));
  l.SetLoss(0, 1);
  if (l.top_count() > 1) l.SetTop(1, b.Add1("stop_gradient", {y[2]}));
}

}  // namespace

LayerDef CenterGridLossLayer() {
  return {
      .type = "CenterGridLoss",
      .doc =
          "The loss of a map [N,C,H,W] that looks for faces of one scale: C is 4 places and 1 score (class_type "
          "SIGMOID), or 4 places, 10 of landmarks with has_lm, and 2 scores (SOFTMAX). Bottom 1 has rows of 8 numbers "
          "(19 with has_lm) as AnnotatedData's yoloformat gives them. Faces whose longer side is from low_bbox_scale "
          "to up_bbox_scale pixels are learnt. The top is a scalar.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .auto_tops = true,
      .build = BuildGridLoss,
      .page = {
          .params = {"center_object_loss_param", "loss_param"},
          .formula =
              "With r = net_height / H pixels a cell and b = bias_scale (half of it for SIGMOID). A cell (i, j) with "
              "trunc(ymin) <= i < trunc(ymax) and likewise j, in cells, is in the face; in the first face of the range "
              "that holds it, it learns `((j + 1/2) - xmin) r / b`, ymin, xmax, ymax and, if the row has all, x and y "
              "of the five landmarks likewise, with the smooth L1 loss e (`d^2/2` where |d| < 1, else `|d| - 1/2`), "
              "and that it is a face. Cells in no face learn that they are none, those whose last face is of another "
              "size or came too late nothing. Of the probability q of what is learnt: SOFTMAX `-0.25 (1-q)^2 log q`, "
              "SIGMOID `-2 (1-q)^4 log q`. The top is `(sum e + sum class) / Z + 0.1 sum e of landmarks / Z'`, Z the "
              "images (BATCH_SIZE, FULL), the cells with a face (VALID, the default; without any the images) or 1, Z' "
              "that for cells with landmarks. Without a face in the whole batch it is 0; SIGMOID leaves images without "
              "one out.",
          .gradient = "The derivative of the formula. Labels get none.",
          .source = "After LFFD (He et al., arXiv 1904.10633); yuqj1991's Caffe, CenterGridLossLayer. There the weight "
                    "of the loss counts twice for landmarks. net_width, ignore_thresh, loc_weight and the kinds of "
                    "loss are not used, as there.",
          .example =
              R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 6 dim: 4 dim: 4 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 2 dim: 1 dim: 3 dim: 8 } } }
layer {
  name: "loss"
  type: "CenterGridLoss"
  bottom: "x"
  bottom: "label"
  top: "loss"
  loss_param { normalization: BATCH_SIZE }
  center_object_loss_param {
    num_class: 2 class_type: SOFTMAX bias_scale: 16 bias_num: 1 net_height: 32 net_width: 32
    low_bbox_scale: 4 up_bbox_scale: 40
  }
})"}};
}

LayerDef CenternetDetectionOutputLayer() {
  return {
      .type = "CenternetDetectionOutput",
      .doc =
          "Faces from places [N,4,H,W] (14 with has_lm) and scores [N,num_classes-1,H,W]. The top [1,1,R,7] (17) has "
          "rows (image, class from 1, score, xmin, ymin, xmax, ymax, landmarks), image by image and best first; unused "
          "rows are -1. R is N times keep_top_k, or all scores.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .build = BuildPeaks,
      .page = {
          .params = {"detection_output_param"},
          .formula =
              "Cell (i, j) with a score above confidence_threshold (default: any) and below 1 has the centre `c = 4 (j "
              "+ v_0, i + v_1)` and the sides `4 exp(v_2)`, `4 exp(v_3)`, in pixels of a picture of 4 W x 4 H, to "
              "which the corners are bounded; they are told as parts of it. Landmark k lies at `4 (c + (v w, v' h))`, "
              "w and h those of the bounded box, bounded to the picture and told in pixels. From the highest score on, "
              "over all classes, one stays if its overlap with none kept is above nms_thresh (default 0.4), at most "
              "keep_top_k. The overlap is u / (A + B - u), u = (w + 1)(h + 1) for a common part of w x h pixels, A and "
              "B unbounded.",
          .gradient = "None: no bottom gets one.",
          .source =
              "After CenterFace (Xu et al., arXiv 1911.03599); yuqj1991's Caffe, detection_centernet_output_layer, "
              "with its factor 4 for landmarks. There the top grows with what was found.",
          .example =
              R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 4 dim: 4 dim: 4 } } }
layer { name: "scores" type: "Input" top: "scores" input_param { shape { dim: 1 dim: 1 dim: 4 dim: 4 } } }
layer {
  name: "faces"
  type: "CenternetDetectionOutput"
  bottom: "x"
  bottom: "scores"
  top: "faces"
  detection_output_param { num_classes: 2 keep_top_k: 8 confidence_threshold: 0.3 }
})"}};
}

LayerDef FocalSoftmaxWithLossLayer() {
  return {
      .type = "focalSoftmaxWithLoss",
      .doc =
          "The focal loss of the softmax along softmax_param.axis: the mean of -0.75 (1-p)^2 log p, p that of the "
          "label. loss_param has ignore_label and the normalization (default VALID). An optional second top "
          "holds the probabilities.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .max_tops = 2,
      .auto_tops = true,
      .build = BuildFocal,
      .page = {.params = {"softmax_param", "loss_param"},
               .formula = "`L = (1/Z) sum of -0.75 (1 - p)^2 log max(p, FLT_MIN)`, p the probability of the label; "
                          "ignored labels add 0. Z is as SoftmaxWithLoss's.",
               .gradient = "x: that of the formula. The labels get none, nor does the second top pass one on.",
               .source = "Lin et al., \"Focal Loss for Dense Object Detection\", 2017, arXiv 1708.02002, with fixed "
                         "alpha 0.75, for every label, and gamma 2; yuqj1991's Caffe, focal_loss_layer.",
               .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 4 } } }
layer { name: "loss" type: "focalSoftmaxWithLoss" bottom: "x" bottom: "label" top: "loss" })"}};
}

}  // namespace moka
