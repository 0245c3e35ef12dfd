// Rows "winograd" of convolution and of its gradient with respect to x: Winograd F(4x4,3x3) for 3x3 windows of stride 1
// and F(4x4,2x2) for 4x4 windows of stride 2, over channel-blocked memory, with AVX-512 on blocks of 16 channels and
// AVX2 on blocks of 8. The gradient is the same correlation with rotated weights, channels swapped and another pad. In
// bfloat16 x and y are read and written as they are; weights, which are few, are widened first.
//
// A stride of 2 (along one axis; pad p): y[i] = sum of x[2i + t - p] w[t] is with t = 2j + f a sum over the phases f =
// 0 and 1 of x and over two taps j. Of the gradient dx[2i + f], with f + p = 2h + e, is the sum over j of dy[i + h - j]
// w[2j + e]: for each f a correlation of its own with the taps reversed, which begins at row h - 1 of dy.
#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/half_spans.h"
#include "core/size.h"
#include "core/text.h"
#include "core/threads/parallel.h"
#include "graph/kernel.h"
#include "graph/op.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cpu/instructions.h"
#include "layers/kernels/cpu/winograd/schedule.h"
#include "layers/ops/geometry.h"

namespace moka {
namespace {

using winograd::Correlation;
using winograd::TileFunctions;
using winograd::WeightStep;

enum class Direction : uint8_t { kForward, kBackwardData };

struct Problem {
  TensorType x;  // what is read: x, or dy
  TensorType w;  // [K,C/groups,3,3], or 4,4
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

// Null without the instructions, on this machine or (an empty table) in this build. taps: of the products, 3 or 2.
const TileFunctions* FunctionsOf(int64_t lanes, int taps = 3, bool is_half = false) {
  const TileFunctions* found = nullptr;
  if (lanes == 8 && HasAvx2()) found = &winograd::Avx2TileFunctions(taps, is_half);
  if (lanes == 16 && HasAvx512()) found = &winograd::Avx512TileFunctions(taps, is_half);
  return found != nullptr && found->lanes == lanes ? found : nullptr;
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
  for (const std::string& known :
       {std::string("abcd"), StrCat("ABcd", lanes, "b", lanes, "a"), StrCat("ABcd", lanes, "a", lanes, "b"),
        StrCat("Abcd", lanes, "a"), StrCat("aBcd", lanes, "b"), StrCat("Acdb", lanes, "a")}) {
    if (name == known) return true;
  }
  return false;
}

// All of one type, float32 or bfloat16, but for the bias, which may be float32 in any case.
std::string RefuseTypes(const KernelQuery& query) {
  const DType dtype = query.inputs[0].dtype;
  if (dtype != DType::kFloat32 && dtype != DType::kBFloat16) {
    return StrCat("it is for float32 and bfloat16, not ", NameOf(dtype));
  }
  for (const auto& types : {query.inputs, query.outputs}) {
    for (const TensorType& type : types) {
      if (type.shape.Count() == 0) return StrCat("the tensor ", type.ToString(), " is empty");
      if (type.dtype == dtype || (type.dtype == DType::kFloat32 && type.shape.rank() == 1)) continue;
      return StrCat("it reads and writes one type, not ", NameOf(dtype), " and ", NameOf(type.dtype));
    }
  }
  return {};
}

// Returns why the arithmetic does not cover the node, whatever its layouts; empty: it does.
std::string RefuseShapes(const KernelQuery& query) {
  if (std::string reason = RefuseTypes(query); !reason.empty()) return reason;
  const Shape& w = query.inputs[1].shape;
  const Geometry geometry = ConvolutionGeometry(query.node.op->name, query.node.attributes, w);
  const auto is = [&](int64_t window, int64_t stride) {
    return w.rank() == 4 && w[2] == window && w[3] == window && geometry.stride == Ints{stride, stride};
  };
  if (!is(3, 1) && !is(4, 2)) {
    return StrCat("it is for 3x3 windows of stride 1 and 4x4 windows of stride 2; the weights are ", w.ToString(),
                  ", the stride is ", Shape(geometry.stride).ToString());
  }
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

// One axis of a correlation.
struct Axis {
  int64_t outputs = 0;
  int64_t pad = 0;
  int64_t first_tap = 0;
};

// phase: of the results along this axis, where the gradient of a stride of 2 has two.
// The equations at the top of the file, as numbers: the gradient of stride 1 pads 2 - p and begins at the last tap.
template <Direction kDirection>
Axis AxisOf(const Problem& p, int axis, int64_t phase) {
  const int64_t outputs = p.y.shape[axis];
  const int64_t pad = p.geometry.pad_begin[static_cast<size_t>(axis) - 2];
  if constexpr (kDirection == Direction::kForward) return {outputs, pad, 0};
  if (p.geometry.stride[0] == 1) return {outputs, 2 - pad, 2};
  const int64_t h = (phase + pad) / 2;
  const int64_t e = (phase + pad) % 2;
  return {(outputs + 1 - phase) / 2, 1 - h, e + 2};
}

// All addresses of a correlation as numbers, so that the tile functions, compiled for other instruction sets, need no
// type of this room.
template <Direction kDirection>
winograd::Frame FrameOf(const Problem& p, int64_t phase) {
  constexpr bool kIsForward = kDirection == Direction::kForward;
  const int64_t lanes = LanesOf(p.x);
  const int64_t stride = p.geometry.stride[0];
  const Axis rows = AxisOf<kDirection>(p, 2, phase / 2);
  const Axis columns = AxisOf<kDirection>(p, 3, phase % 2);
  winograd::Frame f;
  f.height = p.x.shape[2];
  f.width = p.x.shape[3];
  f.out_height = rows.outputs;
  f.out_width = columns.outputs;
  f.pad_top = rows.pad;
  f.pad_left = columns.pad;
  // As many as the first phase's in all.
  f.tile_rows = CeilDiv(AxisOf<kDirection>(p, 2, 0).outputs, winograd::kTile).value();
  f.tile_columns = CeilDiv(AxisOf<kDirection>(p, 3, 0).outputs, winograd::kTile).value();
  f.x_step = kIsForward ? stride : 1;
  f.x_phases = kIsForward && stride == 2 ? winograd::kPhases : 1;
  f.y_step = kIsForward ? 1 : stride;
  f.y_width = p.y.shape[3];
  f.y_first = phase / 2 * f.y_width + phase % 2;
  f.x_image_stride = p.x.StoredCount() / p.x.shape[0];
  f.x_block_stride = p.x.shape.Count(2, 4) * lanes;
  f.y_image_stride = p.y.StoredCount() / p.y.shape[0];
  f.y_block_stride = p.y.shape.Count(2, 4) * lanes;
  return f;
}

// The step that transforms weights; the channels are the caller's to fill in.
template <Direction kDirection>
WeightStep WeightsOf(const Problem& p, int64_t phase) {
  constexpr bool kIsForward = kDirection == Direction::kForward;
  const int64_t lanes = LanesOf(p.x);
  const int64_t stride = p.geometry.stride[0];
  const int out_axis = kIsForward ? 0 : 1;
  const int in_axis = 1 - out_axis;
  WeightStep w;
  w.out_block_stride = WeightStride(p.w, out_axis, lanes);
  w.out_stride = WeightStride(p.w, out_axis, 1);
  w.in_block_stride = WeightStride(p.w, in_axis, lanes);
  w.in_stride = WeightStride(p.w, in_axis, 1);
  w.tap_stride = WeightStride(p.w, 3, 1);
  w.window = p.w.shape[3];
  w.row_first = AxisOf<kDirection>(p, 2, phase / 2).first_tap;
  w.column_first = AxisOf<kDirection>(p, 3, phase % 2).first_tap;
  w.step = kIsForward ? stride : -stride;
  w.phases = kIsForward && stride == 2 ? winograd::kPhases : 1;
  return w;
}

// The gradient with respect to x is this same structure with the axes of the weights swapped and its taps read
// backwards: four correlations of a quarter of the results each where the stride is 2.
template <Direction kDirection>
Correlation CorrelationOf(const Problem& p) {
  constexpr bool kIsForward = kDirection == Direction::kForward;
  Correlation c;
  const int64_t lanes = LanesOf(p.x);
  const int64_t stride = p.geometry.stride[0];
  c.functions = FunctionsOf(lanes, stride == 1 ? 3 : 2, p.x.dtype == DType::kBFloat16);
  Require(c.functions != nullptr, "make follows an accepted query");
  c.images = p.x.shape[0];
  c.groups = p.groups;
  c.in_channels = p.x.shape[1] / p.groups;
  c.out_channels = p.y.shape[1] / p.groups;
  c.y_phases = kIsForward || stride == 1 ? 1 : winograd::kPhases;
  for (int64_t phase = 0; phase < c.y_phases; ++phase) {
    const auto i = static_cast<size_t>(phase);
    c.frames[i] = FrameOf<kDirection>(p, phase);
    c.weights[i] = WeightsOf<kDirection>(p, phase);
    c.weights[i].in_channels = c.in_channels;
    c.weights[i].out_channels = c.out_channels;
  }
  const WeightStep& weights = c.weights[0];
  c.weight_group_stride =
      (kIsForward ? c.out_blocks() * weights.out_block_stride : c.in_blocks() * weights.in_block_stride);
  return c;
}

// The schedule is made with the kernel; a run is the schedule over the operands' addresses.
class WinogradKernel final : public Kernel {
 public:
  WinogradKernel(const Correlation& correlation, const Problem& p)
      : c_(correlation),
        schedule_(winograd::Plan(c_, ThreadCount(), winograd::MachineCaches())),
        bias_floats_((Size(c_.groups) * RoundUp(c_.out_blocks() * c_.lanes(), 16)).value()),
        weight_floats_(IsHalf(p.w.dtype) ? RoundUp(p.w.StoredCount(), 16).value() : 0),
        bias_type_(p.bias),
        sums_(p.sums) {
    operands_.floor = p.is_relu ? 0.0F : -std::numeric_limits<float>::infinity();
    implementation_ = StrCat(p.w.shape[3] == 3 ? "f4x3:" : "f4x2:", c_.lanes() == 16 ? "avx512" : "avx2");
  }

  void Bind(const KernelArgs& args) override {
    const auto bytes = [](const Tensor& tensor) { return static_cast<std::byte*>(tensor.raw()); };
    operands_.x = bytes(args.inputs[0]);
    operands_.summand = sums_ ? bytes(args.inputs.back()) : nullptr;
    operands_.y = bytes(args.outputs[0]);
    bias_ = static_cast<float*>(static_cast<void*>(args.scratch));
    operands_.bias = bias_;
    weights_ = args.inputs[1];
    wide_weights_ = bias_ + bias_floats_;
    operands_.w = weight_floats_ > 0 ? wide_weights_ : weights_.as<const float>().data();
    operands_.scratch = wide_weights_ + weight_floats_;
    if (bias_type_) plain_bias_ = args.inputs[2];
  }

  void Run() override {
    // Channels of the padding get no bias: they stay zero.
    std::fill_n(bias_, bias_floats_, 0.0F);
    if (bias_type_) WidenTo(plain_bias_, 0, bias_type_->shape.Count(), bias_);
    if (weight_floats_ > 0) {
      ParallelFor(weights_.type().StoredCount(), kGrain,
                  [&](int64_t begin, int64_t end, int) { WidenTo(weights_, begin, end, wide_weights_ + begin); });
    }
    winograd::Run(c_, schedule_, operands_);
  }

  int64_t scratch_bytes() const override {
    return (bias_floats_ + weight_floats_ + schedule_.ScratchFloats()) * int64_t{sizeof(float)};
  }
  std::string_view implementation() const override { return implementation_; }

 private:
  Correlation c_;
  winograd::Schedule schedule_;
  winograd::Operands operands_;
  static constexpr int64_t kGrain = 8192;  // elements worth a thread

  // Stored elements [begin, end) as floats.
  static void WidenTo(const Tensor& from, int64_t begin, int64_t end, float* to) {
    const DType dtype = from.type().dtype;
    if (IsHalf(dtype)) return Widen(dtype, static_cast<const uint16_t*>(from.raw()) + begin, end - begin, to);
    std::copy_n(from.as<const float>().data() + begin, end - begin, to);
  }

  int64_t bias_floats_;
  int64_t weight_floats_;  // of widened weights
  float* bias_ = nullptr;
  float* wide_weights_ = nullptr;
  Tensor weights_;
  Tensor plain_bias_;
  std::optional<TensorType> bias_type_;
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
          .make = Make<kDirection>,
          .turn = 1};
}

}  // namespace

KernelDef WinogradConvolution() { return Row<Direction::kForward>("convolution"); }
KernelDef WinogradConvolutionBackwardData() { return Row<Direction::kBackwardData>("convolution_backward_data"); }

}  // namespace moka
