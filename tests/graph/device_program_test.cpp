// Programs on a GPU, here a rehearsed one and where there is one a real one: the same results as on the CPU, from the
// first run, which is queued, and from later ones, which are recorded; errors, times, constants and memory as there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "core/device/device.h"
#include "graph/pass.h"
#include "tests/graph/small_net.h"

namespace moka {
namespace {

using std::string_literals::operator""s;

class DeviceProgram : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    const CudaFacts facts = FindCuda();
    if (CudaRuntime().empty()) GTEST_SKIP() << facts.missing;
    if (GetParam() >= static_cast<int>(facts.gpus.size())) GTEST_SKIP() << "no NVIDIA GPU: " << facts.missing;
  }
  Device device() const { return {DeviceKind::kCuda, GetParam()}; }
  CompileOptions options() const {
    CompileOptions options;
    options.device = device();
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(Gpus, DeviceProgram, testing::Values(Device::kRehearsed, 0),
                         [](const auto& index) { return index.param == 0 ? "Real" : "Rehearsed"; });

// The small net in training, with all that is needed to run it.
struct Training {
  explicit Training(const CompileOptions& options) : net(options.device) {
    net.Build();
    ComposeForward(net.graph);
    net.Train();
    program = Compile(std::move(net.graph), net.store, options);
    Feed(*program);
  }
  float Step() {
    program->Run();
    return program->output("loss").as<float>()[0];
  }

  SmallNet net;
  std::unique_ptr<Program> program;
};

float Largest(const std::vector<float>& values) {
  float largest = 0;
  for (const float v : values) largest = std::max(largest, std::abs(v));
  return largest;
}

void ExpectSameWeights(const ParameterStore& found, const ParameterStore& expected, float tolerance) {
  for (const std::string& name : expected.Names()) {
    const std::vector<float> a = found.Values(name);
    const std::vector<float> b = expected.Values(name);
    for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance * Largest(b)) << name << " " << i;
  }
}

TEST_P(DeviceProgram, TrainsAsTheCpuDoes) {
  Training cpu({});
  Training gpu(options());
  for (int step = 0; step < 6; ++step) {
    const float expected = cpu.Step();
    EXPECT_NEAR(gpu.Step(), expected, 1e-4F * std::abs(expected)) << "step " << step;
  }
  ExpectSameWeights(gpu.net.store, cpu.net.store, 1e-3F);
}

TEST_P(DeviceProgram, RunsRepeatBitForBit) {
  Training first(options());
  Training second(options());
  for (int step = 0; step < 5; ++step) EXPECT_EQ(first.Step(), second.Step()) << "step " << step;
  ExpectSameWeights(first.net.store, second.net.store, 0);
}

// Inputs may be written again as soon as the run that reads them is finished, not before.
TEST_P(DeviceProgram, RunsReadTheInputsOfTheirOwn) {
  Training gpu(options());
  Training same(options());
  for (int step = 0; step < 4; ++step) {
    gpu.program->Start();
    gpu.program->Finish();
    for (float& v : gpu.program->input("x").as<float>()) v = -v;
    const float loss = gpu.program->output("loss").as<float>()[0];
    EXPECT_EQ(loss, same.Step());
    for (float& v : same.program->input("x").as<float>()) v = -v;
  }
}

TEST_P(DeviceProgram, NamesTheLayerOfABadLabel) {
  Training gpu(options());
  gpu.Step();
  for (int run = 0; run < 3; ++run) {
    gpu.program->input("label").as<float>()[2] = 77;
    try {
      gpu.program->Run();
      FAIL() << "run " << run;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kBadData);
      EXPECT_THAT(std::string(error.what()), testing::HasSubstr("layer \"head\": label 77 at index 2"));
    }
    gpu.program->input("label").as<float>()[2] = 4;
    EXPECT_TRUE(std::isfinite(gpu.Step()));
  }
}

TEST_P(DeviceProgram, TimesEachStep) {
  Training gpu(options());
  std::vector<double> ms(gpu.program->steps().size(), -1);
  gpu.program->RunTimed(ms);
  for (size_t i = 0; i < ms.size(); ++i) {
    const StepReport& step = gpu.program->steps()[i];
    if (step.is_constant) continue;
    EXPECT_GE(ms[i], 0) << step.layer << " " << step.op;
  }
  Training plain(options());
  plain.Step();
  EXPECT_EQ(gpu.Step(), plain.Step()) << "a timed run is a run";
}

