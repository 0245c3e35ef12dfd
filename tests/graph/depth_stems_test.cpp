// Strided convolutions over few channels as dense ones over blocks of pixels, on a rehearsed GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "core/device/device.h"
#include "graph/pass.h"
#include "tests/graph/small_net.h"

namespace moka {
namespace {

struct Stem {
  const char* name;
  int64_t channels, size, kernel, stride, pad;
  int64_t groups = 1;
};

Attributes GeometryOf(const Stem& stem) {
  return {{"stride", Ints{stem.stride, stem.stride}},
          {"pad_begin", Ints{stem.pad, stem.pad}},
          {"pad_end", Ints{stem.pad, stem.pad}},
          {"dilation", Ints{1, 1}},
          {"groups", stem.groups}};
}

// Pictures, the stem with a bias, a ReLU and a classifier, in training.
struct StemTraining {
  StemTraining(const Stem& stem, const CompileOptions& options) : net(options.device) {
    Graph& graph = net.graph;
    const ValueId x = graph.AddInput("x", Type(Shape{4, stem.channels, stem.size, stem.size}));
    const ValueId label = graph.AddInput("label", Type(Shape{4}));
    const GraphBuilder b(graph, {"stem", {}, "", kNoId});
    const ValueId w = net.Weight("w", Shape{12, stem.channels / stem.groups, stem.kernel, stem.kernel});
    const ValueId y =
        b.Pointwise("max(x0,0)", {b.Add1("convolution", {x, w, net.Weight("bias", Shape{12})}, GeometryOf(stem))});
    const int64_t features = graph.shape(y).Count() / 4;
    const ValueId flat = b.Reshape(y, Shape{4, features});
    const ValueId logits = b.Add1("matmul", {flat, net.Weight("head", Shape{10, features})},
                                  {{"transpose_a", false}, {"transpose_b", true}});
    net.loss = b.Add("softmax_loss", {logits, label},
                     {{"axis", int64_t{1}}, {"has_ignore", false}, {"ignore_label", int64_t{0}}})[0];
    graph.AddOutput("loss", net.loss);
    if (!options.inference) net.Train();
    program = Compile(std::move(graph), net.store, options);
    Feed(*program);
  }
  float Step() {
    program->Run();
    return program->output("loss").as<float>()[0];
  }
  int64_t CountOf(std::string_view op) const {
    return std::ranges::count_if(program->steps(), [&](const StepReport& s) { return s.op == op; });
  }

