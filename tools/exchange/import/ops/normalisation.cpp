// Batch norms by given statistics are BatchNorm and Scale, as Caffe has them; layer normalisation, local response
// normalisation and softmax.
#include <algorithm>
#include <utility>

#include "core/text.h"
#include "tools/exchange/import/fold.h"
#include "tools/exchange/import/layer_making.h"

namespace moka {
namespace {

std::vector<float> FloatsAt(const ImportNode& n, int i) {
  const OnnxConstant constant = n.Constant(i);
  if (constant == nullptr || constant->is_whole) n.Refuse(StrCat("its input ", i, " is no constant of float32"));
  return constant->floats;
}

// The running statistics have the weight 1.
void ReadBatchNorm(ImportNode& n) {
  if (n.attributes().Int("training_mode", 0) != 0) n.Refuse("it takes the statistics of the batch");
  LayerParameter norm = LayerOf("BatchNorm");
  norm.mutable_batch_norm_param()->set_eps(static_cast<float>(n.attributes().Float("epsilon", 1e-5)));
  const std::vector<float> scale = FloatsAt(n, 1);
  const Shape channels{std::ssize(scale)};
  const auto blob = [&](int i) { return LayerBlob{channels, FloatsAt(n, i)}; };
  for (int i = 2; i < 5; ++i) {
    if (FloatsAt(n, i).size() != scale.size()) n.Refuse("its inputs are of different numbers of channels");
  }
  const std::string normal = n.Add(norm, {n.In(0)}, {blob(3), blob(4), {Shape{1}, {1}}});
  LayerParameter affine = LayerOf("Scale");
  affine.mutable_scale_param()->set_bias_term(true);
  n.Give(affine, {normal}, {blob(1), blob(2)});
}

void ReadLayerNorm(ImportNode& n) {
  const NodeAttributes a = n.attributes();
  const Ints& x = n.x(0).dims;
  const int64_t axis = AxisIn(a.Int("axis", -1), x.size());
  if (n.proto().output_size() > 1) n.Refuse("it gives mean and deviation, too");
  LayerParameter layer = LayerOf("LayerNorm");
  LayerNormParameter& p = *layer.mutable_layer_norm_param();
  if (axis != std::ssize(x) - 1) p.set_axis(static_cast<int32_t>(axis));
  p.set_eps(static_cast<float>(a.Float("epsilon", 1e-5)));
  const Shape normal(Ints(x.begin() + axis, x.end()));
  const std::vector<float> scale = FloatsAt(n, 1);
  std::vector<float> shift = n.Has(2) ? FloatsAt(n, 2) : std::vector<float>(scale.size(), 0);
  if (std::ssize(scale) != normal.Count() || shift.size() != scale.size())
    n.Refuse(StrCat("its scale has ", scale.size(), " numbers for axes ", normal.ToString()));
  n.Give(layer, {n.In(0)}, {{normal, scale}, {normal, std::move(shift)}});
}

void ReadLrn(ImportNode& n) {
  const NodeAttributes a = n.attributes();
  const int64_t size = a.Int("size", 0);
  if (size < 1 || size % 2 == 0 || size > INT32_MAX) n.Refuse(StrCat("its size is ", size));
  LayerParameter layer = LayerOf("LRN");
  LRNParameter& p = *layer.mutable_lrn_param();
  p.set_local_size(static_cast<uint32_t>(size));
  p.set_alpha(static_cast<float>(a.Float("alpha", 1e-4)));
  p.set_beta(static_cast<float>(a.Float("beta", 0.75)));
  p.set_k(static_cast<float>(a.Float("bias", 1)));
  if (n.proto().op_type() != "LRN") p.set_norm_region(LRNParameter::WITHIN_CHANNEL);
  n.Give(layer, {n.In(0)});
}

// Before opset 13 the axes from the given one on are normalised together.
void ReadSoftmax(ImportNode& n) {
  const bool is_log = n.proto().op_type() == "LogSoftmax";
  const bool is_old = n.opset() < 13;
  const Ints& x = n.x(0).dims;
  int64_t axis = AxisIn(n.attributes().Int("axis", is_old ? 1 : -1), x.size());
  std::string blob = n.In(0);
  const bool is_joined = is_old && CountOf(Ints(x.begin() + axis + 1, x.end())) != 1;
  if (is_joined) {
    Ints dims(x.begin(), x.begin() + axis);
    dims.push_back(CountOf(Ints(x.begin() + axis, x.end())));
    blob = Reshaped(n, blob, dims);
  }
  LayerParameter layer = LayerOf("Softmax");
  layer.mutable_softmax_param()->set_axis(static_cast<int32_t>(axis));
  if (!is_joined && !is_log) return n.Give(layer, {blob});
  blob = n.Add(layer, {blob});
  if (is_log && !is_joined) return n.Give(LayerOf("Log"), {blob});
  if (is_log) blob = n.Add(LayerOf("Log"), {blob});
  GiveReshaped(n, blob, x);
}

// Each channel of each image by its own mean and deviation: as a layer norm of [N*C, the rest], then scaled.
void ReadInstanceNorm(ImportNode& n) {
  const Ints x = n.x(0).dims;
  if (x.size() < 3) n.Refuse(StrCat("its input has ", x.size(), " axes"));
  LayerParameter norm = LayerOf("LayerNorm");
  norm.mutable_layer_norm_param()->set_axis(2);
  norm.mutable_layer_norm_param()->set_eps(static_cast<float>(n.attributes().Float("epsilon", 1e-5)));
  norm.mutable_layer_norm_param()->set_affine(false);
  LayerParameter affine = LayerOf("Scale");
  affine.mutable_scale_param()->set_bias_term(true);
  const Shape channels{x[1]};
  n.Give(affine, {n.Add(norm, {n.In(0)})}, {{channels, FloatsAt(n, 1)}, {channels, FloatsAt(n, 2)}});
}

}  // namespace

OnnxImportOp ImportBatchNorm() {
  return {.types = {"BatchNormalization"}, .read = ReadBatchNorm, .idle = {"momentum"}};
}
OnnxImportOp ImportLayerNorm() {
  return {.types = {"LayerNormalization"}, .read = ReadLayerNorm, .idle = {"stash_type"}};
}
OnnxImportOp ImportInstanceNorm() { return {.types = {"InstanceNormalization"}, .read = ReadInstanceNorm}; }
OnnxImportOp ImportLrn() { return {.types = {"LRN", "LrnWithinChannels"}, .read = ReadLrn}; }
OnnxImportOp ImportSoftmax() { return {.types = {"Softmax", "LogSoftmax"}, .read = ReadSoftmax}; }

}  // namespace moka
