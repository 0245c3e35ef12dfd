// Infogain loss: -sum over classes of H[label][k] * log p[k], p = softmax(x); H is a matrix that weighs mistakes (the
// identity gives SoftmaxWithLoss). Caffe bounds p by 1e-20 from below in the value but not in the gradient.
#include <filesystem>

#include "core/log.h"
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/loss/loss_normalizer.h"
#include "layers/types/loss/own_gradient.h"
#include "proto/weights/weights.h"

namespace moka {
namespace {

// H [classes, classes], from the third bottom or the file.
ValueId Matrix(const LayerBuilder& l, int64_t classes) {
  const int64_t count = (Size(classes) * classes).value();
  if (l.bottom_count() == 3) {
    l.Check(l.shape(2).Count() == count, "bottom[2]",
            StrCat("the infogain matrix \"", l.param().bottom(2), "\" must be ", classes, " x ", classes, ", found ",
                   l.shape(2).ToString()));
    return l.b().Reshape(Constant(l, l.bottom(2)), {classes, classes});
  }
  const InfogainLossParameter& p = l.param().infogain_loss_param();
  const std::string field = "infogain_loss_param.source";
  l.Check(p.has_source(), "infogain_loss_param",
          "the infogain matrix must be given: a third bottom, or infogain_loss_param.source, a .binaryproto");
  if (l.FeedsPythonData() && !std::filesystem::exists(p.source())) {
    // A net that is looked at without its data: no shape depends on the matrix.
    LogWarning(StrCat("layer \"", l.param().name(), "\": no file ", Printable(p.source()),
                      "; going on with an infogain matrix of zeros"));
    return l.b().Full({classes, classes}, 0.0);
  }
  NamedBlob matrix;
  try {
    matrix = ReadBlobProtoFile(p.source());
  } catch (const Error& error) {
    l.Fail(field, error.text(), error.hint());
  }
  l.Check(
      static_cast<int64_t>(matrix.values.size()) == count, field,
      StrCat(field, ": the infogain matrix must be ", classes, " x ", classes, ", found ", matrix.shape.ToString()));
  return l.b().Add1(
      "table", {},
      {{"shape", Ints{classes, classes}}, {"values", Doubles(matrix.values.begin(), matrix.values.end())}});
}

void BuildInfogainLoss(LayerBuilder& l) {
  const LossParameter& p = l.param().loss_param();
  l.Check(!p.has_normalize(), "loss_param.normalize", "InfogainLoss has no normalize; give normalization");
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  const int axis = AxisOf(l, "infogain_loss_param.axis", l.param().infogain_loss_param().axis(), x);
  CheckLabelCount(l, axis);
  const int64_t classes = x[axis];
  const int64_t outer = x.Count(0, axis);
  const int64_t inner = x.Count(axis + 1, x.rank());
  const ValueId probability = b.Add1("softmax", {l.bottom(0)}, {{"axis", int64_t{axis}}});
  const ValueId label = b.Reshape(Constant(l, l.bottom(1)), {outer * inner});
  // Row H[label] of each position, laid out as x; zero where the label is ignored.
  const ValueId rows = b.Add1("reindex", {Matrix(l, classes), label},
                              {{"has_ignore", p.has_ignore_label()}, {"ignore_label", int64_t{p.ignore_label()}}});
  const ValueId turned = b.Add1("transpose", {b.Reshape(rows, {outer, inner, classes})}, {{"perm", Ints{0, 2, 1}}});
  const ValueId weight = b.Reshape(turned, x);
  const ValueId sum = SumOf(l, "-x1*log(max(x0,1e-20))", {probability, weight});
  const ValueId dx = b.Pointwise("x0*x2-x1", {probability, weight, b.ReduceSum(weight, {axis})});
  LossCounts counts{.batch = outer, .positions = outer * inner};
  if (p.has_ignore_label()) counts.valid = SumOf(l, StrCat("1-eq(x0,", Number(p.ignore_label()), ")"), {label});
  l.SetTop(0, Normalized(l, WithGradients(l, sum, {{l.bottom(0), dx}}), counts, LossParameter::VALID));
  l.SetLoss(0, 1);
  if (l.top_count() > 1) l.SetTop(1, probability);
}

}  // namespace

LayerDef InfogainLossLayer() {
  return {
      .type = "InfogainLoss",
      .doc =
          "Bottoms: scores, labels, optionally the infogain matrix H [K,K] (else infogain_loss_param.source, a "
          ".binaryproto). The sum of -H[label][k] * log(max(p[k], 1e-20)) over positions and classes k, p the "
          "softmax along infogain_loss_param.axis (default 1); loss_param has ignore_label and the normalization "
          "(default VALID). An optional second top holds the probabilities. H gets no gradient.",
      .min_bottoms = 2,
      .max_bottoms = 3,
      .max_tops = 2,
      .auto_tops = true,
      .build = BuildInfogainLoss,
      .page = {
          .params = {"infogain_loss_param", "loss_param"},
          .formula =
              "`p = softmax(x)` along axis (default 1, K classes); bottom 1 has a label for each of the other "
              "positions. `y = -sum over positions and k of H[label,k] * log(max(p[k], 1e-20)) / Z`, a scalar; "
              "positions whose label is ignore_label add nothing. H is [K,K], bottom 2 or the blob in source.\n\nZ "
              "follows loss_param.normalization: VALID (the default) the positions not ignored, at least 1; FULL all "
              "positions; BATCH_SIZE the product of the dimensions before axis; NONE 1; PRE_FIXED "
              "pre_fixed_normalizer. Top 1, if there is one, is p, of x's shape. The loss weight is 1 unless given.",
          .gradient = "`dx[k] = dy * (p[k] * s - H[label,k]) / Z`, s the sum of H[label]; 0 where the label is "
                      "ignored. The bound 1e-20 has no part in it. Labels and H get none.",
          .source = "BVLC Caffe's infogain_loss_layer, which bounds p in the value but not in the gradient. "
                    "loss_param.normalize is refused; PRE_FIXED is Intel's.",
          .example = R"(layer { name: "score" type: "Input" top: "score" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 4 } } }
layer { name: "H" type: "Input" top: "H" input_param { shape { dim: 3 dim: 3 } } }
layer {
  name: "loss"
  type: "InfogainLoss"
  bottom: "score"
  bottom: "label"
  bottom: "H"
  top: "loss"
})"}};
}

}  // namespace moka
