// The list of passes that makes a training step, by what the solver asks for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "comm/transport/thread_ranks.h"
#include "core/error.h"
#include "optim/checkpoint/net_weights.h"
#include "optim/step/training_graph.h"
#include "proto/nets/net_file.h"

namespace moka {
namespace {

using Names = std::vector<std::string_view>;

const Names kForward = {"keep other statistics",  "name outputs",   "compose",
                        "share subsamples",       "scale the loss", "differentiate",
                        "decay unreached weights"};

// Returns the passes that stand behind those that every step without stages begins with.
Names BehindForward(const TrainingSpec& spec) {
  Names names;
  for (const TrainingPass& pass : PassesOf(spec)) names.push_back(pass.name);
  for (size_t i = 0; i < kForward.size(); ++i) EXPECT_EQ(names.at(i), kForward[i]);
  return {names.begin() + static_cast<std::ptrdiff_t>(kForward.size()), names.end()};
}

TEST(TrainingPassesTest, OneRankGuardsAndUpdatesInTheBatchsProgram) {
  SolverParameter solver;
  const NetParameter net;
  EXPECT_EQ(BehindForward({.solver = solver, .param = net}), (Names{"guard", "update", "keep states"}));
  solver.set_ema_decay(0.9F);
  EXPECT_EQ(BehindForward({.solver = solver, .param = net}),
            (Names{"guard", "update", "mean statistics", "keep states"}));
}

TEST(TrainingPassesTest, SeveralBatchesAreAddedUpAndUpdateInAProgramOfItsOwn) {
  SolverParameter solver;
  solver.set_iter_size(2);
  const NetParameter net;
  EXPECT_EQ(BehindForward({.solver = solver, .param = net}),
            (Names{"guard statistics", "accumulate", "update apart", "keep states"}));
  solver.set_ema_decay(0.9F);
  EXPECT_EQ(BehindForward({.solver = solver, .param = net}),
            (Names{"guard statistics", "accumulate", "update apart", "mean statistics", "keep states"}));
}

TEST(TrainingPassesTest, StagesAreCutWithoutComposingAcrossThem) {
  SolverParameter solver;
  solver.set_iter_size(4);
  const NetParameter net;
  const std::map<std::string, int> of_layer;
  TrainingSpec spec{.solver = solver, .param = net};
  spec.stages.emplace(StepStages{.of_layer = of_layer, .own = 0, .count = 2});
  Names names;
  for (const TrainingPass& pass : PassesOf(spec)) names.push_back(pass.name);
  EXPECT_EQ(names, (Names{"keep other statistics", "name outputs", "share subsamples", "prepare stages",
                          "differentiate", "decay unreached weights", "accumulate", "cut into stages", "keep states"}));
}

TEST(TrainingPassesTest, RanksAddWhatTheirStrategyAsksFor) {
  std::vector<std::unique_ptr<Communicator>> ranks = MakeThreadRanks(2);
  RunRanks(ranks, [](Communicator& world) {
    SolverParameter solver;
    const NetParameter net;
    GradientExchange exchange(world);
    const StepRanks summing{.world = &world, .exchange = &exchange};
    EXPECT_EQ(BehindForward({.solver = solver, .param = net, .ranks = summing}),
              (Names{"choose compression", "sum over ranks", "guard", "update", "keep states"}));
    StepRanks sharded = summing;
    sharded.shards_updates = true;
    EXPECT_EQ(BehindForward({.solver = solver, .param = net, .ranks = sharded}),
              (Names{"choose compression", "sum over ranks", "shard updates", "guard", "update", "gather from owners",
                     "keep states"}));
    EXPECT_EQ(BehindForward({.solver = solver, .param = net, .ranks = {.world = &world, .kind = StrategyKind::kLocal}}),
              (Names{"choose compression", "guard", "update", "keep states"}));
    EXPECT_EQ(
        BehindForward({.solver = solver, .param = net, .ranks = {.world = &world, .kind = StrategyKind::kServed}}),
        (Names{"choose compression", "guard statistics", "accumulate", "update on servers", "keep states"}));
    solver.mutable_distributed()->set_delay(1);
    StepRanks delayed = summing;
    delayed.kind = StrategyKind::kDelayed;
    EXPECT_EQ(BehindForward({.solver = solver, .param = net, .ranks = delayed}),
              (Names{"choose compression", "sum over ranks", "guard", "update", "keep states", "keep waiting sums"}));
  });
}

TEST(TrainingGraphTest, TheStoreComesToHaveTheSlotsAndTheGraphItsOutputs) {
  NetOptions options;
  options.state.set_phase(TRAIN);
  BuiltNet net = BuildNet(
      NetFromText("name: \"small\" input: \"x\" input_shape { dim: 2 dim: 3 } input: \"y\" input_shape { dim: 2 }\n"
                  "layer { name: \"ip\" type: \"InnerProduct\" bottom: \"x\" top: \"ip\" "
                  "inner_product_param { num_output: 4 weight_filler { type: \"xavier\" } } }\n"
                  "layer { name: \"loss\" type: \"SoftmaxWithLoss\" bottom: \"ip\" bottom: \"y\" top: \"loss\" }\n",
                  "net.prototxt"),
      options);
  ParameterStore store;
  AddBlobs(net.blobs, 1, store);
  SolverParameter solver;
  solver.set_base_lr(0.1F);
  solver.set_lr_policy("fixed");
  solver.set_momentum(0.9F);
  const TrainingSpec spec{.solver = solver, .param = net.param, .scaling = {.scale = 8, .is_dynamic = true}};
  const TrainingGraph step = BuildTrainingGraph(net, spec, store);
  EXPECT_EQ(step.trained.size(), 2U);
  EXPECT_EQ(step.reached.size(), 2U);
  EXPECT_THAT(step.updates.inputs, testing::ElementsAre("lr"));
  std::vector<std::string> slots;
  for (const SlotState& slot : step.updates.slots) {
    slots.push_back(slot.name);
    EXPECT_TRUE(store.Has(slot.name)) << slot.name;
  }
  EXPECT_THAT(slots, testing::Contains("ip/0/@history"));
  EXPECT_THAT(slots, testing::Contains(std::string(kLossScaleState)));
  std::vector<std::string> outputs;
  for (const GraphOutput& output : net.graph.outputs()) outputs.push_back(output.name);
  EXPECT_THAT(outputs, testing::Contains("loss"));
  EXPECT_THAT(outputs, testing::Contains(std::string(kLossOutput)));
}

TEST(TrainingGraphTest, ANetWithoutALossIsRefused) {
  NetOptions options;
  options.state.set_phase(TRAIN);
  BuiltNet net = BuildNet(NetFromText("name: \"mute\" input: \"x\" input_shape { dim: 2 dim: 3 }\n"
                                      "layer { name: \"ip\" type: \"InnerProduct\" bottom: \"x\" top: \"ip\" "
                                      "inner_product_param { num_output: 4 } }\n",
                                      "net.prototxt"),
                          options);
  ParameterStore store;
  AddBlobs(net.blobs, 1, store);
  const SolverParameter solver;
  try {
    BuildTrainingGraph(net, {.solver = solver, .param = net.param}, store);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kConfig);
    EXPECT_EQ(error.text(), "the train net \"mute\" has no loss, so there is nothing to train it by");
  }
}

}  // namespace
}  // namespace moka