  SmallNet net;
  std::unique_ptr<Program> program;
};

class DepthStems : public testing::Test {
 protected:
  void SetUp() override {
    if (CudaRuntime().empty()) GTEST_SKIP() << FindCuda().missing;
  }
  static CompileOptions Options(Compute compute = Compute::kBFloat16) {
    CompileOptions options;
    options.device = {DeviceKind::kCuda, Device::kRehearsed};
    options.compute = compute;
    return options;
  }
};

TEST_F(DepthStems, TrainAsTheStridedConvolutionDoes) {
  for (const Stem& stem : {Stem{"resnet", 3, 18, 7, 2, 3}, Stem{"alexnet", 3, 23, 11, 4, 0},
                           Stem{"lines", 1, 9, 3, 2, 1}, Stem{"no_block_is_whole", 4, 14, 5, 3, 2}}) {
    for (const Compute compute : {Compute::kBFloat16, Compute::kFloat16}) {
      SCOPED_TRACE(stem.name);
      CompileOptions plain = Options(compute);
      plain.disabled_passes = {"depth_stems"};
      StemTraining deep(stem, Options(compute));
      StemTraining strided(stem, plain);
      EXPECT_EQ(deep.CountOf("space_to_depth"), 2) << deep.program->report().text;
      EXPECT_EQ(deep.CountOf("depth_to_space"), 1);
      EXPECT_EQ(strided.CountOf("space_to_depth"), 0);
      for (int step = 0; step < 3; ++step) {
        const float expected = strided.Step();
        EXPECT_NEAR(deep.Step(), expected, 0.01F * expected);
      }
      for (const std::string& name : strided.net.store.Names()) {
        const std::vector<float> expected = strided.net.store.Values(name);
        const std::vector<float> found = deep.net.store.Values(name);
        float largest = 0;
        for (const float v : expected) largest = std::max(largest, std::abs(v));
        for (size_t i = 0; i < expected.size(); ++i) {
          ASSERT_NEAR(found[i], expected[i], 0.02F * largest) << name << "[" << i << "]";
        }
      }
    }
  }
}

TEST_F(DepthStems, OthersStayAsTheyAre) {
  const Stem stem{"resnet", 3, 18, 7, 2, 3};
  EXPECT_EQ(StemTraining(stem, Options(Compute::kFloat32)).CountOf("space_to_depth"), 0) << "float32";
  CompileOptions inference = Options();
  inference.inference = true;
  EXPECT_EQ(StemTraining(stem, inference).CountOf("space_to_depth"), 0) << "inference";
  for (const Stem& other :
       {Stem{"channels", 5, 18, 7, 2, 3}, Stem{"stride", 3, 12, 3, 1, 1}, Stem{"groups", 4, 12, 3, 2, 1, 2}}) {
    EXPECT_EQ(StemTraining(other, Options()).CountOf("space_to_depth"), 0) << other.name;
  }
}

// Each of two stems of one picture has blocks of its own; two of one shape are not told apart.
TEST_F(DepthStems, StemsOfOnePictureAreToldApartByTheirShapes) {
  for (const int64_t kernel : {3, 5}) {
    SmallNet net({DeviceKind::kCuda, Device::kRehearsed});
    const ValueId x = net.graph.AddInput("x", Type(Shape{4, 3, 18, 18}));
    const GraphBuilder b(net.graph, {"stem", {}, "", kNoId});
    const auto sum = [&](const char* name, int64_t size) {
      const ValueId w = net.Weight(name, Shape{8, 3, size, size});
      const ValueId y = b.Add1("convolution", {x, w}, GeometryOf({"", 3, 18, size, 2, size / 2}));
      const Attributes squares{{"expr", std::string("x0*x0")}, {"axes", Ints{0, 1, 2, 3}}};
      return b.Reshape(b.Add1("reduce_sum", {y}, squares), Shape{});
    };
    net.loss = b.Pointwise("x0+x1", {sum("a", 3), sum("b", kernel)});
    net.graph.AddOutput("loss", net.loss);
    net.Train();
    const auto program = Compile(std::move(net.graph), net.store, Options());
    const auto count =
        std::ranges::count_if(program->steps(), [](const StepReport& s) { return s.op == "space_to_depth"; });
    EXPECT_EQ(count, kernel == 3 ? 0 : 4) << kernel;
  }
}

// A convolution whose input wants a gradient would want that, too, to come back.
TEST_F(DepthStems, InputsThatWantAGradientStayAsTheyAre) {
  SmallNet net({DeviceKind::kCuda, Device::kRehearsed});
  const ValueId x = net.graph.AddInput("x", Type(Shape{4, 3, 18, 18}));
  const GraphBuilder b(net.graph, {"stem", {}, "", kNoId});
  const Attributes strided = GeometryOf({"", 3, 18, 3, 2, 1});
  const ValueId first = b.Add1("convolution", {x, net.Weight("a", Shape{4, 3, 3, 3})}, strided);
  const ValueId second = b.Add1("convolution", {first, net.Weight("b", Shape{8, 4, 3, 3})}, strided);
  net.loss =
      b.Reshape(b.Add1("reduce_sum", {second}, {{"expr", std::string("x0*x0")}, {"axes", Ints{0, 1, 2, 3}}}), Shape{});
  net.graph.AddOutput("loss", net.loss);
  net.Train();
  const auto program = Compile(std::move(net.graph), net.store, Options());
  const auto count = [&](std::string_view op) {
    return std::ranges::count_if(program->steps(), [&](const StepReport& s) { return s.op == op; });
  };
  EXPECT_EQ(count("space_to_depth"), 2) << "the first one's input and weights";
  EXPECT_EQ(count("convolution_backward_data"), 1);
}

}  // namespace
}  // namespace moka
