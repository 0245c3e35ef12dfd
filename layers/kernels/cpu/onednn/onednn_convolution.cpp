// Convolution and its two gradients by oneDNN's direct and Winograd algorithms. All three ask for the same triple x, w,
// y (or their gradients), so one description of the problem serves them. A transposed convolution is the gradient with
// respect to x.
#include <algorithm>
#include <array>
#include <vector>

#include "core/text.h"
#include "graph/kernel.h"
#include "graph/op.h"
#include "graph/tracks.h"
#include "graph/widened_kernel.h"
#include "layers/kernels/cpu/onednn/image_parts.h"
#include "layers/kernels/cpu/onednn/onednn.h"
#include "layers/kernels/cpu/onednn/onednn_weights.h"
#include "layers/ops/geometry.h"

namespace moka {
namespace {

using onednn::Argument;
using onednn::Choice;
using onednn::MemoryDesc;
using onednn::Place;
using onednn::PrimitiveDesc;

enum class Direction : uint8_t { kForward, kBackwardData, kBackwardWeights };
// Winograd's algorithm has a row of its own, which is asked for last: oneDNN 2 has it for some shapes only.
enum class Algorithm : uint8_t { kDirect, kWinograd };

struct Problem {
  TensorType x;                    // [N,C,in..], or its gradient
  TensorType w;                    // [K,C/groups,k..], or its gradient
  TensorType y;                    // [N,K,out..], or its gradient
  std::optional<TensorType> bias;  // [K]
  Geometry geometry;
  int64_t groups = 1;
  onednn::PostOps post_ops;
  dnnl_alg_kind_t algorithm = dnnl_convolution_direct;
};

// Says which of the three layouts are as the problem has them, and which are oneDNN's choice.
struct Choices {
  Choice x = Choice::kAny;
  Choice w = Choice::kAny;
  Choice y = Choice::kAny;
};

struct Layouts {
  Layout x;
  Layout w;
  Layout y;
};

Problem ReadProblem(Direction direction, Algorithm algorithm, const KernelQuery& query) {
  const Attributes& attributes = query.node.attributes;
  Problem p;
  switch (direction) {
    case Direction::kForward: {
      p.x = query.inputs[0];
      p.w = query.inputs[1];
      p.y = query.outputs[0];
      p.post_ops = {.sum = attributes.Bool("sum"), .relu = attributes.String("activation") == "relu"};
      if (query.inputs.size() == (p.post_ops.sum ? 4U : 3U)) p.bias = query.inputs[2];
      break;
    }
    case Direction::kBackwardData:
      p.y = query.inputs[0];
      p.w = query.inputs[1];
      p.x = query.outputs[0];
      break;
    case Direction::kBackwardWeights:
      p.x = query.inputs[0];
      p.y = query.inputs[1];
      p.w = query.outputs[0];
      if (query.outputs.size() > 1) p.bias = query.outputs[1];
      break;
  }
  p.geometry = ConvolutionGeometry(query.node.op->name, attributes, p.w.shape);
  p.groups = attributes.Int("groups");
  if (algorithm == Algorithm::kWinograd) p.algorithm = dnnl_convolution_winograd;
  return p;
}

onednn::ConvolutionProblem Fill(const Problem& p, const Choices& choices, const onednn::Format& w) {
  return {.algorithm = p.algorithm,
          .x = onednn::Describe(p.x, choices.x),
          .w = w,
          .bias = p.bias ? MemoryDesc(onednn::Describe(*p.bias)) : MemoryDesc(),
          .y = onednn::Describe(p.y, choices.y),
          .windows = onednn::ConvolutionWindows(p.geometry)};
}

// The forward descriptor is made for training in any case: it serves as the backward ones' hint too.
PrimitiveDesc CreateForward(const Problem& p, const onednn::ConvolutionProblem& filled) {
  return onednn::Convolution(dnnl_forward_training, filled, p.post_ops);
}

// Not ok (without a status) when the weights' layout cannot be said with groups.
PrimitiveDesc CreateDesc(Direction direction, const Problem& p, const Choices& choices) {
  const std::optional<onednn::Format> w =
      choices.w == Choice::kAny ? onednn::DescribeAnyWeights(p.w, p.groups) : onednn::DescribeWeights(p.w, p.groups);
  if (!w) return {};
  const onednn::ConvolutionProblem filled = Fill(p, choices, *w);
  if (direction == Direction::kForward) return CreateForward(p, filled);
  // The backward descriptors want the forward one they belong to; only its shapes matter. Its weights are of x's type,
  // also where their gradient is wider.
  const TensorType weights{p.x.dtype, p.w.shape, p.w.layout};
  const PrimitiveDesc hint = CreateForward(p, Fill(p, {}, onednn::DescribeAnyWeights(weights, p.groups)));
  if (!hint.ok()) return {};
  return direction == Direction::kBackwardData ? onednn::ConvolutionBackwardData(filled, hint)
                                               : onednn::ConvolutionBackwardWeights(filled, hint);
}

// The descriptions of x, w and y inside a primitive.
std::array<MemoryDesc, 3> TripleOf(Direction direction, const PrimitiveDesc& desc) {
  const bool data = direction == Direction::kBackwardData;
  const bool weights = direction == Direction::kBackwardWeights;
  return {desc.md(data ? dnnl_query_diff_src_md : dnnl_query_src_md),
          desc.md(weights ? dnnl_query_diff_weights_md : dnnl_query_weights_md),
          desc.md(direction == Direction::kForward ? dnnl_query_dst_md : dnnl_query_diff_dst_md)};
}

std::optional<Layouts> LayoutsOf(Direction direction, const Problem& p, const PrimitiveDesc& desc) {
  const auto [x, w, y] = TripleOf(direction, desc);
  const auto x_layout = onednn::LayoutOf(x);
  const auto w_layout = onednn::WeightsLayoutOf(w, p.groups);
  const auto y_layout = onednn::LayoutOf(y);
  if (!x_layout || !w_layout || !y_layout) return {};
  return Layouts{*x_layout, *w_layout, *y_layout};
}

// Returns the layouts that oneDNN likes best; with plain weights where its favourite cannot be said as a layout.
std::optional<Layouts> FreeLayouts(Direction direction, const Problem& p, std::string& implementation) {
  Problem plain = p;
  plain.w.layout = {};
  for (const Choices& choices : {Choices{}, Choices{.w = Choice::kFixed}}) {
    const PrimitiveDesc desc = CreateDesc(direction, choices.w == Choice::kAny ? p : plain, choices);
    if (!desc.ok()) continue;
    implementation = desc.implementation();
    if (auto layouts = LayoutsOf(direction, p, desc)) return layouts;
  }
  return {};
}

// oneDNN adds the weights' gradient in as many partial sums as it has threads.
bool IsCut(Direction direction, const KernelQuery& query) {
  return direction == Direction::kBackwardWeights && query.deterministic;
}

// oneDNN's choice, but with what is there already wherever that costs nothing: the same implementation runs on it.
// For the weights' gradient "there already" is the layout the forward pass gives the weights, so the update needs no
// reorder.
// Attempts are ordered from "all stays as it is" to "some of it does". An attempt counts only if oneDNN names the same
// implementation as for its free choice: a slower one is often accepted, too.
std::optional<Layouts> ChooseLayouts(Direction direction, Problem p) {
  std::string best;
  const std::optional<Layouts> free = FreeLayouts(direction, p, best);
  if (!free) return {};
  constexpr Choice kFixed = Choice::kFixed;
  std::vector<Choices> attempts;
  switch (direction) {
    case Direction::kForward: attempts = {{.x = kFixed, .w = kFixed}, {.x = kFixed}, {.w = kFixed}}; break;
    case Direction::kBackwardData: attempts = {{.w = kFixed, .y = kFixed}, {.y = kFixed}, {.w = kFixed}}; break;
    case Direction::kBackwardWeights: {
      std::string unused;
      Problem direct = p;
      direct.algorithm = dnnl_convolution_direct;
      direct.w.dtype = p.x.dtype;
      if (const auto forward = FreeLayouts(Direction::kForward, direct, unused)) p.w.layout = forward->w;
      attempts = {{kFixed, kFixed, kFixed}, {.w = kFixed}, {.x = kFixed, .y = kFixed}};
      break;
    }
  }
  for (const Choices& choices : attempts) {
    const PrimitiveDesc desc = CreateDesc(direction, p, choices);
    if (!desc.ok() || desc.implementation() != best) continue;
    if (auto layouts = LayoutsOf(direction, p, desc)) return layouts;
  }
  return free;
}

template <Direction kDirection, Algorithm kAlgorithm>
std::string RefuseWhole(const KernelQuery& query) {
  if (std::string reason = onednn::RefuseFactors(query); !reason.empty()) return reason;
  const Problem p = ReadProblem(kDirection, kAlgorithm, query);
  if (p.bias && !p.bias->layout.is_plain()) return "the bias is not plain";
  if (p.post_ops.sum && query.inputs.back() != p.y) {
    return StrCat("the summand ", query.inputs.back().ToString(), " does not lie as the output ", p.y.ToString());
  }
  constexpr Choices kAll = {Choice::kFixed, Choice::kFixed, Choice::kFixed};
  if (!onednn::DescribeWeights(p.w, p.groups)) {
    return StrCat("the blocks of the weights ", p.w.ToString(), " cross the borders of ", p.groups, " groups");
  }
  return CreateDesc(kDirection, p, kAll).Refusal();
}

template <Direction kDirection, Algorithm kAlgorithm>
std::optional<LayoutProposal> Propose(const KernelQuery& query) {
  if (!onednn::RefuseFactors(query).empty()) return {};
  std::optional<OneThread> alone;
  const std::vector<TensorType> sums = Widened(query.outputs);
  KernelQuery run = query;
  if (IsCut(kDirection, query)) {  // as its parts will run
    alone.emplace();
    run.outputs = sums;
  }
  const std::optional<Layouts> layouts = ChooseLayouts(kDirection, ReadProblem(kDirection, kAlgorithm, run));
  if (!layouts) return {};
  LayoutProposal proposal{std::vector<Layout>(query.inputs.size()), std::vector<Layout>(query.outputs.size())};
  switch (kDirection) {
    case Direction::kForward:
      proposal.inputs[0] = layouts->x;
      proposal.inputs[1] = layouts->w;
      proposal.outputs[0] = layouts->y;
      if (query.node.attributes.Bool("sum")) proposal.inputs.back() = layouts->y;
      break;
    case Direction::kBackwardData:
      proposal.inputs = {layouts->y, layouts->w};
      proposal.outputs[0] = layouts->x;
      break;
    case Direction::kBackwardWeights:
      proposal.inputs = {layouts->x, layouts->y};
      proposal.outputs[0] = layouts->w;
      break;
  }
  return proposal;
}

// All layouts are fixed by now: the primitive runs on the tensors as they lie, without a reorder.
template <Direction kDirection, Algorithm kAlgorithm>
std::unique_ptr<Kernel> MakeWhole(const KernelQuery& query) {
  const Problem p = ReadProblem(kDirection, kAlgorithm, query);
  const PrimitiveDesc desc = CreateDesc(kDirection, p, {Choice::kFixed, Choice::kFixed, Choice::kFixed});
  Require(desc.ok(), "make follows an accepted query");
  const auto [x, w, y] = TripleOf(kDirection, desc);
  auto kernel = std::make_unique<onednn::PrimitiveKernel>();
  std::vector<Argument> arguments;
  switch (kDirection) {
    case Direction::kForward:
      arguments = {{DNNL_ARG_SRC, x, Place::kInput, 0},
                   {DNNL_ARG_WEIGHTS, w, Place::kInput, 1},
                   {DNNL_ARG_DST, y, Place::kOutput, 0}};
      if (p.bias) arguments.push_back({DNNL_ARG_BIAS, onednn::Describe(*p.bias), Place::kInput, 2});
      if (p.post_ops.sum) kernel->CopyFirst(static_cast<int>(query.inputs.size()) - 1);
      break;
    case Direction::kBackwardData:
      arguments = {{DNNL_ARG_DIFF_DST, y, Place::kInput, 0},
                   {DNNL_ARG_WEIGHTS, w, Place::kInput, 1},
                   {DNNL_ARG_DIFF_SRC, x, Place::kOutput, 0}};
      break;
    case Direction::kBackwardWeights:
      arguments = {{DNNL_ARG_SRC, x, Place::kInput, 0},
                   {DNNL_ARG_DIFF_DST, y, Place::kInput, 1},
                   {DNNL_ARG_DIFF_WEIGHTS, w, Place::kOutput, 0}};
      if (p.bias) arguments.push_back({DNNL_ARG_DIFF_BIAS, onednn::Describe(*p.bias), Place::kOutput, 1});
      break;
  }
  kernel->Add(desc, std::move(arguments));
  return kernel;
}

template <Direction kDirection, Algorithm kAlgorithm>
std::string Refuse(const KernelQuery& query) {
  constexpr WholeImages kWhole = {RefuseWhole<kDirection, kAlgorithm>, MakeWhole<kDirection, kAlgorithm>};
  return IsCut(kDirection, query) ? RefuseInImageParts(query, kWhole) : kWhole.refuse(query);
}

template <Direction kDirection, Algorithm kAlgorithm>
std::unique_ptr<Kernel> Make(const KernelQuery& query) {
  constexpr WholeImages kWhole = {RefuseWhole<kDirection, kAlgorithm>, MakeWhole<kDirection, kAlgorithm>};
  return IsCut(kDirection, query) ? MakeInImageParts(query, kWhole) : kWhole.make(query);
}

template <Direction kDirection, Algorithm kAlgorithm>
KernelDef Row(const char* op) {
  return {.name = kAlgorithm == Algorithm::kDirect ? "onednn" : "onednn_winograd",
          .op = op,
          .refuse = Refuse<kDirection, kAlgorithm>,
          .propose = Propose<kDirection, kAlgorithm>,
          .make = Make<kDirection, kAlgorithm>,
          .turn = kAlgorithm == Algorithm::kDirect ? 0 : 3};
}

}  // namespace

KernelDef OnednnConvolution() { return Row<Direction::kForward, Algorithm::kDirect>("convolution"); }
KernelDef OnednnConvolutionBackwardData() {
  return Row<Direction::kBackwardData, Algorithm::kDirect>("convolution_backward_data");
}
KernelDef OnednnConvolutionBackwardWeights() {
  return Row<Direction::kBackwardWeights, Algorithm::kDirect>("convolution_backward_weights");
}
KernelDef OnednnWinograd() { return Row<Direction::kForward, Algorithm::kWinograd>("convolution"); }
KernelDef OnednnWinogradBackwardData() {
  return Row<Direction::kBackwardData, Algorithm::kWinograd>("convolution_backward_data");
}
KernelDef OnednnWinogradBackwardWeights() {
  return Row<Direction::kBackwardWeights, Algorithm::kWinograd>("convolution_backward_weights");
}

}  // namespace moka
