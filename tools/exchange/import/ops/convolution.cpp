// Conv and ConvTranspose with weights that are constants. Pads of two sides that differ are those of the sides, which
// pictures have, or a Pad layer in front.
#include <algorithm>
#include <utility>

#include "core/text.h"
#include "tools/exchange/import/layer_making.h"
#include "tools/exchange/import/windows.h"

namespace moka {
namespace {

// The constant of input i, of which Moka makes a learned blob.
LayerBlob WeightAt(const ImportNode& n, int i, const char* what) {
  const OnnxConstant constant = n.Constant(i);
  if (constant == nullptr) n.Refuse(StrCat("its ", what, " is computed, where a layer has one that is learned"));
  if (constant->is_whole) n.Refuse(StrCat("its ", what, " is of whole numbers"));
  return {Shape(constant->dims), constant->floats};
}

// Fields that both have. `windows` may lose pads to a layer in front, whose top is returned.
std::string SetGeometry(ImportNode& n, const Windows& w, const std::string& blob, ConvolutionParameter& p) {
  SetEach(w.kernel, *p.mutable_kernel_size());
  if (!AreAll(w.stride, 1)) SetEach(w.stride, *p.mutable_stride());
  if (!AreAll(w.dilation, 1)) SetEach(w.dilation, *p.mutable_dilation());
  if (w.begin == w.end) {
    if (!AreAll(w.begin, 0)) SetEach(w.begin, *p.mutable_pad());
    return blob;
  }
  if (w.kernel.size() != 2) return Padded(n, blob, w.begin, w.end, 0);
  SetSides(w, p);
  return blob;
}

void ReadConv(ImportNode& n) {
  const LayerBlob weight = WeightAt(n, 1, "weight");
  const int rank = static_cast<int>(n.x(0).dims.size());
  if (rank < 3 || weight.shape.rank() != rank) n.Refuse("its weight has other axes than its input");
  Windows w = WindowsOf(n, Ints(weight.shape.dims().begin() + 2, weight.shape.dims().end()));
  LayerParameter layer = LayerOf("Convolution");
  ConvolutionParameter& p = *layer.mutable_convolution_param();
  p.set_num_output(static_cast<uint32_t>(weight.shape[0]));
  const std::string bottom = SetGeometry(n, w, n.In(0), p);
  const int64_t group = n.attributes().Int("group", 1);
  if (group < 1 || group > INT32_MAX) n.Refuse(StrCat("it has ", group, " groups"));
  if (group != 1) p.set_group(static_cast<uint32_t>(group));
  std::vector<LayerBlob> blobs{weight};
  if (n.Has(2)) blobs.push_back(WeightAt(n, 2, "bias"));
  if (!n.Has(2)) p.set_bias_term(false);
  n.Give(layer, {bottom}, std::move(blobs));
}

// ONNX adds output_padding to the size, which is as much less padding at the end.
void ReadConvTranspose(ImportNode& n) {
  const LayerBlob weight = WeightAt(n, 1, "weight");
  const int rank = static_cast<int>(n.x(0).dims.size());
  if (rank < 3 || weight.shape.rank() != rank) n.Refuse("its weight has other axes than its input");
  const NodeAttributes a = n.attributes();
  if (a.Has("output_shape") || a.Text("auto_pad", "NOTSET") != "NOTSET")
    n.Refuse("it says its size otherwise than by pads");
  Windows w = WindowsOf(n, Ints(weight.shape.dims().begin() + 2, weight.shape.dims().end()));
  const Ints more = a.List("output_padding", Ints(w.end.size(), 0));
  if (more.size() != w.end.size()) n.Refuse("its output_padding is not one an axis");
  for (size_t i = 0; i < more.size(); ++i) {
    w.end[i] -= more[i];
    if (w.end[i] < 0) n.Refuse(StrCat("its output_padding ", more[i], " is more than its pad"));
  }
  LayerParameter layer = LayerOf("Deconvolution");
  ConvolutionParameter& p = *layer.mutable_convolution_param();
  const int64_t group = a.Int("group", 1);
  if (group < 1 || group > INT32_MAX) n.Refuse(StrCat("it has ", group, " groups"));
  p.set_num_output(static_cast<uint32_t>(weight.shape[1] * group));
  if (group != 1) p.set_group(static_cast<uint32_t>(group));
  if (w.kernel.size() != 2 && w.begin != w.end) n.Refuse("its pads differ at the two sides");
  SetGeometry(n, w, n.In(0), p);
  std::vector<LayerBlob> blobs{weight};
  if (n.Has(2)) blobs.push_back(WeightAt(n, 2, "bias"));
  if (!n.Has(2)) p.set_bias_term(false);
  n.Give(layer, {n.In(0)}, std::move(blobs));
}

}  // namespace

OnnxImportOp ImportConv() { return {.types = {"Conv"}, .read = ReadConv}; }
OnnxImportOp ImportConvTranspose() { return {.types = {"ConvTranspose"}, .read = ReadConvTranspose}; }

}  // namespace moka