TEST_P(DeviceProgram, FindsTheFirstValueThatIsNotFinite) {
  Training gpu(options());
  gpu.Step();
  EXPECT_EQ(gpu.program->FindNonFinite(), std::nullopt);
  gpu.program->input("x").as<float>()[17] = std::numeric_limits<float>::infinity();
  const auto input = gpu.program->FindNonFinite();
  ASSERT_TRUE(input);
  EXPECT_EQ(input->what, "input x");
  EXPECT_EQ(input->index, 17);
  Feed(*gpu.program);
  std::vector<float> weights = gpu.net.store.Values("c/w");
  weights[5] = std::nanf("");
  gpu.net.store.Set("c/w", weights);
  const auto state = gpu.program->FindNonFinite();
  ASSERT_TRUE(state);
  EXPECT_EQ(state->what, "state c/w");
}

// Weights written into the store reach the program at once, what follows from them alone when it is refreshed.
TEST_P(DeviceProgram, RefreshesConstants) {
  SmallNet net(device());
  net.Build();
  const ValueId flat = net.graph.value(net.weights.back()).producer;
  EXPECT_EQ(flat, kNoId);
  CompileOptions inference = options();
  inference.inference = true;
  const auto program = Compile(std::move(net.graph), net.store, inference);
  Feed(*program);
  program->Run();
  const float before = program->output("loss").as<float>()[0];
  std::vector<float> scale = net.store.Values("a/scale");
  for (float& v : scale) v = 2 * v + 0.5F;
  net.store.Set("a/scale", scale);
  program->RefreshConstants();
  program->Run();
  program->Run();
  const float after = program->output("loss").as<float>()[0];
  EXPECT_NE(before, after);

  SmallNet cpu;
  cpu.Build();
  CompileOptions on_cpu = inference;
  on_cpu.device = {};
  cpu.store.Set("a/scale", scale);
  const auto same = Compile(std::move(cpu.graph), cpu.store, on_cpu);
  Feed(*same);
  same->Run();
  EXPECT_NEAR(after, same->output("loss").as<float>()[0], 1e-4F * std::abs(after));
}

TEST_P(DeviceProgram, SaysWhatRunsOnTheCpu) {
  Training gpu(options());
  const auto& steps = gpu.program->steps();
  const auto is = [&](std::string_view op, std::string_view kernel) {
    return std::ranges::any_of(steps, [&](const StepReport& s) { return s.op == op && s.kernel == kernel; });
  };
  EXPECT_TRUE(is("matmul", "gemm")) << gpu.program->report().text;
  EXPECT_GT(gpu.program->report().memory.arena_bytes, 0);
}

// The updates of all weights are one kernel, with the same results as one by one.
TEST_P(DeviceProgram, GroupsUpdates) {
  const auto updates = [](const Program& program, std::string_view op) {
    return std::ranges::count_if(program.steps(),
                                 [&](const StepReport& s) { return s.op == op && s.pass == "update"; });
  };
  CompileOptions apart = options();
  apart.disabled_passes = {"group_updates"};
  Training grouped(options());
  Training single(apart);
  EXPECT_EQ(updates(*grouped.program, "pointwise_group"), 1) << grouped.program->report().text;
  EXPECT_EQ(updates(*grouped.program, "pointwise"), 0);
  EXPECT_EQ(updates(*single.program, "pointwise_group"), 0);
  EXPECT_EQ(updates(*single.program, "pointwise"), 7);
  for (int step = 0; step < 4; ++step) EXPECT_EQ(grouped.Step(), single.Step());
  ExpectSameWeights(grouped.net.store, single.net.store, 0);
}

