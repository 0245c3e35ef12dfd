// Rows "winograd" of convolution and of its gradient with respect to x: Winograd F(4x4,3x3) for 3x3 windows of stride 1
// over channel-blocked memory, with AVX-512 on blocks of 16 channels and AVX2 on blocks of 8. The gradient is the same
// correlation with rotated weights, channels swapped and a pad of 2 - pad.
#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/parallel.h"
#include "core/size.h"
#include "core/text.h"
#include "graph/op.h"
#include "layers/cpu/kernels.h"
#include "layers/cpu/winograd/schedule.h"
#include "layers/ops/geometry.h"

namespace moka {
namespace {

using winograd::Correlation;
using winograd::TileFunctions;

enum class Direction : uint8_t { kForward, kBackwardData };

struct Problem {
  TensorType x;  // what is read: x, or dy
  TensorType w;  // [K,C/groups,3,3]
  TensorType y;  // what is written: y, or dx
  std::optional<TensorType> bias;
  Geometry geometry;
  int64_t groups = 1;
  bool sums = false;
  bool is_relu = false;
};

template <Direction kDirection>
Problem ReadProblem(const KernelQuery& query) {
  const Attributes& attributes = query.node.attributes;
  Problem p;
  p.x = query.inputs[0];
  p.w = query.inputs[1];
  p.y = query.outputs[0];
  p.geometry = ConvolutionGeometry(query.node.op->name, attributes, p.w.shape);
  p.groups = attributes.Int("groups");
  if constexpr (kDirection == Direction::kForward) {
    p.sums = attributes.Bool("sum");
    p.is_relu = attributes.String("activation") == "relu";
    if (query.inputs.size() == (p.sums ? 4U : 3U)) p.bias = query.inputs[2];
  }
  return p;
}

// Null without the instructions, on this machine or (an empty table) in this build.
const TileFunctions* FunctionsOf(int64_t lanes) {
#if defined(__x86_64__)
  const bool has_avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  // Everything the source of 16 lanes is compiled for.
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") != 0 &&
                          __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512dq") != 0;
  if (lanes == 8 && has_avx2 && winograd::Avx2TileFunctions().lanes == 8) return &winograd::Avx2TileFunctions();
  if (lanes == 16 && has_avx512 && winograd::Avx512TileFunctions().lanes == 16) {
    return &winograd::Avx512TileFunctions();
  }
#endif
  return nullptr;
}

std::string DataLayout(int64_t lanes) { return StrCat("aBcd", lanes, "b"); }

// The lanes of a layout of data; 0 if it is not one of ours.
int64_t LanesOf(const TensorType& data) {
  const std::string name = data.layout.Name(data.shape.rank());
  for (const int64_t lanes : {8, 16}) {
    if (name == DataLayout(lanes)) return lanes;
  }
  return 0;
}

// Weights of which each channel axis is in one block of `lanes` or in none.
bool IsWeightLayout(const Layout& layout, int64_t lanes) {
  const std::string name = layout.Name(4);
  const std::string l = StrCat(lanes);
  for (const std::string& known : {std::string("abcd"), "ABcd" + l + "b" + l + "a", "ABcd" + l + "a" + l + "b",
                                   "Abcd" + l + "a", "aBcd" + l + "b", "Acdb" + l + "a"}) {
    if (name == known) return true;
  }
  return false;
}

// What the arithmetic does not cover, whatever the layouts. Empty: nothing.
std::string RefuseShapes(const KernelQuery& query) {
  for (const auto types : {query.inputs, query.outputs}) {
    for (const TensorType& type : types) {
      if (type.dtype != DType::kFloat32) return StrCat("it is for float32, not ", NameOf(type.dtype));
      if (type.shape.Count() == 0) return StrCat("the tensor ", type.ToString(), " is empty");
    }
  }
  const Shape& w = query.inputs[1].shape;
  if (w.rank() != 4 || w[2] != 3 || w[3] != 3) return StrCat("it is for 3x3 windows, the weights are ", w.ToString());
  const Geometry geometry = ConvolutionGeometry(query.node.op->name, query.node.attributes, w);
  if (geometry.stride != Ints{1, 1}) return "it is for stride 1";
  if (geometry.dilation != Ints{1, 1}) return "it is for windows without dilation";
  return {};
}

template <Direction kDirection>
std::string Refuse(const KernelQuery& query) {
  if (std::string reason = RefuseShapes(query); !reason.empty()) return reason;
  const Problem p = ReadProblem<kDirection>(query);
  const int64_t lanes = LanesOf(p.x);
  if (lanes == 0) return StrCat("the channels of ", p.x.ToString(), " are not in blocks of 8 or 16");
  if (LanesOf(p.y) != lanes) return StrCat(p.y.ToString(), " does not lie as ", p.x.ToString());
  if (FunctionsOf(lanes) == nullptr) {
    return StrCat("blocks of ", lanes, " need ", lanes == 8 ? "AVX2 with FMA" : "AVX-512", ", which this CPU lacks");
  }
  if (!IsWeightLayout(p.w.layout, lanes)) {
    return StrCat("the weights ", p.w.ToString(), " are neither plain nor in blocks of ", lanes);
  }
  if (p.groups > 1 && (p.x.shape[1] / p.groups % lanes != 0 || p.y.shape[1] / p.groups % lanes != 0)) {
    return StrCat("the channels of a group (", p.x.shape[1] / p.groups, " to ", p.y.shape[1] / p.groups,
                  ") are not whole blocks of ", lanes);
  }
  if (p.bias && !p.bias->layout.is_plain()) return "the bias is not plain";
  if (p.sums && query.inputs.back() != p.y) {
    return StrCat("the summand ", query.inputs.back().ToString(), " does not lie as the output ", p.y.ToString());
  }
  return {};
}

// The data's blocks as they are, otherwise the widest this CPU has; the weights' likewise.
template <Direction kDirection>
std::optional<LayoutProposal> Propose(const KernelQuery& query) {
  if (!RefuseShapes(query).empty()) return {};
  const Problem p = ReadProblem<kDirection>(query);
  // Below this most of a vector would be padding.
  constexpr int64_t kFewestChannels = 8;
  if (std::min(p.x.shape[1], p.y.shape[1]) < kFewestChannels) return {};
  int64_t lanes = LanesOf(p.x);
  if (FunctionsOf(lanes) == nullptr) lanes = FunctionsOf(16) != nullptr ? 16 : 8;  // 0 lanes have none
  if (FunctionsOf(lanes) == nullptr) return {};
  const Layout data = Layout::Parse(DataLayout(lanes));
  Layout weights = p.w.layout;
  if (weights.is_plain() || !IsWeightLayout(weights, lanes)) {
    // Vectors of output channels.
    constexpr bool kIsForward = kDirection == Direction::kForward;
    weights = Layout::Parse(StrCat("ABcd", lanes, kIsForward ? "b" : "a", lanes, kIsForward ? "a" : "b"));
  }
  LayoutProposal proposal{std::vector<Layout>(query.inputs.size()), {data}};
  proposal.inputs[0] = data;
  proposal.inputs[1] = weights;
  if (p.sums) proposal.inputs.back() = data;
  return proposal;
}

// Floats from an element to the one `steps` further along an axis, which may lie outside: the outermost stride of an
// axis does not depend on its size.
int64_t WeightStride(const TensorType& w, int axis, int64_t steps) {
  std::array<int64_t, 4> index{};
  index[static_cast<size_t>(axis)] = steps;
  return w.layout.Offset(w.shape, index);
}

template <Direction kDirection>
Correlation CorrelationOf(const Problem& p) {
  constexpr bool kIsForward = kDirection == Direction::kForward;
  Correlation c;
  const int64_t lanes = LanesOf(p.x);
  c.functions = FunctionsOf(lanes);
  Require(c.functions != nullptr, "make follows an accepted query");
  c.images = p.x.shape[0];
  c.groups = p.groups;
  c.in_channels = p.x.shape[1] / p.groups;
  c.out_channels = p.y.shape[1] / p.groups;
  c.frame = {.height = p.x.shape[2],
             .width = p.x.shape[3],
             .out_height = p.y.shape[2],
             .out_width = p.y.shape[3],
             .pad_top = kIsForward ? p.geometry.pad_begin[0] : 2 - p.geometry.pad_begin[0],
             .pad_left = kIsForward ? p.geometry.pad_begin[1] : 2 - p.geometry.pad_begin[1],
             .tile_rows = (p.y.shape[2] + winograd::kTile - 1) / winograd::kTile,
             .tile_columns = (p.y.shape[3] + winograd::kTile - 1) / winograd::kTile,
             .x_image_stride = 0,
             .x_block_stride = p.x.shape.Count(2, 4) * lanes,
             .y_image_stride = 0,
             .y_block_stride = p.y.shape.Count(2, 4) * lanes};
  c.frame.x_image_stride = p.x.StoredCount() / c.images;
  c.frame.y_image_stride = p.y.StoredCount() / c.images;
  const int out_axis = kIsForward ? 0 : 1;
  const int in_axis = 1 - out_axis;
  c.weights.out_block_stride = WeightStride(p.w, out_axis, lanes);
  c.weights.out_stride = WeightStride(p.w, out_axis, 1);
  c.weights.in_block_stride = WeightStride(p.w, in_axis, lanes);
  c.weights.in_stride = WeightStride(p.w, in_axis, 1);
  c.weights.tap_stride = WeightStride(p.w, 3, 1);
  c.weights.is_rotated = !kIsForward;
  c.weights.out_channels = c.out_channels;
  c.weight_group_stride =
      (kIsForward ? c.out_blocks() * c.weights.out_block_stride : c.in_blocks() * c.weights.in_block_stride);
  return c;
}

class WinogradKernel final : public Kernel {
 public:
  WinogradKernel(const Correlation& correlation, const Problem& p)
      : c_(correlation),
        schedule_(winograd::Plan(c_, ThreadCount(), winograd::MachineCaches())),
        bias_floats_((Size(c_.groups) * RoundUp(c_.out_blocks() * c_.lanes(), 16)).value()),
        has_bias_(p.bias.has_value()),
        sums_(p.sums) {
    operands_.floor = p.is_relu ? 0.0F : -std::numeric_limits<float>::infinity();
    implementation_ = StrCat("f4x3:", c_.lanes() == 16 ? "avx512" : "avx2");
  }

