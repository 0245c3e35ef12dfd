// The precision pass: which values become half, where casts stand, what fuses them away, and that programs in half
// precision on the CPU agree with float32.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "core/rng.h"
#include "graph/autodiff.h"
#include "graph/pass.h"
#include "graph/passes/passes.h"
#include "graph/program.h"
#include "layers/net/catalog.h"
#include "tests/graph/weight.h"

namespace moka {
namespace {

const Attributes kSame{{"stride", Ints{1, 1}},
                       {"pad_begin", Ints{1, 1}},
                       {"pad_end", Ints{1, 1}},
                       {"dilation", Ints{1, 1}},
                       {"groups", int64_t{1}}};

// Two convolutions with a ReLU between, and a softmax.
struct PrecisionNet {
  Graph graph{StandardCatalog()};
  ParameterStore store;
  std::vector<ValueId> weights;
  ValueId loss = kNoId;

  ValueId Weight(const std::string& name, const Shape& shape) {
    weights.push_back(AddWeight(graph, store, name, shape, 0.3));
    return weights.back();
  }

  ValueId Forward(bool norm) {
    const ValueId x = graph.AddInput("x", {DType::kFloat32, Shape{4, 3, 6, 6}, {}});
    ValueId h =
        GraphBuilder(graph, {"conv1", {}, ""}).Add1("convolution", {x, Weight("w1", Shape{16, 3, 3, 3})}, kSame);
    if (norm) {
      h = GraphBuilder(graph, {"bn", {}, ""})
              .Add("batch_norm", {h, Weight("scale", Shape{16}), Weight("shift", Shape{16})}, {{"eps", 1e-3}})[0];
    }
    h = GraphBuilder(graph, {"relu", {}, ""}).Pointwise("max(x0,0)", {h});
    h = GraphBuilder(graph, {"conv2", {}, ""}).Add1("convolution", {h, Weight("w2", Shape{8, 16, 3, 3})}, kSame);
    return h;
  }

  void Trained() {
    const ValueId h = Forward(true);
    const GraphBuilder b(graph, {"loss", {}, ""});
    loss = b.Reshape(b.Add1("reduce_sum", {h}, {{"expr", std::string("x0*x0")}, {"axes", Ints{0, 1, 2, 3}}}), Shape{});
    graph.AddOutput("loss", loss);
    const std::vector<ValueId> gradients = Differentiate(graph, loss, weights);
    const GraphBuilder u(graph, {"", {}, "update"});
    for (size_t i = 0; i < weights.size(); ++i) {
      graph.Assign(weights[i], u.Pointwise("x0-1e-4*x1", {weights[i], gradients[i]}));
    }
  }