// Those of running statistics, say. What a step reads is computed where it is.
TEST_P(DeviceProgram, NextValuesOfStatesAreOneKernel) {
  const auto run = [](ParameterStore& store, const CompileOptions& options) {
    Graph graph{StandardCatalog()};
    const ValueId x = graph.AddInput("x", Type(Shape{3}));
    const GraphBuilder b(graph, {"layer", {}, "", kNoId});
    for (const std::string name : {"a", "b", "c"}) {
      const ValueId state = AddWeight(graph, store, name, Shape{3}, 0.5);
      const ValueId next = b.Pointwise("0.9*x0+x1", {state, x});
      graph.Assign(state, next);
      if (name == "c") graph.AddOutput("y", b.Add1("reduce_sum", {next}, {{"expr", "x0"s}, {"axes", Ints{0}}}));
    }
    auto program = Compile(std::move(graph), store, options);
    std::ranges::copy(std::array{1.0F, 2.0F, 4.0F}, program->input("x").as<float>().begin());
    for (int i = 0; i < 3; ++i) program->Run();
    return std::ranges::count_if(program->steps(), [](const StepReport& s) { return s.op == "pointwise_group"; });
  };
  ParameterStore grouped(device());
  EXPECT_EQ(run(grouped, options()), 1);
  CompileOptions apart = options();
  apart.disabled_passes = {"group_updates"};
  ParameterStore single(device());
  EXPECT_EQ(run(single, apart), 0);
  ExpectSameWeights(grouped, single, 0);
}

// A folded sum lies apart from the result on GPUs, whose libraries do not say what they write first.
TEST_P(DeviceProgram, FoldedSumsAreNotWrittenOver) {
  const auto text = [](CompileOptions options) {
    Graph graph{StandardCatalog()};
    ParameterStore store(options.device);
    const ValueId x = graph.AddInput("x", Type(Shape{2, 4, 6, 6}));
    const GraphBuilder b(graph, {"layer", {}, "", kNoId});
    const ValueId w = AddWeight(graph, store, "w", Shape{4, 4, 3, 3}, 0.5);
    const ValueId y = b.Add1("convolution", {x, w}, SmallNet::Geometry());
    graph.AddOutput("y", b.Pointwise("x0+x1", {y, x}));
    options.inference = true;
    return Compile(std::move(graph), store, options)->report().text;
  };
  EXPECT_THAT(text(options()), testing::HasSubstr("keeps_summand=true"));
  const std::string cpu = text({});
  EXPECT_THAT(cpu, testing::HasSubstr("sum=true"));
  EXPECT_THAT(cpu, testing::Not(testing::HasSubstr("keeps_summand=true")));
  const OpDef& convolution = StandardCatalog().Op("convolution");
  EXPECT_TRUE(convolution.may_overwrite({{"sum", true}, {"keeps_summand", false}}, 2, 0));
  EXPECT_FALSE(convolution.may_overwrite({{"sum", true}, {"keeps_summand", true}}, 2, 0));
}

int64_t CountOf(const Program& program, std::string_view op) {
  return std::ranges::count_if(program.steps(), [&](const StepReport& s) { return s.op == op; });
}

// The loops sum what they wrote in the order of the batch norm's own sweep.
TEST_P(DeviceProgram, ConvolutionsSumTheStatisticsOfBatchNorms) {
  CompileOptions apart = options();
  apart.disabled_passes = {"channel_statistics"};
  Training joined(options());
  Training single(apart);
  if (device().is_rehearsed()) {
    EXPECT_EQ(CountOf(*joined.program, "convolution_statistics"), 2) << joined.program->report().text;
    EXPECT_EQ(CountOf(*joined.program, "batch_norm_apply"), 2) << "one of them with the residual";
    EXPECT_EQ(CountOf(*joined.program, "batch_norm"), 0);
    EXPECT_EQ(CountOf(*joined.program, "convolution"), 0);
  }
  EXPECT_EQ(CountOf(*single.program, "convolution_statistics"), 0);
  EXPECT_EQ(CountOf(*single.program, "batch_norm"), 2);
  for (int step = 0; step < 4; ++step) EXPECT_EQ(joined.Step(), single.Step());
  ExpectSameWeights(joined.net.store, single.net.store, 0);
}

