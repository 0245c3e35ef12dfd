// Optimisers' steps against the goldens of tests/golden/solvers.json, by the references of the ops.
#include "optim/optimizers/update.h"

#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "graph/interpreter.h"
#include "layers/net/catalog.h"
#include "optim_fixture.h"

namespace moka {
namespace {

using Values = std::vector<double>;

// Runs a graph's updates with the ops' references in double: the states go through one step at a time.
class Stepper {
 public:
  explicit Stepper(Graph graph) : graph_(std::move(graph)) {
    for (ValueId id = 0; id < graph_.value_count(); ++id) {
      const Value& value = graph_.value(id);
      if (value.kind == ValueKind::kResult) continue;
      fed_[id] = {value.type, Values(static_cast<size_t>(value.type.shape.Count()))};
    }
  }
  void Set(const std::string& name, Values values) { fed_.at(Id(name)).values = std::move(values); }
  const Values& Get(const std::string& name) const { return fed_.at(Id(name)).values; }
  bool Has(const std::string& name) const { return Find(name) != kNoId; }
  void Run() {
    std::vector<ValueId> wanted;
    for (const Assignment& a : graph_.assignments()) wanted.push_back(a.value);
    const std::vector<RefTensor> results = Interpret(graph_, fed_, wanted);
    for (size_t i = 0; i < wanted.size(); ++i) fed_.at(graph_.assignments()[i].state).values = results[i].values;
  }
  const Graph& graph() const { return graph_; }

 private:
  ValueId Find(const std::string& name) const {
    for (const auto& [id, tensor] : fed_) {
      if (graph_.value(id).name == name) return id;
    }
    return kNoId;
  }
  ValueId Id(const std::string& name) const {
    const ValueId id = Find(name);
    EXPECT_NE(id, kNoId) << name;
    return id;
  }