  void Bind(const KernelArgs& args) override {
    operands_.x = args.inputs[0].as<const float>().data();
    operands_.w = args.inputs[1].as<const float>().data();
    operands_.summand = sums_ ? args.inputs.back().as<const float>().data() : nullptr;
    operands_.y = args.outputs[0].as<float>().data();
    bias_ = static_cast<float*>(static_cast<void*>(args.scratch));
    operands_.bias = bias_;
    operands_.scratch = bias_ + bias_floats_;
    if (has_bias_) plain_bias_ = args.inputs[2].as<const float>();
  }

  void Run() override {
    // Channels of the padding get no bias: they stay zero.
    float* const rest = std::ranges::copy(plain_bias_, bias_).out;
    std::fill(rest, bias_ + bias_floats_, 0.0F);
    winograd::Run(c_, schedule_, operands_);
  }

  int64_t scratch_bytes() const override { return (bias_floats_ + schedule_.ScratchFloats()) * int64_t{sizeof(float)}; }
  std::string_view implementation() const override { return implementation_; }

 private:
  Correlation c_;
  winograd::Schedule schedule_;
  winograd::Operands operands_;
  int64_t bias_floats_;
  float* bias_ = nullptr;
  std::span<const float> plain_bias_;
  bool has_bias_;
  bool sums_;
  std::string implementation_;
};

template <Direction kDirection>
std::unique_ptr<Kernel> Make(const KernelQuery& query) {
  const Problem p = ReadProblem<kDirection>(query);
  return std::make_unique<WinogradKernel>(CorrelationOf<kDirection>(p), p);
}

template <Direction kDirection>
KernelDef Row(const char* op) {
  return {.name = "winograd",
          .op = op,
          .refuse = Refuse<kDirection>,
          .propose = Propose<kDirection>,
          .make = Make<kDirection>};
}

}  // namespace

KernelDef WinogradConvolution() { return Row<Direction::kForward>("convolution"); }
KernelDef WinogradConvolutionBackwardData() { return Row<Direction::kBackwardData>("convolution_backward_data"); }

}  // namespace moka
