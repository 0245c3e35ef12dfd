// The measured rule by which images in lanes are proposed, and the refusals. Blocks of 8 or 16 images lie innermost, so
// that a vector is one pixel of one channel and no number of channels is padded.
#include "layers/kernels/cpu/batch_lanes/problem.h"

#include <algorithm>

#include "core/size.h"
#include "core/text.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cpu/instructions.h"

namespace moka::batch_lanes {
namespace {

// A block of images is at least this full.
bool FillsBlocks(int64_t images, int64_t lanes) {
  const int64_t padded = (images + lanes - 1) / lanes * lanes;
  return 4 * images >= 3 * padded;
}

// How much of the arithmetic is padding when channels are in blocks, as oneDNN has them: 1 is nothing.
double PaddingOf(int64_t channels) {
  constexpr int64_t kBlock = 16;
  return static_cast<double>((channels + kBlock - 1) / kBlock * kBlock) / static_cast<double>(channels);
}

// Blocks of images were faster than oneDNN where a quarter or more would be padding (LeNet's 20 and 50 channels:
// 1.5 to 2.4 times; the gradient of three channels: 2.2 to 4.6 times), and slower elsewhere. A few channels that are
// only read oneDNN takes unpadded.
bool PadsChannels(const KernelQuery& query) {
  constexpr double kMuch = 1.25;
  constexpr int64_t kFew = 4;
  const Problem p = ReadProblem(query);
  const bool reads_x = query.node.op->name != "convolution_backward_data";
  const double of_x = reads_x && p.group_inputs() <= kFew ? 1.0 : PaddingOf(p.group_inputs());
  return of_x * PaddingOf(p.group_outputs()) >= kMuch;
}

// Why the algorithm along rows does not fit the weights; empty: it does.
std::string RefuseUnlessFiveColumns(const KernelQuery& query) {
  const Problem p = ReadProblem(query);
  const Shape& weights = p.w.shape;
  if (weights.rank() != 4 || weights[3] != kTapsWide) {
    return StrCat("it is for windows of 5 columns, the weights are ", weights.ToString());
  }
  if (p.geometry.stride != Ints{1, 1} || p.geometry.dilation != Ints{1, 1}) {
    return "it is for stride 1 without dilation";
  }
  if (p.groups != 1) return "it is for one group";
  // LeNet's first layer: twice dy is written to memory and read for one channel, at four times the direct sum's time.
  constexpr int64_t kFewestChannels = 8;
  if (weights[1] < kFewestChannels) return StrCat("its transforms do not pay for ", weights[1], " input channels");
  return {};
}

}  // namespace

const Functions* FunctionsOf(int64_t lanes) {
  if (lanes == 8 && HasAvx2() && Avx2Functions().lanes == 8) return &Avx2Functions();
  if (lanes == 16 && HasAvx512() && Avx512Functions().lanes == 16) return &Avx512Functions();
  return nullptr;
}

std::string LacksInstructions(int64_t lanes) {
  return StrCat("blocks of ", lanes, " need ", lanes == 8 ? "AVX2 with FMA" : "AVX-512", ", which this CPU lacks");
}

Layout DataLayout(int64_t lanes) { return Layout::Parse(StrCat("Abcd", lanes, "a")); }

int64_t LanesOf(const TensorType& data) {
  for (const int64_t lanes : {16, 8}) {
    if (data.shape.rank() == 4 && data.layout == DataLayout(lanes)) return lanes;
  }
  return 0;
}

// The gradient with respect to x exchanges the roles of x's and y's extents; Axis::InputOf knows the rest.
Axis Problem::AxisOf(int dimension, bool is_gradient) const {
  const auto d = static_cast<size_t>(dimension);
  const int64_t of_x = x.shape[dimension + 2];
  const int64_t of_y = y.shape[dimension + 2];
  return {.inputs = is_gradient ? of_y : of_x,
          .outputs = is_gradient ? of_x : of_y,
          .taps = w.shape[dimension + 2],
          .stride = geometry.stride[d],
          .dilation = geometry.dilation[d],
          .pad = geometry.pad_begin[d],
          .is_gradient = is_gradient};
}

Problem ReadProblem(const KernelQuery& query) {
  const std::string& op = query.node.op->name;
  Problem p;
  if (op == "convolution") {
    p.x = query.inputs[0];
    p.w = query.inputs[1];
    p.y = query.outputs[0];
  } else if (op == "convolution_backward_data") {
    p.x = query.outputs[0];
    p.w = query.inputs[1];
    p.y = query.inputs[0];
  } else {
    p.x = query.inputs[0];
    p.w = query.outputs[0];
    p.y = query.inputs[1];
  }
  p.geometry = ConvolutionGeometry(op, query.node.attributes, p.w.shape);
  p.groups = query.node.attributes.Int("groups");
  p.lanes = LanesOf(query.inputs[0]);
  return p;
}

std::string RefuseShapes(const KernelQuery& query) {
  if (std::string reason = RefuseUnlessFilledFloat32(query); !reason.empty()) return reason;
  const Shape& data = query.inputs[0].shape;
  if (data.rank() != 4) return StrCat("it is for two dimensions, found ", data.ToString());
  const bool is_forward = query.node.op->name == "convolution";
  if (is_forward && query.node.attributes.Bool("sum")) return "it adds no summand";
  return {};
}

std::string Refuse(const KernelQuery& query) {
  if (std::string reason = RefuseShapes(query); !reason.empty()) return reason;
  const Problem p = ReadProblem(query);
  if (p.lanes == 0) return StrCat("the images of ", query.inputs[0].ToString(), " are not in blocks of 8 or 16");
  for (const TensorType* data : {&p.x, &p.y}) {
    if (LanesOf(*data) != p.lanes) return StrCat(data->ToString(), " does not lie as ", query.inputs[0].ToString());
  }
  if (FunctionsOf(p.lanes) == nullptr) return LacksInstructions(p.lanes);
  if (!p.w.layout.is_plain()) return StrCat("the weights ", p.w.ToString(), " are not plain");
  const bool has_bias = query.inputs.size() > 2 || query.outputs.size() > 1;
  const TensorType& bias = query.inputs.size() > 2 ? query.inputs[2] : query.outputs.back();
  if (has_bias && !bias.layout.is_plain()) return "the bias is not plain";
  return {};
}

// Images that lie in blocks already stay so, whatever the channels: a reorder on each side would cost more than the
// padding.
std::optional<LayoutProposal> Propose(const KernelQuery& query) {
  if (!RefuseShapes(query).empty()) return {};
  const int64_t images = query.inputs[0].shape[0];
  int64_t lanes = LanesOf(query.inputs[0]);
  for (const int64_t wanted : {16, 8}) {
    if (FunctionsOf(lanes) == nullptr && FillsBlocks(images, wanted)) lanes = wanted;
  }
  if (FunctionsOf(lanes) == nullptr) return {};
  if (LanesOf(query.inputs[0]) == 0 && !PadsChannels(query)) return {};
  const Layout data = DataLayout(lanes);
  LayoutProposal proposal{std::vector<Layout>(query.inputs.size()), std::vector<Layout>(query.outputs.size())};
  proposal.inputs[0] = data;
  if (query.node.op->name == "convolution_backward_weights") {
    proposal.inputs[1] = data;
  } else {
    proposal.outputs[0] = data;
  }
  return proposal;
}

int64_t PartsOf(int64_t count, int64_t most) { return CeilDiv(count, most).value(); }

// A full block's mask, then that of the last one: the bias is multiplied by it, so that padding lanes stay 0.
void FillLaneMasks(const Problem& p, float* masks) {
  const int64_t images = p.x.shape[0] - (p.blocks() - 1) * p.lanes;  // of the last block
  for (int64_t i = 0; i < 2 * p.lanes; ++i) masks[i] = i - p.lanes < images ? 1.0F : 0.0F;
}

// Rows in the padding are transformed as rows of width 0, which gives zeros.
void TransformPlane(const Problem& p, const Transforms& transforms, int64_t plane, const float* x, float* v) {
  const int64_t height = p.x.shape[2];
  const int64_t width = p.x.shape[3];
  const int64_t channels = p.x.shape[1];
  const int64_t rows = p.y.shape[2] + p.w.shape[2] - 1;
  const int64_t tiles = PartsOf(p.y.shape[3], kTileWidth);
  const int64_t row_floats = tiles * p.lanes;
  const int64_t point_floats = channels * rows * row_floats;
  float* to = v + plane / channels * kPoints * point_floats + plane % channels * rows * row_floats;
  for (int64_t r = 0; r < rows; ++r, to += row_floats) {
    const int64_t y = r - p.geometry.pad_begin[0];
    const bool is_inside = y >= 0 && y < height;
    const float* row = x + (plane * height + (is_inside ? y : 0)) * width * p.lanes;
    transforms.input(row, is_inside ? width : 0, p.geometry.pad_begin[1], tiles, to, point_floats);
  }
}

std::string RefuseRows(const KernelQuery& query) {
  if (std::string reason = RefuseUnlessFiveColumns(query); !reason.empty()) return reason;
  return Refuse(query);
}

std::optional<LayoutProposal> ProposeRows(const KernelQuery& query) {
  if (!RefuseUnlessFiveColumns(query).empty()) return {};
  return Propose(query);
}

}  // namespace moka::batch_lanes