  Graph graph_;
  std::map<ValueId, RefTensor> fed_;
};

// Blobs as states and their gradients as inputs "d/NAME" of a graph.
struct Setting {
  Graph graph{StandardCatalog()};
  UpdateSpec spec;
  explicit Setting(std::vector<NetBlob> blobs) {
    for (NetBlob& blob : blobs) {
      const TensorType type{DType::kFloat32, blob.shape, {}};
      blob.state = graph.AddState(blob.name, type);
      spec.gradients.push_back(graph.AddInput("d/" + blob.name, type));
    }
    spec.blobs = std::move(blobs);
  }
};

struct GoldenNet {
  std::vector<NetBlob> blobs;
  std::vector<Values> start;
};

GoldenNet ReadGoldenNet(const nlohmann::json& goldens) {
  GoldenNet net;
  for (const auto& parameter : goldens.at("parameters")) {
    net.start.push_back(parameter.at("start").get<Values>());
    NetBlob blob = Blob(parameter.at("name").get<std::string>(), 0, {static_cast<int64_t>(net.start.back().size())});
    blob.name = blob.layer;
    blob.lr_mult = parameter.at("lr_mult").get<double>();
    blob.decay_mult = parameter.at("decay_mult").get<double>();
    if (parameter.at("role") == "bias") blob.role = ParameterRole::kBias;
    net.blobs.push_back(blob);
  }
  return net;
}

nlohmann::json Goldens() { return nlohmann::json::parse(ReadFile(MOKA_SOURCE_DIR "/tests/golden/solvers.json")); }

// Steps of a solver over the goldens' gradients, one graph or, with iter_size > 1, two.
void CheckGolden(const nlohmann::json& goldens, const nlohmann::json& golden) {
  SCOPED_TRACE(golden.at("name").get<std::string>());
  const SolverParameter solver = Solver(golden.at("solver").get<std::string>());
  CheckOptimizer(solver);
  const GoldenNet net = ReadGoldenNet(goldens);
  Updates updates;
  Setting setting(net.blobs);
  std::optional<Stepper> adding;
  std::optional<Stepper> step;
  const bool is_split = solver.iter_size() > 1;
  if (is_split) {
    AddAccumulation(setting.graph, setting.spec.blobs, setting.spec.gradients);
    adding.emplace(setting.graph);
    UpdateGraph built = BuildUpdateGraph(StandardCatalog(), solver, net.blobs);
    updates = built.updates;
    step.emplace(built.graph);
  } else {
    setting.spec.solver = &solver;
    updates = AddUpdates(setting.graph, setting.spec);
    step.emplace(setting.graph);
  }
  for (size_t p = 0; p < net.blobs.size(); ++p) step->Set(net.blobs[p].name, net.start[p]);
  for (size_t s = 0; s < goldens.at("gradients").size(); ++s) {
    for (const std::string& name : updates.inputs) {
      step->Set(name, {UpdateInput(solver, name, static_cast<int64_t>(s))});
    }
    for (size_t p = 0; p < net.blobs.size(); ++p) {
      const auto gradient = goldens.at("gradients")[s][p].get<Values>();
      (is_split ? *adding : *step).Set("d/" + net.blobs[p].name, gradient);
    }
    for (int i = 0; is_split && i < solver.iter_size(); ++i) adding->Run();
    for (const NetBlob& blob : net.blobs) {
      const std::string sum = SlotName(blob.name, kSumSlot);
      if (!is_split) continue;
      step->Set(sum, adding->Get(sum));
    }
    step->Run();
    for (size_t p = 0; p < net.blobs.size(); ++p) {
      const auto expected = golden.at("weights")[s][p].get<Values>();
      const Values& found = step->Get(net.blobs[p].name);
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(found[i], expected[i], 1e-12 * std::max(1.0, std::abs(expected[i]))) << "step " << s << " of " << p;
      }
      if (!is_split) continue;
      EXPECT_EQ(step->Get(SlotName(net.blobs[p].name, kSumSlot)), Values(expected.size(), 0.0));
      adding->Set(SlotName(net.blobs[p].name, kSumSlot), Values(expected.size(), 0.0));
    }
  }
}

TEST(UpdateTest, EveryOptimizerMatchesTheGoldens) {
  const nlohmann::json goldens = Goldens();
  ASSERT_GE(goldens.at("cases").size(), 46U);
  for (const auto& golden : goldens.at("cases")) CheckGolden(goldens, golden);
}

// One parameter of two values with gradient (3, 4), after a step of SGD.
Values OneStep(const std::string& solver_text, double guard, NetBlob blob = Blob("w", 0, {2})) {
  const SolverParameter solver = Solver("base_lr: 1 lr_policy: \"fixed\" " + solver_text);
  Setting setting({blob});
  setting.spec.solver = &solver;
  setting.spec.guard = setting.graph.AddInput("loss", {DType::kFloat32, Shape{}, {}});
  AddUpdates(setting.graph, setting.spec);
  Stepper stepper(setting.graph);
  stepper.Set(blob.name, {1, 2});
  stepper.Set("d/" + blob.name, {3, 4});
  stepper.Set("lr", {1});
  stepper.Set("loss", {guard});
  if (stepper.Has("ema_decay")) stepper.Set("ema_decay", {0.5});
  stepper.Run();
  Values values = stepper.Get(blob.name);
  for (const char* slot : {"history", "ema"}) {
    if (!stepper.Has(SlotName(blob.name, slot))) continue;
    const Values& more = stepper.Get(SlotName(blob.name, slot));
    values.insert(values.end(), more.begin(), more.end());
  }
  return values;
}

TEST(UpdateTest, APlainStepIsByHand) { EXPECT_EQ(OneStep("momentum: 0.5", 1), (Values{-2, -2, 3, 4})); }

TEST(UpdateTest, ANonFiniteLossLeavesEveryState) {
  for (const double loss : {std::nan(""), std::numeric_limits<double>::infinity(), -3.4e38}) {
    EXPECT_EQ(OneStep("momentum: 0.5 ema_decay: 0.5", loss), (Values{1, 2, 0, 0, 0, 0})) << loss;
  }
}

TEST(UpdateTest, ClippingScalesToTheLimit) {
  EXPECT_EQ(OneStep("clip_gradients: 2.5", 1), (Values{1 - 1.5, 2 - 2.0}));
  EXPECT_EQ(OneStep("clip_gradients: 5", 1), (Values{-2, -2}));
}

TEST(UpdateTest, TheMeanFollowsTheNewWeight) {
  EXPECT_EQ(OneStep("ema_decay: 0.9", 1), (Values{-2, -2, 0.5 * -2, 0.5 * -2}));
}

TEST(UpdateTest, BiasAndNormAreSparedDecayWhenTheSolverSaysSo) {
  const std::string decay = "weight_decay: 0.5 ";
  EXPECT_EQ(OneStep(decay, 1, Blob("w", 1, {2}, ParameterRole::kBias)), (Values{-2.5, -3}));
  EXPECT_EQ(OneStep(decay + "decay_skip_bias_and_norm: true", 1, Blob("w", 1, {2}, ParameterRole::kBias)),
            (Values{-2, -2}));
  EXPECT_EQ(OneStep(decay + "decay_skip_bias_and_norm: true", 1), (Values{-2.5, -3}));
}

// |w| = sqrt(5), |g| = 5; one step from (1, 2) with gradient (3, 4).
TEST(UpdateTest, LayerwiseRatesSpareBiasAndNormWhenTheSolverSaysSo) {
  const double w = std::sqrt(5.0);
  struct Form {
    std::string solver;
    double local;  // what the rate is multiplied by where nothing is spared
  };
  for (const auto& [solver, local] :
       {Form{"larc: true larc_eta: 0.5", 0.5 * w / 5}, Form{"larc: true larc_policy: \"clip\" larc_eta: 2", 2 * w / 5},
        Form{"local_lr_auto: true local_gw_ratio: 0.5", 0.5 * w / 5},
        Form{"type: \"LARS\" lars_eta: 0.5", 0.5 * w / 5}}) {
    SCOPED_TRACE(solver);
    const auto first = [](const Values& values) { return std::pair(values[0], values[1]); };
    for (const ParameterRole role : {ParameterRole::kBias, ParameterRole::kNorm}) {
      EXPECT_EQ(first(OneStep(solver + " decay_skip_bias_and_norm: true", 1, Blob("w", 1, {2}, role))),
                std::pair(-2.0, -2.0));
    }
    for (const bool is_weight : {true, false}) {
      const ParameterRole role = is_weight ? ParameterRole::kWeight : ParameterRole::kBias;
      const auto [a, b] = first(OneStep(StrCat(solver, " decay_skip_bias_and_norm: ", is_weight ? "true" : "false"), 1,
                                        Blob("w", 0, {2}, role)));
      EXPECT_NEAR(a, 1 - local * 3, 1e-6);
      EXPECT_NEAR(b, 2 - local * 4, 1e-6);
    }
  }
}

TEST(UpdateTest, ASparedParameterKeepsItsMultiplierOfTheRate) {
  NetBlob bias = Blob("w", 1, {2}, ParameterRole::kBias);
  bias.lr_mult = 2;
  EXPECT_EQ(OneStep("larc: true decay_skip_bias_and_norm: true", 1, bias), (Values{1 - 6, 2 - 8}));
}

TEST(UpdateTest, OnlyOwnTrainableBlobsAreTrainedOnce) {
  NetBlob shared = Blob("b", 0, {2});
  shared.name = "a/0";
  shared.shared = true;
  NetBlob frozen = Blob("c", 0, {2});
  frozen.lr_mult = 0;
  const std::vector<NetBlob> blobs = {Blob("a", 0, {2}), shared, frozen, Blob("bn", 0, {2}, ParameterRole::kStatistic)};
  const std::vector<NetBlob> trained = TrainedBlobs(blobs);
  ASSERT_EQ(trained.size(), 1U);
  EXPECT_EQ(trained[0].name, "a/0");
}

TEST(UpdateTest, AParameterIsOneNodeAndUnreachedOnesAreLeftAlone) {
  const SolverParameter solver = Solver("base_lr: 1 lr_policy: \"fixed\" momentum: 0.9 weight_decay: 0.1");
  Setting setting({Blob("a", 0, {2, 3}), Blob("b", 0, {4})});
  setting.spec.solver = &solver;
  setting.spec.gradients[1] = kNoId;
  const Updates updates = AddUpdates(setting.graph, setting.spec);
  EXPECT_EQ(setting.graph.node_count(), 1);
  ASSERT_EQ(updates.slots.size(), 1U);
  EXPECT_EQ(updates.slots[0].name, "a/0/@history");
  EXPECT_EQ(updates.inputs, std::vector<std::string>{"lr"});
}

TEST(UpdateTest, RunningStatisticsAreGuarded) {
  Graph graph(StandardCatalog());
  const ValueId state = graph.AddState("bn/0", {DType::kFloat32, {2}, {}});
  const ValueId next = graph.AddInput("next", {DType::kFloat32, {2}, {}});
  graph.Assign(state, next);
  GuardAssignments(graph, graph.AddInput("loss", {DType::kFloat32, Shape{}, {}}));
  Stepper stepper(graph);
  stepper.Set("bn/0", {1, 2});
  stepper.Set("next", {5, 6});
  stepper.Set("loss", {std::nan("")});
  stepper.Run();
  EXPECT_EQ(stepper.Get("bn/0"), (Values{1, 2}));
  stepper.Set("loss", {1});
  stepper.Run();
  EXPECT_EQ(stepper.Get("bn/0"), (Values{5, 6}));
}

TEST(UpdateTest, InputsAreFunctionsOfTheIteration) {
  const SolverParameter solver = Solver("base_lr: 1 lr_policy: \"fixed\" momentum: 0.5 momentum2: 0.75 ema_decay: 0.5");
  EXPECT_DOUBLE_EQ(UpdateInput(solver, "lr", 7), 1);
  EXPECT_DOUBLE_EQ(UpdateInput(solver, "bias1", 1), 0.75);
  EXPECT_DOUBLE_EQ(UpdateInput(solver, "bias2", 0), 0.25);
  EXPECT_DOUBLE_EQ(UpdateInput(solver, "ema_decay", 0), 0.1);
  EXPECT_DOUBLE_EQ(UpdateInput(solver, "ema_decay", 1000), 0.5);
}

TEST(UpdateTest, MistakesAreNamed) {
  const auto error = [](const std::string& text) {
    const SolverParameter solver = Solver(text);
    const Caught caught = ErrorOf([&] { CheckOptimizer(solver); });
    EXPECT_EQ(caught.kind, ErrorKind::kConfig);
    return caught.text;
  };
  EXPECT_THAT(error("type: \"Adan\""),
              testing::AllOf(testing::HasSubstr("unknown solver type \"Adan\""), testing::HasSubstr("\"Adam\"")));
  EXPECT_THAT(error("type: \"AdaGrad\" momentum: 0.9"), testing::HasSubstr("AdaGrad has no momentum"));
  EXPECT_THAT(error("type: \"RMSProp\" momentum: 0.9"), testing::HasSubstr("RMSProp has no momentum"));
  EXPECT_THAT(error("momentum: 1"), testing::HasSubstr("momentum must be at least 0 and below 1"));
  EXPECT_THAT(error("weight_decay: -1"), testing::HasSubstr("weight_decay must be"));
  EXPECT_THAT(error("regularization_type: \"L3\""), testing::HasSubstr("known are L1, L2"));
  EXPECT_THAT(error("type: \"AdamW\" regularization_type: \"L1\""), testing::HasSubstr("AdamW knows only"));
  EXPECT_THAT(error("iter_size: 0"), testing::HasSubstr("iter_size must be at least 1"));
  EXPECT_THAT(error("ema_decay: 1"), testing::HasSubstr("ema_decay must be"));
}

}  // namespace
}  // namespace moka
