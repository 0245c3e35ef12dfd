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
  return {.type = "CenterGridLoss",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .auto_tops = true,
          .build = BuildGridLoss,
          .traits = {.is_loss = true},
          .params = {"center_object_loss_param", "loss_param"}};
}

LayerDef CenternetDetectionOutputLayer() {
  return {.type = "CenternetDetectionOutput",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .build = BuildPeaks,
          .params = {"detection_output_param"}};
}

LayerDef FocalSoftmaxWithLossLayer() {
  return {.type = "focalSoftmaxWithLoss",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .max_tops = 2,
          .auto_tops = true,
          .build = BuildFocal,
          .traits = {.is_loss = true},
          .params = {"softmax_param", "loss_param"}};
}

}  // namespace moka