// The first batch norm's result goes to a convolution and round it: the convolution's gradient takes the other one as
// its summand, and the mask from the result that the weights' gradient reads.
TEST_P(DeviceProgram, GradientsSumWhatBatchNormsWant) {
  CompileOptions apart = options();
  apart.disabled_passes = {"gradient_sums"};
  Training joined(options());
  Training single(apart);
  if (device().is_rehearsed()) {
    EXPECT_EQ(CountOf(*joined.program, "convolution_backward_data_sums"), 1) << joined.program->report().text;
    EXPECT_EQ(CountOf(*joined.program, "batch_norm_backward_apply"), 1);
    EXPECT_EQ(CountOf(*joined.program, "batch_norm_backward"), 1) << "the second one's result goes to no convolution";
    EXPECT_EQ(CountOf(*joined.program, "convolution_backward_data"), 0);
    EXPECT_THAT(joined.program->report().text, testing::HasSubstr("mask=true"));
  }
  EXPECT_EQ(CountOf(*single.program, "convolution_backward_data_sums"), 0);
  EXPECT_EQ(CountOf(*single.program, "batch_norm_backward"), 2);
  for (int step = 0; step < 4; ++step) EXPECT_NEAR(joined.Step(), single.Step(), 1e-5F);
  ExpectSameWeights(joined.net.store, single.net.store, 1e-5F);
  CompileOptions without = options();
  without.disabled_kernels = {"convolution_backward_data_sums/loop", "convolution_backward_data_sums/cudnn"};
  EXPECT_EQ(CountOf(*Training(without).program, "batch_norm_backward"), 2) << "no row takes the sums";
}

// The standard catalogue, but convolutions on GPUs are taken by rows of another name.
const Catalog& CatalogOfOtherConvolutions() {
  static const Catalog catalog = [] {
    std::vector<KernelDef> rows;
    for (const OpDef& op : StandardCatalog().ops()) {
      for (const DeviceKind device : {DeviceKind::kCpu, DeviceKind::kCuda}) {
        for (const KernelDef* row : StandardCatalog().KernelsOf(op.name, device)) {
          rows.push_back(*row);
          if (op.name == "convolution" && device == DeviceKind::kCuda) rows.back().name = "other_" + row->name;
        }
      }
    }
    return Catalog(StandardCatalog().ops(), rows);
  }();
  return catalog;
}

// Where no row sums statistics, or one takes the convolution that does not, the graph is as it was.
TEST_P(DeviceProgram, ConvolutionsWithoutSuchARowStayApart) {
  CompileOptions without = options();
  without.disabled_kernels = {"convolution_statistics/loop", "convolution_statistics/cudnn"};
  Training apart(without);
  EXPECT_EQ(CountOf(*apart.program, "convolution_statistics"), 0);
  EXPECT_EQ(CountOf(*apart.program, "batch_norm"), 2);
  SmallNet net(device());
  net.graph = Graph(CatalogOfOtherConvolutions());
  net.Build();
  const auto other = Compile(std::move(net.graph), net.store, options());
  EXPECT_EQ(CountOf(*other, "convolution_statistics"), 0) << other->report().text;
  EXPECT_EQ(CountOf(*other, "convolution"), 2);
  CompileOptions hosted = options();
  hosted.disabled_kernels = {"convolution/loop", "convolution/cudnn"};
  Training on_cpu(hosted);
  EXPECT_EQ(CountOf(*on_cpu.program, "convolution_statistics"), 0);
  EXPECT_NEAR(on_cpu.Step(), apart.Step(), 1e-4F);
}

// A convolution with a bias or an activation of its own keeps them, and its batch norm its sweep.
TEST_P(DeviceProgram, ConvolutionsWithAnEpilogueStayApart) {
  for (const bool has_bias : {true, false}) {
    Graph graph{StandardCatalog()};
    ParameterStore store(device());
    const ValueId x = graph.AddInput("x", Type(Shape{2, 3, 6, 6}));
    const ValueId w = AddWeight(graph, store, "w", Shape{4, 3, 3, 3}, 0.5);
    std::vector<ValueId> inputs = {x, w};
    Attributes geometry = SmallNet::Geometry();
    if (has_bias) inputs.push_back(AddWeight(graph, store, "b", Shape{4}, 0.5));
    if (!has_bias) geometry.Set("activation", std::string("relu"));
    const GraphBuilder b(graph, {"layer", {}, "", kNoId});
    graph.AddOutput("y", b.Add("batch_norm", {b.Add1("convolution", inputs, geometry)}, {{"eps", 1e-5}})[0]);
    const auto program = Compile(std::move(graph), store, options());
    EXPECT_EQ(CountOf(*program, "convolution_statistics"), 0) << program->report().text;
    EXPECT_EQ(CountOf(*program, "batch_norm"), 1);
  }
}

TEST_P(DeviceProgram, RefusesAStoreOfAnotherDevice) {
  SmallNet net;
  net.Build();
  EXPECT_THROW(Compile(std::move(net.graph), net.store, options()), Error);
}

}  // namespace
}  // namespace moka
