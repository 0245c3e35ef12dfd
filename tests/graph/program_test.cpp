// Compiled programs: every pass leaves the results as they were, states are updated in the right order, runs repeat bit
// for bit, and what cannot be is refused before memory is taken.
#include "graph/program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/rng.h"
#include "core/threads/parallel.h"
#include "graph/autodiff.h"
#include "graph/layer_names.h"
#include "graph/pass.h"
#include "graph/shared_arena.h"
#include "graph/state_layer.h"
#include "layers/net/catalog.h"
#include "tests/graph/small_net.h"

namespace moka {
namespace {

// Losses of some steps and the weights after them.
struct Outcome {
  std::vector<float> losses;
  std::map<std::string, std::vector<float>> weights;
};

Outcome TrainFor(int steps, const CompileOptions& options, bool compose) {
  SmallNet net;
  net.Build();
  if (compose) ComposeForward(net.graph);
  net.Train();
  const auto program = Compile(std::move(net.graph), net.store, options);
  Feed(*program);
  Outcome outcome;
  for (int i = 0; i < steps; ++i) {
    program->Run();
    outcome.losses.push_back(program->output("loss").as<float>()[0]);
  }
  for (const std::string& name : net.store.Names()) outcome.weights[name] = net.store.Values(name);
  return outcome;
}

void ExpectProgramNear(const Outcome& a, const Outcome& b, float tolerance, const std::string& what) {
  for (size_t i = 0; i < a.losses.size(); ++i)
    EXPECT_NEAR(a.losses[i], b.losses[i], tolerance * std::abs(b.losses[i])) << what;
  for (const auto& [name, values] : a.weights) {
    const std::vector<float>& others = b.weights.at(name);
    float scale = 0;
    for (const float v : others) scale = std::max(scale, std::abs(v));
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(values[i], others[i], tolerance * scale) << what << ": " << name;
  }
}

TEST(ProgramTest, LossFallsAndRunsRepeatBitForBit) {
  const Outcome first = TrainFor(8, {}, true);
  EXPECT_LT(first.losses.back(), first.losses.front());
  const Outcome second = TrainFor(8, {}, true);
  EXPECT_EQ(first.losses, second.losses);
  EXPECT_EQ(first.weights, second.weights);
}

// Two trainings by turns in one arena are those that each alone has; the second, which needs as much, has no memory of
// its own.
TEST(ProgramTest, ProgramsThatTakeTurnsShareAnArena) {
  CompileOptions options;
  options.arena = std::make_shared<SharedArena>();
  SmallNet nets[2];
  std::unique_ptr<Program> programs[2];
  for (int k = 0; k < 2; ++k) {
    nets[k].Build();
    nets[k].Train();
    programs[k] = Compile(std::move(nets[k].graph), nets[k].store, options);
    Feed(*programs[k]);
  }
  EXPECT_EQ(programs[0]->output("loss").raw(), programs[1]->output("loss").raw());
  const std::vector<float> alone = TrainFor(4, {}, false).losses;
  for (int i = 0; i < 4; ++i) {
    for (const auto& program : programs) {
      program->Run();
      EXPECT_EQ(program->output("loss").as<float>()[0], alone[static_cast<size_t>(i)]) << i;
    }
  }
}

TEST(ProgramTest, EachOptionalPassLeavesTheResultsAsTheyWere) {
  const Outcome all = TrainFor(4, {}, true);
  ExpectProgramNear(TrainFor(4, {}, false), all, 2e-4F, "without compose before autodiff");
  for (const Pass& pass : CompilePasses()) {
    if (!pass.optional) continue;
    CompileOptions options;
    options.disabled_passes = {std::string(pass.name)};
    ExpectProgramNear(TrainFor(4, options, true), all, 2e-4F, std::string(pass.name));
  }
}

// convolution + ReLU, max pooling: the gradient is masked where it is small, and is the same as without the pass.
TEST(ProgramTest, MasksOfPooledReluAreTakenAfterPooling) {
  std::vector<float> weights[2];
  for (const bool fuses : {false, true}) {
    SmallNet net;
    const ValueId x = net.graph.AddInput("x", Type(Shape{4, 3, 9, 9}));
    const GraphBuilder b(net.graph, {"l", {}, "", kNoId});
    Attributes relu = SmallNet::Geometry();
    relu.Set("activation", std::string("relu"));
    const ValueId conv = b.Add1("convolution", {x, net.Weight("l/w", Shape{16, 3, 3, 3})}, relu);
    const Attributes pooling = {
        {"kernel", Ints{3, 3}}, {"stride", Ints{2, 2}}, {"pad_begin", Ints{1, 1}}, {"pad_end", Ints{0, 0}}};
    const ValueId pool = b.Add("pool_max", {conv}, pooling)[0];
    net.loss = b.SumAll(b.Pointwise("x0*x0", {pool}));
    net.graph.AddOutput("loss", net.loss);
    net.Train();
    CompileOptions options;
    if (!fuses) options.disabled_passes = {"fuse"};
    const auto program = Compile(std::move(net.graph), net.store, options);
    RandomStream random(5, 1);
    for (float& v : program->input("x").as<float>()) v = static_cast<float>(random.Uniform(-1, 1));
    program->Run();
    weights[fuses ? 1 : 0] = net.store.Values("l/w");
    for (const StepReport& step : program->steps()) {
      const bool is_mask = step.op == "pointwise" && step.types.starts_with("float32[4,16,9,9]");
      EXPECT_FALSE(fuses && is_mask) << step.types;
    }
  }
  EXPECT_EQ(weights[0], weights[1]);
}

TEST(ProgramTest, RecomputedResultsAreTheSameBits) {
  CompileOptions options;
  options.recompute = true;
  const Outcome kept = TrainFor(4, {}, true);
  const Outcome again = TrainFor(4, options, true);
  EXPECT_EQ(again.losses, kept.losses);
  EXPECT_EQ(again.weights, kept.weights);
}

// A chain of units keeps half as much; each result is made again right before its convolution's gradient reads it.
TEST(ProgramTest, RecomputingKeepsLess) {
  int64_t arena[2] = {};
  for (const bool recompute : {false, true}) {
    SmallNet net;
    ValueId x = net.graph.AddInput("x", Type(Shape{4, 16, 32, 32}));
    for (int i = 0; i < 8; ++i) x = net.Unit(StrCat("u", i), x, 16, true);
    net.loss = GraphBuilder(net.graph, {"head", {}, "", kNoId}).SumAll(x);
    net.graph.AddOutput("loss", net.loss);
    ComposeForward(net.graph);
    net.Train();
    CompileOptions options;
    options.recompute = recompute;
    const auto program = Compile(std::move(net.graph), net.store, options);
    arena[recompute ? 1 : 0] = program->report().memory.arena_bytes;
    const auto applies =
        std::ranges::count_if(program->steps(), [](const auto& s) { return s.op == "batch_norm_apply"; });
    EXPECT_EQ(applies, recompute ? 7 : 0);
  }
  EXPECT_LT(arena[1], arena[0] * 3 / 4);
}

TEST(ProgramTest, ComposingRemovesTheNormalizedValue) {
  SmallNet net;
  net.Build();
  const auto pointwise_nodes = [&] {
    int count = 0;
    for (const NodeId id : net.graph.TopologicalOrder()) count += net.graph.node(id).op->name == "pointwise" ? 1 : 0;
    return count;
  };
  EXPECT_EQ(pointwise_nodes(), 4);
  EXPECT_TRUE(ComposeForward(net.graph));
  EXPECT_EQ(pointwise_nodes(), 0);  // the sum and its ReLU belong to the batch norm of one branch
  int fused = 0;
  for (const NodeId id : net.graph.TopologicalOrder()) {
    const Node& node = net.graph.node(id);
    if (node.op->name == "batch_norm") fused += node.inputs.size() >= 3 && node.attributes.Bool("relu") ? 1 : 0;
  }
  EXPECT_EQ(fused, 2);
  EXPECT_FALSE(ComposeForward(net.graph));  // idempotent
}

// Inference with a statistics-style affine map after each convolution.
float InferFirst(const std::set<std::string>& disabled, int* convolutions, int* others) {
  SmallNet net;
  const ValueId x = net.graph.AddInput("x", Type(Shape{2, 3, 8, 8}));
  const GraphBuilder b(net.graph, {"l", {}, "", kNoId});
  const auto unit = [&](const std::string& name, ValueId from) {
    const ValueId conv =
        b.Add1("convolution", {from, net.Weight(name + "/w", Shape{16, net.graph.shape(from)[1], 3, 3})},
               SmallNet::Geometry());
    const ValueId mean = b.Reshape(net.Weight(name + "/mean", Shape{16}), Shape{1, 16, 1, 1});
    const ValueId variance = b.Reshape(net.Weight(name + "/var", Shape{16}), Shape{1, 16, 1, 1});
    const ValueId scale = b.Reshape(net.Weight(name + "/scale", Shape{16}), Shape{1, 16, 1, 1});
    return b.Pointwise("x0*x1", {b.Pointwise("(x0-x1)/sqrt(abs(x2)+0.1)", {conv, mean, variance}), scale});
  };
  const ValueId a = b.Pointwise("max(x0,0)", {unit("a", x)});
  const ValueId c = unit("c", a);
  net.graph.AddOutput("y", b.Pointwise("max(x0+x1,0)", {a, c}));
  CompileOptions options;
  options.inference = true;
  options.disabled_passes = disabled;
  const auto program = Compile(std::move(net.graph), net.store, options);
  RandomStream random(5, 1);
  for (float& v : program->input("x").as<float>()) v = static_cast<float>(random.Uniform(-1, 1));
  program->Run();
  *convolutions = 0;
  *others = 0;
  for (const StepReport& step : program->steps()) {
    if (step.is_constant || step.kernel == "alias" || step.op == "reorder") continue;
    ++(step.op == "convolution" ? *convolutions : *others);
  }
  double sum = 0;
  for (const float v : program->output("y").as<float>()) sum += static_cast<double>(v) * static_cast<double>(v);
  return static_cast<float>(std::sqrt(sum));
}

TEST(ProgramTest, InferenceFoldsEverythingIntoConvolutions) {
  int convolutions = 0;
  int others = 0;
  const float folded = InferFirst({}, &convolutions, &others);
  EXPECT_EQ(convolutions, 2);
  EXPECT_LE(others, 1);  // the ReLU after the sum of a and c belongs to the second convolution
  const float plain = InferFirst({"fold", "fuse", "simplify"}, &convolutions, &others);
  EXPECT_NEAR(folded, plain, 1e-5F * plain);
}

TEST(ProgramTest, ConstantsFollowTheStatesOnRefresh) {
  Graph graph(StandardCatalog());
  ParameterStore store;
  store.Add("w", Shape{2});
  store.Set("w", std::vector<float>{1, 2});
  const GraphBuilder b(graph, {});
  const ValueId w = graph.AddState("w", Type(Shape{2}));
  const ValueId doubled = b.Pointwise("2*x0", {w});
  graph.AddOutput("y", b.Pointwise("x0+x1", {graph.AddInput("x", Type(Shape{2})), doubled}));
  CompileOptions options;
  options.inference = true;
  options.disabled_passes = {"fuse"};
  const auto program = Compile(std::move(graph), store, options);
  program->Run();
  EXPECT_EQ(program->output("y").as<float>()[1], 4);
  store.Set("w", std::vector<float>{10, 20});
  program->RefreshConstants();
  program->Run();
  EXPECT_EQ(program->output("y").as<float>()[1], 40);
}

TEST(ProgramTest, ReleasedStatesLeaveWhatStepsRead) {
  const auto run = [](bool releases, ParameterStore& store) {
    Graph graph(StandardCatalog());
    const GraphBuilder b(graph, {});
    std::vector<ValueId> states;
    for (const std::string name : {"folded", "read"}) {
      store.Add(name, Shape{2});
      store.Set(name, std::vector<float>{1, 2});
      states.push_back(graph.AddState(name, Type(Shape{2})));
    }
    const ValueId doubled = b.Pointwise("2*x0", {states[0]});
    const ValueId x = graph.AddInput("x", Type(Shape{2}));
    graph.AddOutput("y", b.Pointwise("x0+x1*x2", {x, doubled, states[1]}));
    CompileOptions options;
    options.inference = true;
    options.releases_states = releases;
    options.disabled_passes = {"fuse"};
    auto program = Compile(std::move(graph), store, options);
    program->Run();
    EXPECT_EQ(program->output("y").as<float>()[1], 8);
    EXPECT_FALSE(program->FindNonFinite().has_value());
    return program;
  };
  ParameterStore kept;
  run(false, kept)->RefreshConstants();
  EXPECT_EQ(kept.Names(), (std::vector<std::string>{"folded", "read"}));
  ParameterStore released;
  const auto program = run(true, released);
  EXPECT_EQ(released.Names(), (std::vector<std::string>{"read"}));
  EXPECT_THROW(program->RefreshConstants(), Error);
}

TEST(ProgramTest, StatesThatSwapAreCopiedNotOverwritten) {
  Graph graph(StandardCatalog());
  ParameterStore store;
  for (const std::string name : {"a", "b"}) store.Add(name, Shape{2});
  store.Set("a", std::vector<float>{1, 2});
  store.Set("b", std::vector<float>{30, 40});
  const GraphBuilder builder(graph, {});
  const ValueId a = graph.AddState("a", Type(Shape{2}));
  const ValueId b = graph.AddState("b", Type(Shape{2}));
  graph.Assign(a, builder.Pointwise("x0+1", {b}));
  graph.Assign(b, builder.Pointwise("x0+2", {a}));
  const auto program = Compile(std::move(graph), store, {});
  program->Run();
  EXPECT_EQ(store.Values("a"), (std::vector<float>{31, 41}));
  EXPECT_EQ(store.Values("b"), (std::vector<float>{3, 4}));
}

TEST(ProgramTest, HasTheInputsAndOutputsOfItsGraph) {
  Graph graph(StandardCatalog());
  ParameterStore store;
  const GraphBuilder builder(graph, {"l", {}, "", kNoId});
  graph.AddOutput("y", builder.Pointwise("x0*2", {graph.AddInput("x", Type(Shape{2}))}));
  const auto program = Compile(std::move(graph), store, {});
  EXPECT_TRUE(program->HasInput("x"));
  EXPECT_FALSE(program->HasInput("y"));
  EXPECT_TRUE(HasOutput(*program, "y"));
  EXPECT_FALSE(HasOutput(*program, "x"));
}

TEST(ProgramTest, ReadersOfTheOldValueComeFirst) {
  Graph graph(StandardCatalog());
  ParameterStore store;
  store.Add("w", Shape{4});
  store.Set("w", std::vector<float>{1, 2, 3, 4});
  const GraphBuilder early(graph, {"writer", {}, "update", kNoId});
  const ValueId w = graph.AddState("w", Type(Shape{4}));
  graph.Assign(w, early.Pointwise("x0*10", {w}));
  const GraphBuilder late(graph, {"reader", {}, "", kNoId});
  graph.AddOutput("sum", late.SumAll(late.Pointwise("x0*x0", {w})));
  const auto program = Compile(std::move(graph), store, {});
  program->Run();
  EXPECT_EQ(program->output("sum").as<float>()[0], 30);
  EXPECT_EQ(store.Values("w"), (std::vector<float>{10, 20, 30, 40}));
}

// The weights' gradient towards the input wants them packed otherwise than the forward pass: the update writes both,
// and no reorder is left. (Where convolutions read one layout there is neither a mirror nor a reorder.)
TEST(ProgramTest, UpdatesWriteTheMirrorsOfWeights) {
  SmallNet net;
  net.Build();
  ComposeForward(net.graph);
  net.Train();
  const auto program = Compile(std::move(net.graph), net.store, {});
  for (const StepReport& step : program->steps()) EXPECT_FALSE(step.op == "reorder" && step.layer == "c") << step.types;
  const std::vector<std::string> names = net.store.Names();
  const auto expect_equal = [&] {
    for (const std::string& mirror : net.store.claims("c/w").mirrors) {
      EXPECT_EQ(net.store.Values(mirror), net.store.Values("c/w"));
      EXPECT_NE(net.store.type(mirror).layout, net.store.type("c/w").layout);
      EXPECT_EQ(std::count(names.begin(), names.end(), mirror), 0);
    }
  };
  expect_equal();
  Feed(*program);
  const std::vector<float> before = net.store.Values("c/w");
  program->Run();
  EXPECT_NE(net.store.Values("c/w"), before);
  expect_equal();
  net.store.Set("c/w", before);
  expect_equal();
}

TEST(ProgramTest, WhatAssignsAStateAssignsItsMirrors) {
  ParameterStore store;
  store.Add("w", Shape{2, 3});
  store.Set("w", std::vector<float>{1, 2, 3, 4, 5, 6});
  store.AddMirror("w@ba", "w", {DType::kFloat32, store.type("w").shape, Layout::Parse("ba")});
  Graph graph(StandardCatalog());
  const ValueId w = graph.AddState("w", Type(Shape{2, 3}));
  graph.Assign(w, GraphBuilder(graph, {"later", {}, "update", kNoId}).Pointwise("x0*2", {w}));
  const auto program = Compile(std::move(graph), store, {});
  program->Run();
  EXPECT_EQ(store.Values("w"), (std::vector<float>{2, 4, 6, 8, 10, 12}));
  EXPECT_EQ(store.Values("w@ba"), store.Values("w"));
  EXPECT_EQ(store.tensor("w@ba").as<float>()[1], 8);  // column by column
}

TEST(ProgramTest, TheFirstNonFiniteValueIsNamed) {
  Graph graph(StandardCatalog());
  ParameterStore store;
  const ValueId x = graph.AddInput("x", Type(Shape{3}));
  const ValueId good = GraphBuilder(graph, {"fine", {}, "", kNoId}).Pointwise("x0+1", {x});
  const ValueId bad = GraphBuilder(graph, {"culprit", {}, "", kNoId}).Pointwise("log(x0)", {good});
  graph.AddOutput("good", good);
  graph.AddOutput("y", GraphBuilder(graph, {"later", {}, "", kNoId}).SumAll(bad));
  CompileOptions options;
  options.disabled_passes = {"fuse"};
  const auto program = Compile(std::move(graph), store, options);
  program->input("x").as<float>()[2] = -1;  // log(0)
  program->Run();
  const auto found = program->FindNonFinite();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->layer, "culprit");
  EXPECT_EQ(found->index, 2);
  EXPECT_TRUE(std::isinf(found->value));
}

TEST(ProgramTest, TooMuchMemoryIsRefusedWithTheLargestValues) {
  Graph graph(StandardCatalog());
  ParameterStore store;
  const GraphBuilder b(graph, {"big", {}, "", kNoId});
  graph.AddOutput("y", b.SumAll(b.Pointwise("exp(x0)", {graph.AddInput("x", Type(Shape{1 << 20}))})));
  CompileOptions options;
  options.memory_limit_bytes = 1 << 20;
  try {
    Compile(std::move(graph), store, options);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
    EXPECT_NE(std::string(error.what()).find("the limit is 1.00 MiB"), std::string::npos) << error.what();
  }
}

TEST(ProgramTest, UnknownAndNeededPassesCannotBeDisabled) {
  for (const auto& [name, text] :
       std::map<std::string, std::string>{{"fusee", "did you mean \"fuse\"?"}, {"layout", "cannot be disabled"}}) {
    Graph graph(StandardCatalog());
    ParameterStore store;
    CompileOptions options;
    options.disabled_passes = {name};
    try {
      Compile(std::move(graph), store, options);
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  }
}

TEST(ProgramTest, PlannedMemoryIsNearItsBound) {
  SmallNet net;
  net.Build();
  ComposeForward(net.graph);
  net.Train();
  const auto program = Compile(std::move(net.graph), net.store, {});
  EXPECT_GE(program->report().memory.arena_bytes, program->report().memory.bound_bytes);
  EXPECT_LE(static_cast<double>(program->report().memory.arena_bytes),
            1.25 * static_cast<double>(program->report().memory.bound_bytes));
}

TEST(LayerNames, AreFoundWholeWhateverTheyAre) {
  Graph graph(StandardCatalog());
  const TensorType type{DType::kFloat32, Shape{2}, {}};
  const ValueId x = graph.AddInput("x", type);
  const ValueId own = graph.AddState("inception_3a/1x1/0", type);
  const ValueId shared = graph.AddState("shared/w", type);
  const ValueId slot = graph.AddState("inception_3a/1x1/0/@history", type);
  const ValueId lost = graph.AddState("lost/0", type);
  const std::string joined = JoinedLayers("branch+a", "inception_3a/1x1");
  const ValueId y = GraphBuilder(graph, NodeOrigin{joined, {}, ""}).Pointwise("x0*x1", {x, own});
  const ValueId z = GraphBuilder(graph, NodeOrigin{"b c", {}, ""}).Pointwise("x0+x1", {y, shared});
  graph.AddOutput("z", z);
  EXPECT_EQ(LayerOfState(graph, own), "inception_3a/1x1");
  EXPECT_EQ(LayerOfState(graph, shared), "b c");
  EXPECT_EQ(LayerOfState(graph, slot), "inception_3a/1x1");
  EXPECT_EQ(LayerOfState(graph, lost), "");
  const NodeOrigin& origin = graph.node(graph.value(y).producer).origin;
  EXPECT_EQ(LayersOf(origin.layer), (std::vector<std::string>{"branch+a", "inception_3a/1x1"}));
  EXPECT_EQ(LayersText(origin.layer), "branch+a+inception_3a/1x1");
}

}  // namespace
}  // namespace moka
