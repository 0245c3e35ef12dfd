// A row's time is the work of the direct algorithm over its measured rate, times the share of the arithmetic that is
// padding. Shapes alone enter, so that every process and every number of threads chooses alike.
#include "layers/kernels/cpu/kernel_rule.h"

#include <algorithm>
#include <array>
#include <limits>

#include "graph/graph.h"
#include "graph/op.h"
#include "layers/kernels/cpu/instructions.h"

namespace moka {
namespace {

// The work that a row does in a millisecond of one thread with AVX-512 (GFLOP/s times a million, counted as the direct
// algorithm does), and the axes that it pads to whole vectors. Measured on the convolutions of LeNet, ResNet-20,
// ResNet-18 and GoogLeNet; only the rates' ratios matter, and those with AVX2 are alike.
struct Rate {
  std::string_view row;
  double flops_per_ms;
  bool pads_channels;
  bool pads_images;
};
constexpr std::array<Rate, 7> kRates = {{
    {"onednn", 1.65e8, true, false},
    {"winograd", 3.5e8, true, false},
    {"onednn_winograd", 2.9e8, true, false},
    {"batch_lanes", 1.6e8, false, true},
    {"batch_lanes_winograd", 3.0e8, false, true},
    {"narrow", 1.0e8, false, false},
    {"pairs", 1.5e8, true, false},
}};
// oneDNN in bfloat16, of its rate in float32: with dot products of pairs (measured on ResNet-50's shapes, Zen 4) and
// with tiles (AMX).
constexpr double kPairsShare = 2.0;
constexpr double kTilesShare = 4.0;
// Moka's own rows for images channels last, of their rate in float32 (which they do not have: near oneDNN's with pairs,
// measured as above). With tiles the packing counts: 900 GFLOP/s are what counting its instructions gives beside the
// peak of 2,000 a core; oneDNN 2.6 had 90 to 300 in gradients of weights and 180 in those of one tap.
constexpr double kOwnTilesShare = 6.0;
constexpr int64_t kTileSide = 32;  // channels of a tile of theirs
// The rate of every kernel of a matrix product: they are as fast as each other, so the first listed is taken.
constexpr double kProductFlopsPerMs = 1.65e8;
// Images in lanes read all of x for each of few products where a kernel has one tap.
constexpr double kOneTapShare = 0.4;
// oneDNN's gradient of weights of one input channel with AVX2, of its rate (LeNet's first: 7 GFLOP/s of 60, Zen 3).
constexpr double kOneChannelShare = 0.12;
// oneDNN takes images of fewer channels than this in plain layout.
constexpr int64_t kFewChannels = 4;

int64_t Rounded(int64_t count, int64_t lanes) { return (count + lanes - 1) / lanes * lanes; }

double PaddedShare(int64_t count, int64_t lanes) {
  return static_cast<double>(Rounded(count, lanes)) / static_cast<double>(count);
}

// How many times as fast a row multiplies such factors as float32. Moka's own row is that of recurrences.
double ShareOf(std::string_view row, DType factors) {
  if ((row != "onednn" && row != "moka" && row != "pairs") || factors != DType::kBFloat16 || !HasBFloat16Pairs())
    return 1;
  if (!HasTiles()) return kPairsShare;
  return row == "pairs" ? kOwnTilesShare : kTilesShare;
}

// The weights [K,C/groups,k..] of a convolution or of one of its gradients.
const Shape& WeightsOf(const KernelQuery& query) {
  return query.node.op->name == "convolution_backward_weights" ? query.outputs[0].shape : query.inputs[1].shape;
}

bool IsSlowGradient(const KernelDef& row, const KernelQuery& query) {
  return row.name == "onednn" && !HasAvx512() && query.node.op->name == "convolution_backward_weights" &&
         query.node.attributes.Int("groups") == 1 && WeightsOf(query)[1] == 1;
}

double PaddingOf(const Rate& rate, const KernelQuery& query, int64_t lanes) {
  if (rate.pads_images) return PaddedShare(query.inputs[0].shape[0], lanes);
  if (!rate.pads_channels) return 1;
  const Shape& w = WeightsOf(query);
  const int64_t groups = query.node.attributes.Int("groups");
  const int64_t inputs = w[1];
  const int64_t outputs = w[0] / groups;
  if (inputs == 1 && outputs == 1) return PaddedShare(groups, lanes);  // depthwise
  const bool has_few_channels = rate.row == "onednn" && groups == 1 && inputs < kFewChannels &&
                                query.node.op->name != "convolution_backward_data";
  return PaddedShare(outputs, lanes) * (has_few_channels ? 1 : PaddedShare(inputs, lanes));
}

}  // namespace

double MillisecondsByRule(const KernelDef& row, const KernelQuery& query) {
  const auto flops = static_cast<double>(query.node.op->flops(query.node.attributes, query.inputs, query.outputs));
  if (row.name.starts_with("onednn") && row.make(query)->IsReference()) {
    return std::numeric_limits<double>::infinity();
  }
  if (!query.node.op->name.starts_with("convolution")) return flops / kProductFlopsPerMs;
  for (const Rate& rate : kRates) {
    if (row.name != rate.row) continue;
    const int64_t lanes = row.name == "pairs" ? kTileSide : HasAvx512() ? 16 : 8;
    const Shape& w = WeightsOf(query);
    const bool has_one_tap = rate.pads_images && w.Count(2, w.rank()) == 1;
    const double share = ShareOf(rate.row, query.inputs[0].dtype) * (has_one_tap ? kOneTapShare : 1) *
                         (IsSlowGradient(row, query) ? kOneChannelShare : 1);
    return flops * PaddingOf(rate, query, lanes) / (rate.flops_per_ms * share);
  }
  return flops / kRates[0].flops_per_ms;
}

double FlopsPerMs(std::string_view row, DType factors) {
  const auto* const rate = std::ranges::find(kRates, row, &Rate::row);
  return (rate == kRates.end() ? kProductFlopsPerMs : rate->flops_per_ms) * ShareOf(row, factors);
}

}  // namespace moka
