// Infogain loss: -sum over classes of H[label][k] * log p[k], p = softmax(x); H is a matrix that weighs mistakes (the
// identity gives SoftmaxWithLoss). Caffe bounds p by 1e-20 from below in the value but not in the gradient.
#include <filesystem>

#include "core/log.h"
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/shape_reader.h"
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
  if (p.has_ignore_label()) counts.valid = SumOf(l, 1 - (Term::Of(label) == p.ignore_label()));
  l.SetTop(0, Normalized(l, WithGradients(l, sum, {{l.bottom(0), dx}}), counts, LossParameter::VALID));
  l.SetLoss(0, 1);
  if (l.top_count() > 1) l.SetTop(1, probability);
}

// The labels, and a number for each pair of classes.
void NeedsOfInfogainLoss(const ShapeReader& reader) {
  NeedLabels(reader, reader.layer().softmax_param().axis());
  const Shape* scores = reader.bottom(0);
  if (scores == nullptr || reader.bottom_count() < 3) return;
  const int axis = AxisFromFront(reader.layer().infogain_loss_param().axis(), scores->rank());
  if (axis < 0 || axis >= scores->rank()) return;
  const int64_t classes = (*scores)[axis];
  const Shape* found = reader.bottom(2);
  if (found != nullptr && found->rank() > 0 && (*found)[0] == 1) {
    reader.Require(2, {1, 1, classes, classes});
  } else {
    reader.Require(2, {classes, classes});
  }
}

}  // namespace

LayerDef InfogainLossLayer() {
  return {.type = "InfogainLoss",
          .min_bottoms = 2,
          .max_bottoms = 3,
          .max_tops = 2,
          .auto_tops = true,
          .build = BuildInfogainLoss,
          .traits = {.is_loss = true, .reads_scores = true},
          .needs = NeedsOfInfogainLoss,
          .params = {"infogain_loss_param", "loss_param"}};
}

}  // namespace moka