  std::map<std::string, std::vector<float>> Run(const CompileOptions& options, int steps = 1) {
    const std::vector<GraphOutput> outputs = graph.outputs();
    const auto program = Compile(graph, store, options);
    RandomStream random(7, 1);
    for (float& v : program->input("x").as<float>()) v = static_cast<float>(random.Uniform(-1, 1));
    for (int i = 0; i < steps; ++i) program->Run();
    std::map<std::string, std::vector<float>> values;
    for (const GraphOutput& output : outputs) {
      const auto data = program->output(output.name).as<float>();
      values[output.name] = {data.begin(), data.end()};
    }
    text = program->report().text;
    return values;
  }
  std::string text;
};

CompileOptions In(Compute compute) {
  CompileOptions options;
  options.compute = compute;
  return options;
}

bool RunPass(Graph& graph, const CompileOptions& options) {
  const ParameterStore store;
  return AssignPrecision(graph, {options, store});
}

TEST(PrecisionTest, TextBeforeAndAfter) {
  PrecisionNet net;
  net.graph.AddOutput(
      "y", GraphBuilder(net.graph, {"prob", {}, ""}).Add1("softmax", {net.Forward(false)}, {{"axis", int64_t{1}}}));
  EXPECT_TRUE(RunPass(net.graph, In(Compute::kFloat16)));
  Verify(net.graph, "precision");
  const std::string text = ToText(net.graph);
  const std::string wanted = R"text(input $x:float32[4,3,6,6]
state @w1:float32[16,3,3,3]
state @w2:float32[8,16,3,3]
%7:float16[4,3,6,6] = cast($x){dtype="float16"}  # conv1 (precision)
%8:float16[16,3,3,3] = cast(@w1){dtype="float16"}  # conv1 (precision)
%2:float16[4,16,6,6] = convolution(%7, %8){activation="", dilation=[1,1], groups=1, keeps_summand=false, pad_begin=[1,1], pad_end=[1,1], stride=[1,1], sum=false}  # conv1
%3:float16[4,16,6,6] = pointwise(%2){dtypes=["float16"], exprs=["max(x0,0)"]}  # relu
%9:float16[8,16,3,3] = cast(@w2){dtype="float16"}  # conv2 (precision)
%5:float16[4,8,6,6] = convolution(%3, %9){activation="", dilation=[1,1], groups=1, keeps_summand=false, pad_begin=[1,1], pad_end=[1,1], stride=[1,1], sum=false}  # conv2
%10:float32[4,8,6,6] = cast(%5){dtype="float32"}  # prob (precision)
%6:float32[4,8,6,6] = softmax(%10){axis=1}  # prob
output y = %6
)text";
  EXPECT_EQ(text, wanted);
}

TEST(PrecisionTest, TheSecondRunAndFloat32ChangeNothing) {
  for (const Compute compute : {Compute::kFloat32, Compute::kTf32}) {
    PrecisionNet net;
    net.Trained();
    EXPECT_FALSE(RunPass(net.graph, In(compute)));
  }
  for (const Compute compute : {Compute::kFloat16, Compute::kBFloat16}) {
    PrecisionNet net;
    net.Trained();
    EXPECT_TRUE(RunPass(net.graph, In(compute)));
    Verify(net.graph, "precision");
    const std::string once = ToText(net.graph);
    EXPECT_FALSE(RunPass(net.graph, In(compute)));
    EXPECT_EQ(ToText(net.graph), once);
  }
}

TEST(PrecisionTest, StatisticsUpdatesAndOutputsStayFloat32) {
  PrecisionNet net;
  net.Trained();
  RunPass(net.graph, In(Compute::kBFloat16));
  int norms = 0;
  for (const NodeId id : net.graph.TopologicalOrder()) {
    const Node& node = net.graph.node(id);
    const auto type = [&](ValueId value) { return net.graph.type(value).dtype; };
    if (node.op->name == "batch_norm" || node.op->name == "batch_norm_backward") {
      ++norms;
      EXPECT_EQ(type(node.inputs[0]), DType::kBFloat16);
      EXPECT_EQ(type(node.inputs[1]), DType::kFloat32);
      EXPECT_EQ(type(node.outputs[0]), DType::kBFloat16);
      EXPECT_EQ(type(node.outputs[1]), DType::kFloat32);
      EXPECT_EQ(type(node.outputs[2]), DType::kFloat32);
    }
    if (node.op->name == "convolution_backward_weights") {
      EXPECT_EQ(type(node.outputs[0]), DType::kBFloat16);
    }
  }
  EXPECT_EQ(norms, 2);
  for (const Assignment& a : net.graph.assignments()) EXPECT_EQ(net.graph.type(a.value).dtype, DType::kFloat32);
  EXPECT_EQ(net.graph.type(net.graph.outputs()[0].value).dtype, DType::kFloat32);
}

TEST(PrecisionTest, PinnedLayersComputeInFloat32) {
  PrecisionNet net;
  net.Trained();
  CompileOptions options = In(Compute::kFloat16);
  options.keep32_layers = {"conv2"};
  RunPass(net.graph, options);
  for (const NodeId id : net.graph.TopologicalOrder()) {
    const Node& node = net.graph.node(id);
    if (!node.op->name.starts_with("convolution")) continue;
    const DType wanted = node.origin.layer == "conv2" ? DType::kFloat32 : DType::kFloat16;
    EXPECT_EQ(net.graph.type(node.outputs[0]).dtype, wanted) << node.op->name << " of " << node.origin.layer;
    EXPECT_EQ(net.graph.type(node.inputs[0]).dtype, wanted) << node.op->name << " of " << node.origin.layer;
  }
}

TEST(PrecisionTest, HalfProgramsAgreeWithFloat32) {
  const auto loss = [](Compute compute) {
    PrecisionNet net;
    net.Trained();
    const double first = net.Run(In(compute)).at("loss")[0];
    return std::pair(first, net.store.Values("w1"));
  };
  const auto [exact, weights] = loss(Compute::kFloat32);
  const auto check = [&, &exact = exact, &weights = weights](Compute compute, double bound) {
    const auto [value, changed] = loss(compute);
    EXPECT_NE(value, exact) << "rounding must show";
    EXPECT_NEAR(value / exact, 1, bound);
    double error = 0;
    double step = 0;
    PrecisionNet fresh;
    fresh.Trained();
    const std::vector<float> before = fresh.store.Values("w1");
    for (size_t i = 0; i < weights.size(); ++i) {
      error = std::max(error, std::abs(double{changed[i]} - double{weights[i]}));
      step = std::max(step, std::abs(double{before[i]} - double{weights[i]}));
    }
    EXPECT_GT(step, 0);
    EXPECT_LT(error / step, bound * 8);
  };
  check(Compute::kFloat16, 0.002);
  check(Compute::kBFloat16, 0.016);
}

// A convolution reads a half copy of its weight that the update writes beside the weight: no cast of a state runs.
TEST(PrecisionTest, MastersHaveHalfMirrors) {
  PrecisionNet net;
  net.Trained();
  const auto program = Compile(net.graph, net.store, In(Compute::kFloat16));
  for (const StepReport& step : program->steps()) {
    const bool is_cast = step.op == "cast";  // of the images alone
    EXPECT_TRUE(!is_cast || step.types == "float16[4,3,6,6] <- float32[4,3,6,6]") << step.types;
  }
  EXPECT_FALSE(net.store.claims("w2").mirrors.empty());
  for (const std::string& mirror : net.store.claims("w2").mirrors) {
    EXPECT_EQ(net.store.type(mirror).dtype, DType::kFloat16);
  }
  EXPECT_EQ(net.store.type("w2").dtype, DType::kFloat32);
  program->Run();
  for (const std::string& mirror : net.store.claims("w2").mirrors) {
    const std::vector<float> master = net.store.Values("w2");
    const std::vector<float> copy = net.store.Values(mirror);
    for (size_t i = 0; i < copy.size(); ++i) {
      ASSERT_NEAR(copy[i], master[i], std::abs(master[i]) * 0x1p-11F + 1e-7F) << i;
    }
  }
}

// Nodes without a kernel of the GPU run on the CPU, there too between conversions.
TEST(PrecisionTest, ARehearsedGpuAgreesWithTheCpu) {
  const auto train = [](const Device& device) {
    PrecisionNet net;
    net.Trained();
    ParameterStore store(device);
    for (const std::string& name : net.store.Names()) {
      store.Add(name, net.store.type(name).shape);
      store.Set(name, net.store.Values(name));
    }
    CompileOptions options = In(Compute::kFloat16);
    options.device = device;
    const auto program = Compile(net.graph, store, options);
    RandomStream random(7, 1);
    for (float& v : program->input("x").as<float>()) v = static_cast<float>(random.Uniform(-1, 1));
    for (int i = 0; i < 3; ++i) program->Run();
    return std::pair(program->output("loss").as<float>()[0], store.Values("w1"));
  };
  const auto [loss, weights] = train({});
  const auto [gpu_loss, gpu_weights] = train({DeviceKind::kCuda, Device::kRehearsed});
  EXPECT_NEAR(gpu_loss / loss, 1, 2e-3);
  for (size_t i = 0; i < weights.size(); ++i) ASSERT_NEAR(gpu_weights[i], weights[i], 2e-3) << i;
}

TEST(PrecisionTest, InferenceAgreesWithFloat32) {
  const auto run = [](Compute compute) {
    PrecisionNet net;
    net.graph.AddOutput("y", net.Forward(true));
    CompileOptions options = In(compute);
    options.inference = true;
    return net.Run(options).at("y");
  };
  const std::vector<float> exact = run(Compute::kFloat32);
  const std::vector<float> half = run(Compute::kFloat16);
  double largest = 0;
  for (const float v : exact) largest = std::max(largest, std::abs(double{v}));
  for (size_t i = 0; i < exact.size(); ++i) ASSERT_NEAR(half[i], exact[i], largest * 4e-3) << i;
  EXPECT_NE(half, exact);
}

// d/dx of a sum whose result is float32 over a half x is half, and the same number.
TEST(PrecisionTest, GradientsOfMixedExpressionsHaveTheInputsType) {
  Graph graph(StandardCatalog());
  const GraphBuilder b(graph, {"net", {}, ""});
  const ValueId x = graph.AddInput("x", {DType::kFloat16, Shape{3, 5}, {}});
  const ValueId scale = graph.AddInput("scale", {DType::kFloat32, Shape{1, 5}, {}});
  const ValueId y = b.Add1("pointwise", {x, scale}, {{"exprs", Strings{"x0*x1"}}, {"dtypes", Strings{"float32"}}});
  EXPECT_EQ(graph.type(y).dtype, DType::kFloat32);
  const ValueId sum =
      b.Reshape(b.Add1("reduce_sum", {y}, {{"axes", Ints{0, 1}}, {"dtype", std::string("float32")}}), Shape{});
  const std::vector<ValueId> wrt = {x, scale};
  const std::vector<ValueId> dx = Differentiate(graph, sum, wrt);
  EXPECT_EQ(graph.type(dx[0]).dtype, DType::kFloat16);
  EXPECT_EQ(graph.type(dx[1]).dtype, DType::kFloat32);
  EXPECT_EQ(graph.shape(dx[1]), (Shape{1, 5}));
  EXPECT_THROW(b.Add1("pointwise", {x}, {{"exprs", Strings{"x0"}}, {"dtypes", Strings{"int32"}}}), Error);
  EXPECT_THROW(b.Add("pointwise", {x}, {{"exprs", Strings{"x0", "-x0"}}, {"dtypes", Strings{"float32"}}}), Error);
}

}  // namespace
}  // namespace moka
