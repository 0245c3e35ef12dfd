// MaxPool and AveragePool. Caffe rounds the number of windows up and drops one that would begin outside; a file says
// pads at both ends, or rounds as it says. The Pooling layer that has the same windows is looked for among its
// spellings, the shortest first. An AveragePool with a second input is followed by a product with it
// (onnx_patterns.cpp): the share of each window that Caffe counts.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "core/text.h"
#include "tools/exchange/import/fold.h"
#include "tools/exchange/import/layer_making.h"
#include "tools/exchange/import/windows.h"

namespace moka {
namespace {

// A spelling of the Pooling layer.
struct Spelling {
  bool rounds_up = true;
  bool has_sides = false;  // pads of the sides, else `begin` at both
};
constexpr Spelling kSpellings[] = {{true, false}, {false, false}, {false, true}, {true, true}};

// Windows along an axis; one that would begin in the pad behind is dropped, if `drops`.
int64_t Count(int64_t in, int64_t room_pads, int64_t begin, int64_t extent, int64_t stride, bool rounds_up,
              bool drops) {
  const int64_t room = in + room_pads - extent;
  if (room < 0) return 0;
  int64_t out = (rounds_up ? (room + stride - 1) / stride : room / stride) + 1;
  if (drops && (out - 1) * stride >= in + begin) --out;
  return out;
}

// As ONNX says.
Ints WindowsOfNode(const ImportNode& n, const Windows& w) {
  const bool rounds_up = n.attributes().Int("ceil_mode", 0) != 0;
  Ints counts;
  for (size_t i = 0; i < w.kernel.size(); ++i) {
    const int64_t extent = w.dilation[i] * (w.kernel[i] - 1) + 1;
    counts.push_back(
        Count(n.x(0).dims[i + 2], w.begin[i] + w.end[i], w.begin[i], extent, w.stride[i], rounds_up, rounds_up));
  }
  return counts;
}

// As the layer has them (layers/types/pooling/pooling.cpp).
Ints WindowsOfLayer(const ImportNode& n, const Windows& w, const Spelling& spelling) {
  const Ints& end = spelling.has_sides ? w.end : w.begin;
  const bool drops = !AreAll(w.begin, 0) || !AreAll(end, 0) || std::ranges::find(w.kernel, 1) != w.kernel.end();
  Ints counts;
  for (size_t i = 0; i < w.kernel.size(); ++i) {
    counts.push_back(Count(n.x(0).dims[i + 2], w.begin[i] + end[i], w.begin[i], w.kernel[i], w.stride[i],
                           spelling.rounds_up, drops));
  }
  return counts;
}

// Whether each window of an average has the divisor that ONNX gives it: all of its positions, or with `ceil_mode` those
// in the padded image. The layer's counts those in the image and its pads.
bool HasDivisors(const ImportNode& n, const Windows& w, const Spelling& spelling, const Ints& windows) {
  const bool is_cut = n.attributes().Int("ceil_mode", 0) != 0;
  for (size_t i = 0; i < w.kernel.size(); ++i) {
    const int64_t in = n.x(0).dims[i + 2];
    const int64_t layer_end = in + (spelling.has_sides ? w.end[i] : w.begin[i]);
    const int64_t last_end = (windows[i] - 1) * w.stride[i] - w.begin[i] + w.kernel[i];
    const int64_t node_end = is_cut ? std::min(last_end, in + w.end[i]) : last_end;
    if (std::min(last_end, layer_end) != node_end) return false;
  }
  return true;
}

// The shares of windows, as the exporter writes them (tools/exchange/ops/pooling.cpp): positions over those counted.
bool HasShares(const ImportNode& n, const Windows& w, const Spelling& spelling, const Ints& windows,
               const OnnxTensor& shares) {
  if (Ints dims{1, 1}; dims.insert(dims.end(), windows.begin(), windows.end()), shares.dims != dims) return false;
  std::vector<float> expected{1};
  for (size_t i = 0; i < w.kernel.size(); ++i) {
    const int64_t in = n.x(0).dims[i + 2];
    std::vector<float> next;
    for (const float outer : expected) {
      for (int64_t place = 0; place < windows[i]; ++place) {
        const int64_t begin = place * w.stride[i] - w.begin[i];
        const int64_t end = std::min(begin + w.kernel[i], in + (spelling.has_sides ? w.end[i] : w.begin[i]));
        const auto counted = static_cast<double>(end - begin);
        next.push_back(static_cast<float>(static_cast<double>(outer) * static_cast<double>(w.kernel[i]) / counted));
      }
    }
    expected = std::move(next);
  }
  return expected == shares.floats;
}

LayerParameter PoolingLayer(PoolingParameter::PoolMethod method, const Windows& w, const Spelling& spelling) {
  LayerParameter layer = LayerOf("Pooling");
  PoolingParameter& p = *layer.mutable_pooling_param();
  p.set_pool(method);
  SetEach(w.kernel, *p.mutable_kernel_size());
  if (!AreAll(w.stride, 1)) SetEach(w.stride, *p.mutable_stride());
  if (!spelling.rounds_up) p.set_round_mode(PoolingParameter::FLOOR);
  if (spelling.has_sides) SetSides(w, p);
  if (!spelling.has_sides && !AreAll(w.begin, 0)) SetEach(w.begin, *p.mutable_pad());
  return layer;
}

// Dilated windows, for which the layer takes no pad.
void ReadDilated(ImportNode& n, const Windows& w) {
  const std::string blob =
      AreAll(w.begin, 0) && AreAll(w.end, 0) ? n.In(0) : Padded(n, n.In(0), w.begin, w.end, -3.4028235e38F);
  if (n.attributes().Int("ceil_mode", 0) != 0) n.Refuse("its windows are dilated and rounded up");
  LayerParameter layer = PoolingLayer(
      PoolingParameter::MAX,
      {.kernel = w.kernel, .stride = w.stride, .dilation = {}, .begin = Ints(w.begin.size(), 0), .end = {}},
      {.rounds_up = false});
  SetEach(w.dilation, *layer.mutable_pooling_param()->mutable_dilation());
  n.Give(layer, {blob});
}

void ReadMaxPool(ImportNode& n) {
  if (n.proto().output_size() > 1 && !n.proto().output(1).empty()) n.Refuse("it gives the places of the largest");
  if (n.attributes().Int("storage_order", 0) != 0) n.Refuse("its storage_order is of columns");
  const Windows w = WindowsOf(n, {});
  if (!AreAll(w.dilation, 1)) return ReadDilated(n, w);
  const Ints windows = WindowsOfNode(n, w);
  for (const Spelling& spelling : kSpellings) {
    if (spelling.has_sides && w.kernel.size() != 2) continue;
    if (WindowsOfLayer(n, w, spelling) != windows) continue;
    return n.Give(PoolingLayer(PoolingParameter::MAX, w, spelling), {n.In(0)});
  }
  n.Refuse("no Pooling layer has its windows");
}

void ReadAveragePool(ImportNode& n) {
  const Windows w = WindowsOf(n, {});
  if (!AreAll(w.dilation, 1)) n.Refuse("its windows are dilated");
  const Ints windows = WindowsOfNode(n, w);
  const bool has_pads = !AreAll(w.begin, 0) || !AreAll(w.end, 0);
  const bool counts_pads = n.attributes().Int("count_include_pad", 0) != 0;
  const OnnxConstant shares = n.Has(1) ? n.Constant(1) : nullptr;
  for (const Spelling& spelling : kSpellings) {
    if (spelling.has_sides && w.kernel.size() != 2) continue;
    if (WindowsOfLayer(n, w, spelling) != windows) continue;
    if (!counts_pads && has_pads && shares == nullptr)
      return n.Give(PoolingLayer(PoolingParameter::AVE_EXC_PAD, w, spelling), {n.In(0)});
    const bool is_same =
        shares != nullptr ? HasShares(n, w, spelling, windows, *shares) : HasDivisors(n, w, spelling, windows);
    if (is_same) return n.Give(PoolingLayer(PoolingParameter::AVE, w, spelling), {n.In(0)});
  }
  if (!counts_pads || n.attributes().Int("ceil_mode", 0) != 0) n.Refuse("no Pooling layer has its windows");
  // Zeros around the picture, so that every window is whole, and what the product says.
  const std::string padded = Padded(n, n.In(0), w.begin, w.end, 0);
  const LayerParameter layer = PoolingLayer(
      PoolingParameter::AVE,
      {.kernel = w.kernel, .stride = w.stride, .dilation = {}, .begin = Ints(w.begin.size(), 0), .end = {}},
      {.rounds_up = false});
  if (shares == nullptr) return n.Give(layer, {padded});
  n.Give(LayerOf("Mul"), {n.Add(layer, {padded}), n.In(1)});
}

void ReadGlobal(ImportNode& n) {
  const bool is_max = n.proto().op_type() == "GlobalMaxPool";
  LayerParameter layer = LayerOf("Pooling");
  layer.mutable_pooling_param()->set_pool(is_max ? PoolingParameter::MAX : PoolingParameter::AVE);
  layer.mutable_pooling_param()->set_global_pooling(true);
  n.Give(layer, {n.In(0)});
}

}  // namespace

OnnxImportOp ImportMaxPool() { return {.types = {"MaxPool"}, .read = ReadMaxPool}; }
OnnxImportOp ImportAveragePool() { return {.types = {"AveragePool"}, .read = ReadAveragePool}; }
OnnxImportOp ImportGlobalPool() { return {.types = {"GlobalAveragePool", "GlobalMaxPool"}, .read = ReadGlobal}; }

}  // namespace moka
