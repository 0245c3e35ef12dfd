// The Winograd convolutions against the reference: random shapes of both windows, every layout of the weights, fused
// sums and ReLU, both widths of registers where the machine has them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "core/rng.h"
#include "core/text.h"
#include "core/threads/parallel.h"
#include "layers/kernels/cpu/winograd/schedule.h"
#include "layers/net/catalog.h"
#include "layers/ops/cases.h"
#include "tests/layers/kernel_check.h"
#include "tests/layers/op_run.h"

namespace moka {
namespace {

// Largest error over largest magnitude. Values of the transforms are sums of up to 16 inputs with factors up to 2.5,
// and a handful of ulps of them remain after the cancellations of the output transform. F(4x4,2x2) has smaller factors.
constexpr double kTolerance = 2e-5;
constexpr double kStridedTolerance = 5e-6;

// The windows that the kernels take: 3x3 of stride 1, and 4x4 of stride 2.
struct Window {
  int64_t side = 3;
  int64_t stride = 1;
};
constexpr Window kThree = {3, 1};
constexpr Window kFour = {4, 2};

struct Convolution {
  Shape x;
  Shape w;
  Shape y;
  Attributes geometry;
  double tolerance = 0;
};

Convolution Make(int64_t n, int64_t c, int64_t k, int64_t h, int64_t w, Ints pad_begin, Ints pad_end,
                 int64_t groups = 1, const Window& window = kThree) {
  Convolution conv;
  conv.x = Shape{n, c, h, w};
  conv.w = Shape{k, c / groups, window.side, window.side};
  const auto outputs = [&](int64_t size, size_t axis) {
    return (size + pad_begin[axis] + pad_end[axis] - window.side) / window.stride + 1;
  };
  conv.y = Shape{n, k, outputs(h, 0), outputs(w, 1)};
  const Ints stride = {window.stride, window.stride};
  conv.geometry = ConvolutionCase(stride, std::move(pad_begin), std::move(pad_end), {1, 1}, groups);
  conv.tolerance = window.side == 3 ? kTolerance : kStridedTolerance;
  return conv;
}

int64_t Pick(RandomStream& random, const std::vector<int64_t>& values) { return values[random.Below(values.size())]; }

Convolution RandomConvolution(RandomStream& random, const Window& window) {
  const auto pad = [&] { return static_cast<int64_t>(random.Below(static_cast<uint64_t>(window.side))); };
  const Ints begin = {pad(), pad()};
  const Ints end = {pad(), pad()};
  // At least one output along each axis.
  const auto size = [&](size_t axis) {
    const int64_t least = std::max<int64_t>(1, window.side - begin[axis] - end[axis]);
    return least + static_cast<int64_t>(random.Below(static_cast<uint64_t>(17 * window.stride)));
  };
  const int64_t h = size(0);
  return Make(Pick(random, {1, 2, 3}), Pick(random, {1, 3, 8, 16, 17, 40, 130}),
              Pick(random, {1, 5, 8, 16, 19, 48, 72}), h, size(1), begin, end, 1, window);
}

TensorType Type(const Shape& shape) { return {DType::kFloat32, shape, {}}; }

OpCase Forward(const Convolution& c, bool bias, bool sum, bool relu) {
  OpCase op_case{"forward", {Type(c.x), Type(c.w)}, c.geometry};
  if (bias) op_case.inputs.push_back(Type(Shape{c.w[0]}));
  if (sum) op_case.inputs.push_back(Type(c.y));
  op_case.attributes.Set("sum", sum);
  op_case.attributes.Set("activation", std::string(relu ? "relu" : ""));
  op_case.tolerance = c.tolerance;
  return op_case;
}
OpCase BackwardData(const Convolution& c) {
  const Ints dims = DimsOf(c.x);
  return {.name = "data",
          .inputs = {Type(c.y), Type(c.w)},
          .attributes = With(c.geometry, {{"input_shape", dims}}),
          .tolerance = c.tolerance};
}

std::string Blocked(int64_t lanes) { return StrCat("aBcd", lanes, "b"); }
std::vector<std::string> WeightLayouts(int64_t lanes) {
  const std::string l = StrCat(lanes);
  return {
      "", "ABcd" + l + "b" + l + "a", "ABcd" + l + "a" + l + "b", "Abcd" + l + "a", "aBcd" + l + "b", "Acdb" + l + "a"};
}

ChosenLayouts ForwardLayouts(const OpCase& op_case, int64_t lanes, const std::string& weights) {
  ChosenLayouts layouts{{Blocked(lanes), weights}, {Blocked(lanes)}};
  layouts.inputs.resize(op_case.inputs.size());
  if (op_case.attributes.Bool("sum")) layouts.inputs.back() = Blocked(lanes);
  return layouts;
}

bool IsLacking(const Checked& checked) { return checked.refusal.ends_with("which this CPU lacks"); }

class Winograd : public testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Lanes, Winograd, testing::Values(8, 16), testing::PrintToStringParamName());

// Both directions on random shapes of a window; false: the CPU lacks the instructions.
bool MatchesTheReference(const Window& window, int64_t lanes, const std::string& implementation) {
  RandomStream random(2021, static_cast<uint64_t>(lanes + window.stride - 1));
  double forward_error = 0;
  double data_error = 0;
  for (int i = 0; i < 40; ++i) {
    const Convolution c = RandomConvolution(random, window);
    const std::vector<std::string> layouts = WeightLayouts(lanes);
    const std::string& weights = layouts[random.Below(layouts.size())];
    const OpCase op_case = Forward(c, random.Below(2) == 0, random.Below(2) == 0, random.Below(2) == 0);
    SCOPED_TRACE(StrCat(c.x.ToString(), c.w.ToString(), c.geometry.ToString(), " weights ", weights));
    const Checked forward = CheckKernel("winograd", "convolution", op_case, ForwardLayouts(op_case, lanes, weights));
    if (IsLacking(forward)) return false;
    EXPECT_EQ(forward.refusal, "");
    EXPECT_EQ(forward.implementation, implementation);
    const Checked data = CheckKernel("winograd", "convolution_backward_data", BackwardData(c),
                                     {{Blocked(lanes), weights}, {Blocked(lanes)}});
    EXPECT_EQ(data.refusal, "");
    forward_error = std::max(forward_error, forward.worst_error);
    data_error = std::max(data_error, data.worst_error);
  }
  testing::Test::RecordProperty("forward_error", StrCat(forward_error));
  testing::Test::RecordProperty("data_error", StrCat(data_error));
  return true;
}

TEST_P(Winograd, RandomShapesMatchTheReference) {
  const std::string lanes = GetParam() == 16 ? "avx512" : "avx2";
  if (!MatchesTheReference(kThree, GetParam(), "f4x3:" + lanes)) GTEST_SKIP() << "no such vectors";
}

TEST_P(Winograd, RandomShapesOfStrideTwoMatchTheReference) {
  const std::string lanes = GetParam() == 16 ? "avx512" : "avx2";
  if (!MatchesTheReference(kFour, GetParam(), "f4x2:" + lanes)) GTEST_SKIP() << "no such vectors";
}

// The instruction set's kernels take both directions under every layout of the weights; false: the CPU lacks it.
bool TakesEveryLayout(const Convolution& c, int64_t lanes, bool sum_and_relu) {
  for (const std::string& weights : WeightLayouts(lanes)) {
    SCOPED_TRACE(weights);
    const OpCase op_case = Forward(c, true, sum_and_relu, sum_and_relu);
    const Checked forward = CheckKernel("winograd", "convolution", op_case, ForwardLayouts(op_case, lanes, weights));
    if (IsLacking(forward)) return false;
    EXPECT_EQ(forward.refusal, "");
    EXPECT_EQ(CheckKernel("winograd", "convolution_backward_data", BackwardData(c),
                          {{Blocked(lanes), weights}, {Blocked(lanes)}})
                  .refusal,
              "");
  }
  return true;
}

TEST_P(Winograd, EveryLayoutOfTheWeightsIsTaken) {
  for (const Window& window : {kThree, kFour}) {
    const Convolution c = Make(1, 35, 19, 6, 9, {1, 1}, {1, 1}, 1, window);
    if (!TakesEveryLayout(c, GetParam(), false)) GTEST_SKIP() << "no such vectors";
  }
}

TEST_P(Winograd, GroupsOfWholeBlocksAreTaken) {
  for (const Window& window : {kThree, kFour}) {
    const Convolution c = Make(2, 96, 64, 9, 7, {1, 1}, {1, 1}, 2, window);
    if (!TakesEveryLayout(c, GetParam(), true)) GTEST_SKIP() << "no such vectors";
  }
}

// Many tiles and few channels, few tiles and many channels: each is scheduled in its own way.
TEST_P(Winograd, LargeSumsStayWithinTheBound) {
  const int64_t lanes = GetParam();
  for (const Convolution& c :
       {Make(2, 32, 16, 45, 41, {1, 1}, {1, 1}), Make(1, 300, 64, 7, 7, {1, 1}, {1, 1}),
        Make(1, 16, 8, 64, 64, {0, 0}, {0, 0}), Make(2, 32, 16, 45, 41, {1, 1}, {1, 1}, 1, kFour),
        Make(1, 300, 64, 7, 9, {1, 1}, {1, 1}, 1, kFour), Make(1, 128, 256, 4, 4, {1, 1}, {1, 1}, 1, kFour)}) {
    const OpCase op_case = Forward(c, false, false, false);
    const Checked forward = CheckKernel("winograd", "convolution", op_case, ForwardLayouts(op_case, lanes, ""));
    if (IsLacking(forward)) GTEST_SKIP() << forward.refusal;
    EXPECT_EQ(forward.refusal, "");
    EXPECT_LE(forward.worst_error, 5e-6) << c.x.ToString();
    const Checked data =
        CheckKernel("winograd", "convolution_backward_data", BackwardData(c), {{Blocked(lanes), ""}, {Blocked(lanes)}});
    EXPECT_LE(data.worst_error, 5e-6) << c.x.ToString();
  }
}

// The bits of y of a forward run.
std::vector<double> ValuesOf(const Convolution& c, int64_t lanes, int threads) {
  const OpDef& op = StandardCatalog().Op("convolution");
  const OpCase op_case = Forward(c, true, false, true);
  const OpGraph built = BuildOp(op, op_case, DType::kFloat32);
  const Node& node = built.graph.node(built.node);
  std::vector<TensorType> inputs = built.graph.InputTypes(node);
  std::vector<TensorType> outputs = built.graph.OutputTypes(node);
  const auto values = MakeInputs(op_case, inputs);
  inputs[0].layout = outputs[0].layout = Layout::Parse(Blocked(lanes));
  for (const KernelDef* def : StandardCatalog().KernelsOf("convolution", DeviceKind::kCpu)) {
    if (def->name != "winograd" || !def->refuse({node, inputs, outputs}).empty()) continue;
    const int before = ThreadCount();
    SetThreadCount(threads);
    std::vector<OwnedTensor> owned;
    std::vector<Tensor> in;
    for (size_t i = 0; i < inputs.size(); ++i)
      in.push_back(owned.emplace_back(ToTensor(values[i], inputs[i])).tensor());
    const OwnedTensor y(outputs[0]);
    const std::array<Tensor, 1> out = {y.tensor()};
    const auto kernel = def->make({node, inputs, outputs});
    const Buffer scratch = Buffer::Allocate(kernel->scratch_bytes());
    kernel->Bind({in, out, scratch.data()});
    // A later change of the team must not matter.
    SetThreadCount(before + threads);
    kernel->Run();
    SetThreadCount(before);
    return FromTensor(y.tensor()).values;
  }
  return {};
}

// The last two transform more at first than a core's cache holds.
TEST_P(Winograd, BitsDoNotDependOnTheThreads) {
  for (const Convolution& c :
       {Make(2, 24, 16, 30, 33, {1, 1}, {1, 1}), Make(1, 40, 96, 7, 5, {1, 1}, {1, 1}),
        Make(2, 24, 16, 30, 33, {1, 1}, {1, 1}, 1, kFour), Make(1, 40, 96, 7, 5, {1, 1}, {1, 1}, 1, kFour),
        Make(1, 128, 160, 40, 40, {1, 1}, {1, 1}), Make(1, 512, 64, 24, 20, {1, 1}, {1, 1})}) {
    const auto alone = ValuesOf(c, GetParam(), 1);
    for (const int threads : {2, 3, 7}) EXPECT_EQ(ValuesOf(c, GetParam(), threads), alone) << threads;
  }
}

// Every rest of both edges, in planes with whole tiles and without.
TEST_P(Winograd, NarrowTilesMatchTheReference) {
  const int64_t lanes = GetParam();
  for (const int64_t h : {1, 2, 3, 5, 6, 7, 14}) {
    for (const int64_t w : {1, 2, 3, 4, 5, 6, 7, 13}) {
      SCOPED_TRACE(StrCat(h, "x", w));
      const Convolution c = Make(3, 20, 24, h, w, {1, 1}, {1, 1});
      const OpCase op_case = Forward(c, true, true, true);
      const Checked forward = CheckKernel("winograd", "convolution", op_case, ForwardLayouts(op_case, lanes, ""));
      if (IsLacking(forward)) GTEST_SKIP() << forward.refusal;
      EXPECT_LE(forward.worst_error, 4e-6);
      const Checked data = CheckKernel("winograd", "convolution_backward_data", BackwardData(c),
                                       {{Blocked(lanes), ""}, {Blocked(lanes)}});
      EXPECT_LE(data.worst_error, 4e-6);
    }
  }
}

// The kinds cover every output once, and those that have tiles at a point are neighbours.
TEST(WinogradKinds, CoverThePlane) {
  for (int64_t height = 1; height <= 9; ++height) {
    for (int64_t width = 1; width <= 9; ++width) {
      const auto kinds = winograd::KindsOf(height, width, true);
      int64_t outputs = 0;
      for (const winograd::TileKind& k : kinds) outputs += k.rows * k.columns * k.height * k.width;
      EXPECT_EQ(outputs, height * width);
      for (int64_t point = 0; point < 36; ++point) {
        std::string taking;
        for (const winograd::TileKind& k : kinds) {
          if (k.rows * k.columns == 0) continue;
          const bool takes = winograd::TakesPoint(k.height, point / 6) && winograd::TakesPoint(k.width, point % 6);
          taking += takes ? 'x' : ' ';
        }
        const size_t first = std::min(taking.find('x'), taking.size());
        EXPECT_EQ(taking.find(" x", first), std::string::npos) << height << "x" << width << " point " << point;
      }
      const auto whole = winograd::KindsOf(height, width, false);
      EXPECT_EQ(whole[1].rows, (height + 3) / 4);
      EXPECT_EQ(whole[1].columns, (width + 3) / 4);
      EXPECT_EQ(whole[0].rows + whole[2].rows + whole[3].rows, 0);
    }
  }
}

// Plans for any caches and threads cover every tile and channel once; the sums' order is the same in all.
TEST_P(Winograd, PlansCoverTheWork) {
  winograd::TileFunctions functions;
  functions.lanes = static_cast<int>(GetParam());
  functions.group_tiles = functions.lanes == 16 ? 14 : 6;
  functions.points = 36;
  RandomStream random(3, 1);
  for (int i = 0; i < 200; ++i) {
    winograd::Correlation c;
    c.functions = &functions;
    c.images = Pick(random, {1, 2, 16, 128});
    c.in_channels = Pick(random, {1, 16, 64, 512, 2048});
    c.out_channels = Pick(random, {1, 17, 64, 512, 2048});
    c.frames[0].out_height = Pick(random, {1, 7, 14, 56, 224});
    c.frames[0].out_width = Pick(random, {3, 12, 14, 55});
    c.frames[0].tile_rows = (c.frames[0].out_height + 3) / 4;
    c.frames[0].tile_columns = (c.frames[0].out_width + 3) / 4;
    c.frames[0].x_phases = Pick(random, {1, winograd::kPhases});
    const int64_t threads = Pick(random, {1, 2, 5, 64});
    const int64_t core_bytes = Pick(random, {1 << 14, 1 << 20});
    const winograd::Schedule s = winograd::Plan(c, threads, {core_bytes, Pick(random, {1 << 15, 1 << 25})});
    EXPECT_EQ(s.repeats, s.parts > 1 && s.transformed_floats * 4 <= core_bytes);
    EXPECT_GE(s.slices * s.slice_vectors, c.out_blocks());
    EXPECT_LT((s.slices - 1) * s.slice_vectors, c.out_blocks());
    EXPECT_LE(s.blocks, c.tiles());
    EXPECT_LE((c.tiles() + s.blocks - 1) / s.blocks, s.block_tiles);
    EXPECT_LE(s.parts, threads);
    EXPECT_GE(s.parts, 1);
    EXPECT_GT(s.ScratchFloats(), 0);
    EXPECT_GE(s.u_stride + s.v_stride, c.depth());
  }
}

TEST_P(Winograd, ProposesBlocksAndKeepsWhatLiesThere) {
  const int64_t lanes = GetParam();
  const Convolution c = Make(2, 64, 32, 14, 14, {1, 1}, {1, 1});
  const std::string l = StrCat(lanes);
  const std::string weights = "ABcd" + l + "b" + l + "a";
  const OpCase op_case = Forward(c, true, true, false);
  if (IsLacking(CheckKernel("winograd", "convolution", op_case, ForwardLayouts(op_case, lanes, ""))))
    GTEST_SKIP() << "no such vectors";
  const Checked forward = CheckProposal("winograd", "convolution", op_case, {{Blocked(lanes)}, {}});
  EXPECT_EQ(forward.refusal, "");
  EXPECT_EQ(LayoutNames(forward.inputs), (std::vector<std::string>{Blocked(lanes), weights, "a", Blocked(lanes)}));
  const Checked data =
      CheckProposal("winograd", "convolution_backward_data", BackwardData(c), {{Blocked(lanes), weights}, {}});
  EXPECT_EQ(LayoutNames(data.inputs), (std::vector<std::string>{Blocked(lanes), weights}));
  EXPECT_EQ(LayoutNames(data.outputs), (std::vector<std::string>{Blocked(lanes)}));
}

std::string RefusalOf(const Convolution& c, const ChosenLayouts& layouts) {
  return CheckKernel("winograd", "convolution", Forward(c, false, false, false), layouts).refusal;
}

TEST(WinogradRefusals, SayWhy) {
  const ChosenLayouts blocked = {{"aBcd8b"}, {"aBcd8b"}};
  Convolution c = Make(1, 16, 16, 8, 8, {1, 1}, {1, 1});
  EXPECT_EQ(RefusalOf(c, {}), "the channels of float32[1,16,8,8] are not in blocks of 8 or 16");
  EXPECT_EQ(RefusalOf(c, {{"aBcd8b"}, {}}), "float32[1,16,8,8] does not lie as float32[1,16,8,8]:aBcd8b");
  c.geometry.Set("stride", Ints{2, 2});
  c.y = Shape{1, 16, 4, 4};
  const std::string windows = "it is for 3x3 windows of stride 1 and 4x4 windows of stride 2; ";
  EXPECT_EQ(RefusalOf(c, blocked), windows + "the weights are [16,16,3,3], the stride is [2,2]");
  c = Make(1, 16, 16, 8, 8, {2, 2}, {2, 2});
  c.geometry.Set("dilation", Ints{2, 2});
  c.y = Shape{1, 16, 8, 8};
  EXPECT_EQ(RefusalOf(c, blocked), "it is for windows without dilation");
  c = Make(1, 16, 16, 8, 8, {1, 1}, {1, 1});
  c.w = Shape{16, 16, 5, 5};
  c.y = Shape{1, 16, 6, 6};
  EXPECT_EQ(RefusalOf(c, blocked), windows + "the weights are [16,16,5,5], the stride is [1,1]");
  c = Make(0, 16, 16, 8, 8, {1, 1}, {1, 1});
  EXPECT_EQ(RefusalOf(c, blocked), "the tensor float32[0,16,8,8]:aBcd8b is empty");
  c = Make(1, 24, 16, 8, 8, {1, 1}, {1, 1}, 2);
  const std::string refusal = RefusalOf(c, blocked);
  if (refusal.ends_with("which this CPU lacks")) GTEST_SKIP() << refusal;
  EXPECT_EQ(refusal, "the channels of a group (12 to 8) are not whole blocks of 8");
  c = Make(1, 16, 16, 8, 8, {1, 1}, {1, 1});
  EXPECT_EQ(RefusalOf(c, {{"aBcd8b", "acdb"}, {"aBcd8b"}}),
            "the weights float32[16,16,3,3]:acdb are neither plain nor in blocks of 8");
}

TEST(WinogradRefusals, ASummandThatLiesOtherwise) {
  const Convolution c = Make(1, 16, 16, 8, 8, {1, 1}, {1, 1});
  const OpCase op_case = Forward(c, false, true, false);
  const Checked checked = CheckKernel("winograd", "convolution", op_case, {{"aBcd8b"}, {"aBcd8b"}});
  if (IsLacking(checked)) GTEST_SKIP() << checked.refusal;
  EXPECT_EQ(checked.refusal, "the summand float32[1,16,8,8] does not lie as the output float32[1,16,8,8]:aBcd8b");
}

}  // namespace
}  // namespace moka
