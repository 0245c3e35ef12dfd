// Alternating training: each turn trains its own layers through the others, in Caffe's order of operations, by the
// numbers worked out here; rounds resume bit for bit; what does not go together is refused by name.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "core/file.h"
#include "data/image/image.h"
#include "optim/step/train_turns.h"
#include "optim/step/turn_scope.h"
#include "trainer_fixture.h"

namespace moka {
namespace {

// A critic w * x of one weight and a generator of one number: the constant 2 is real.
constexpr const char* kScalarNet = R"(name: "scalars"
layer { name: "one" type: "DummyData" top: "one" dummy_data_param { shape { dim: 4 dim: 1 }
  data_filler { type: "constant" value: 1 } } }
layer { name: "two" type: "DummyData" top: "two" include { stage: "critic" } dummy_data_param { shape { dim: 4 dim: 1 }
  data_filler { type: "constant" value: 2 } } }
layer { name: "g" type: "InnerProduct" bottom: "one" top: "made" inner_product_param { num_output: 1 bias_term: false
  weight_filler { type: "constant" value: 0.5 } } }
layer { name: "d_real" type: "InnerProduct" bottom: "two" top: "score_real" param { name: "w" }
  include { stage: "critic" } inner_product_param { num_output: 1 bias_term: false
  weight_filler { type: "constant" value: 0.25 } } }
layer { name: "d_made" type: "InnerProduct" bottom: "made" top: "score_made" param { name: "w" }
  inner_product_param { num_output: 1 bias_term: false weight_filler { type: "constant" value: 0.25 } } }
layer { name: "loss_real" type: "GanLoss" bottom: "score_real" top: "loss_real" include { stage: "critic" }
  gan_loss_param { kind: WASSERSTEIN side: REAL } }
layer { name: "loss_made" type: "GanLoss" bottom: "score_made" top: "loss_made" include { stage: "critic" }
  gan_loss_param { kind: WASSERSTEIN side: FAKE } }
layer { name: "loss" type: "GanLoss" bottom: "score_made" top: "loss" include { stage: "generator" }
  gan_loss_param { kind: WASSERSTEIN side: GENERATOR } }
)";

// Small pictures, with all that has a memory: batch norms, draws, Adam's moments.
constexpr const char* kPictureNet = R"(name: "pictures"
layer { name: "data" type: "DummyData" top: "data" include { stage: "critic" } dummy_data_param {
  shape { dim: 8 dim: 1 dim: 4 dim: 4 } data_filler { type: "gaussian" std: 0.5 } } }
layer { name: "z" type: "RandomNoise" top: "z" random_noise_param { shape { dim: 8 dim: 3 } distribution: NORMAL } }
layer { name: "g_fc" type: "InnerProduct" bottom: "z" top: "g1" inner_product_param { num_output: 16
  weight_filler { type: "xavier" } } }
layer { name: "g_bn" type: "BatchNorm" bottom: "g1" top: "g1" batch_norm_param { scale_bias: true } }
layer { name: "g_map" type: "Reshape" bottom: "g1" top: "g2" reshape_param { shape { dim: 0 dim: 1 dim: 4 dim: 4 } } }
layer { name: "made" type: "TanH" bottom: "g2" top: "made" }
layer { name: "drawn" type: "Silence" bottom: "made" include { phase: TEST } }
layer { name: "both" type: "Concat" bottom: "data" bottom: "made" top: "pictures" concat_param { axis: 0 }
  include { stage: "critic" } }
layer { name: "alone" type: "Split" bottom: "made" top: "pictures" include { stage: "generator" } }
layer { name: "d_conv" type: "Convolution" bottom: "pictures" top: "d1" include { phase: TRAIN } spectral_norm_param {}
  convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "d_bn" type: "BatchNorm" bottom: "d1" top: "d1" include { phase: TRAIN } }
layer { name: "drop" type: "Dropout" bottom: "d1" top: "d1" include { phase: TRAIN } }
layer { name: "d_fc" type: "InnerProduct" bottom: "d1" top: "score" include { phase: TRAIN } inner_product_param {
  num_output: 1 weight_filler { type: "xavier" } } }
layer { name: "apart" type: "Slice" bottom: "score" top: "real" top: "fake" slice_param { axis: 0 }
  include { stage: "critic" } }
layer { name: "loss_real" type: "GanLoss" bottom: "real" top: "loss_real" include { stage: "critic" }
  gan_loss_param { kind: HINGE side: REAL } }
layer { name: "loss_made" type: "GanLoss" bottom: "fake" top: "loss_made" include { stage: "critic" }
  gan_loss_param { kind: HINGE side: FAKE } }
layer { name: "loss" type: "GanLoss" bottom: "score" top: "loss" include { stage: "generator" }
  gan_loss_param { kind: HINGE side: GENERATOR } }
)";

constexpr const char* kTurns =
    " turn { name: \"critic\" stage: \"critic\" train: \"d_*\" } turn { name: \"generator\" stage: \"generator\" "
    "train: "
    "\"g*\" } ";

class TurnsTest : public FolderTest {
 protected:
  std::unique_ptr<Trainer> MakeTurns(const std::string& net, const std::string& solver_text,
                                     TrainerOptions options = {}) {
    WriteFileAtomically(At("net.prototxt"), net);
    const std::string text = StrCat("net: \"", At("net.prototxt").string(), "\" lr_policy: \"fixed\" random_seed: 5 ",
                                    "average_loss: 1 ", solver_text);
    const SolverParameter solver = SolverFromText(text, "solver.prototxt");
    return std::make_unique<Trainer>(solver, ReadSolverNets(solver), std::move(options));
  }
  RunFolder PictureRun() const {
    return RunFolder::Create(At("runs"), {.name = "turns", .argv = {"test"}, .version = "0", .seed = 5});
  }
  static std::map<std::string, std::vector<float>> AllStates(const Trainer& trainer) {
    std::map<std::string, std::vector<float>> values;
    for (const std::string& name : trainer.store().Names()) values[name] = trainer.store().Values(name);
    return values;
  }
};

// The critic: dL/dw = made - 2, two steps a round, clipped to 0.3; the generator: dL/dg = -w.
TEST_F(TurnsTest, RoundsAreWhatTheirSolverSays) {
  const auto trainer = MakeTurns(kScalarNet,
                                 "base_lr: 0.01 max_iter: 3 turn { name: \"critic\" stage: \"critic\" train: \"d_*\" "
                                 "steps: 2 clip_weights: 0.3 base_lr: 0.02 } turn { name: \"generator\" stage: "
                                 "\"generator\" train: \"g\" }");
  double w = 0.25;
  double g = 0.5;
  double loss = 0;
  for (int round = 0; round < 3; ++round) {
    loss = 0;
    for (int step = 0; step < 2; ++step) {
      loss += (w * g - w * 2) / 2;
      w = std::min(w - 0.02 * (g - 2), 0.3);
    }
    loss -= w * g;
    g += 0.01 * w;
  }
  const TrainResult result = trainer->Run();
  EXPECT_EQ(result.iteration, 3);
  EXPECT_NEAR(result.loss, loss, 1e-6);
  EXPECT_NEAR(trainer->store().Values("w")[0], w, 1e-6);
  EXPECT_FLOAT_EQ(trainer->store().Values("w")[0], 0.3F);
  EXPECT_NEAR(trainer->store().Values("g/0")[0], g, 1e-6);
  const std::vector<OutputValue> outputs = trainer->turns().Outputs();
  ASSERT_EQ(outputs.size(), 3U);
  EXPECT_EQ(outputs[0].name, "critic/loss_made");
  EXPECT_EQ(outputs[1].name, "critic/loss_real");
  EXPECT_EQ(outputs[2].name, "generator/loss");
}

// Adam's corrections count the parameter's own updates: two a round are as two rounds of one.
TEST_F(TurnsTest, AdamCountsUpdatesOfATurn) {
  const std::string adam = "type: \"Adam\" base_lr: 0.01 momentum: 0.5 momentum2: 0.9 ";
  const std::string critic = "turn { name: \"critic\" stage: \"critic\" train: \"d_*\" ";
  const auto two = MakeTurns(kScalarNet, StrCat(adam, "max_iter: 1 ", critic, "steps: 2 }"));
  const auto one = MakeTurns(kScalarNet, StrCat(adam, "max_iter: 2 ", critic, "}"));
  two->Run();
  one->Run();
  EXPECT_EQ(two->store().Values("w"), one->store().Values("w"));
  EXPECT_NE(two->store().Values("w")[0], 0.25F);
}

TEST_F(TurnsTest, ATurnLeavesTheOthersAlone) {
  const auto trainer = MakeTurns(kPictureNet, StrCat("type: \"Adam\" base_lr: 0.01 max_iter: 4 ", kTurns));
  const TrainTurns& turns = trainer->turns();
  const std::vector<std::string> critics = {"d_conv/0", "d_conv/1", "d_conv/2", "d_bn/0", "d_fc/0"};
  const std::vector<std::string> generators = {"g_fc/0", "g_bn/0", "g_bn/3"};
  auto before = AllStates(*trainer);
  turns.net(0).Step(0);
  auto after = AllStates(*trainer);
  for (const std::string& name : critics) EXPECT_NE(before[name], after[name]) << name;
  for (const std::string& name : generators) EXPECT_EQ(before[name], after[name]) << name;
  before = std::move(after);
  turns.net(1).Step(0);
  after = AllStates(*trainer);
  for (const std::string& name : critics) EXPECT_EQ(before[name], after[name]) << name;
  for (const std::string& name : generators) EXPECT_NE(before[name], after[name]) << name;
}

TEST_F(TurnsTest, ResumedRoundsAreTheSameBitForBit) {
  const std::string solver = StrCat("type: \"Adam\" base_lr: 0.01 momentum: 0.5 max_iter: 6 snapshot: 3 ", kTurns);
  const auto whole = MakeTurns(kPictureNet, solver);
  whole->Run();
  RunFolder run = PictureRun();
  {
    TrainerOptions options;
    options.run = &run;
    options.stop_after = 3;
    EXPECT_EQ(MakeTurns(kPictureNet, solver, std::move(options))->Run().end, TrainEnd::kInterrupted);
  }
  TrainerOptions options;
  options.run = &run;
  options.resume = FindNewestValid(run.checkpoints());
  ASSERT_TRUE(options.resume.has_value());
  EXPECT_EQ(options.resume->trainer.iteration, 3);
  EXPECT_EQ(options.resume->trainer.positions.at("train:critic/data"), 24);
  const auto second = MakeTurns(kPictureNet, solver, std::move(options));
  second->Run();
  EXPECT_EQ(AllStates(*whole), AllStates(*second));
}

TEST_F(TurnsTest, ResumeRefusesOtherTurns) {
  const std::string solver = "base_lr: 0.01 max_iter: 4 snapshot: 2 ";
  RunFolder run = PictureRun();
  TrainerOptions options;
  options.run = &run;
  options.stop_after = 2;
  MakeTurns(kPictureNet, solver + kTurns, std::move(options))->Run();
  TrainerOptions resumed;
  resumed.run = &run;
  resumed.resume = FindNewestValid(run.checkpoints());
  std::string other = kTurns;
  other.insert(other.find("} turn"), "steps: 2 ");
  EXPECT_THAT(ErrorOf([&] { MakeTurns(kPictureNet, solver + other, std::move(resumed)); }).text,
              testing::HasSubstr("the solver changed since iter_0000002: was (nothing); is steps: 2;"));
}

// Where the generator does not learn its pictures stay what they were, from test to test and run to run.
TEST_F(TurnsTest, SamplesAreDrawnOfTheSameNoise) {
  RunFolder run = PictureRun();
  TrainerOptions options;
  options.run = &run;
  MakeTurns(
      kPictureNet,
      "base_lr: 0.01 max_iter: 2 test_iter: 2 test_interval: 1 sample_grid { blob: \"made\" count: 6 columns: 3 } "
      "turn { name: \"critic\" stage: \"critic\" train: \"d_*\" }",
      std::move(options))
      ->Run();
  const std::filesystem::path folder = run.path() / "samples";
  ASSERT_EQ(ListFiles(folder, ".png").size(), 3U);
  const std::string first = ReadFile(folder / "iter_0000001.png");
  EXPECT_EQ(ReadImageHeader(first).width, 3 * 4 + 4);
  EXPECT_EQ(ReadImageHeader(first).height, 2 * 4 + 3);
  Image sheet;
  ImageDecoder().Decode(first, {}, sheet);
  EXPECT_NE(std::ranges::min(sheet.pixels), std::ranges::max(sheet.pixels));
  EXPECT_EQ(ReadFile(folder / "iter_0000000.png"), first);
  EXPECT_EQ(ReadFile(folder / "iter_0000002.png"), first);
}

TEST_F(TurnsTest, MistakesAreNamed) {
  const auto error = [&](const std::string& solver) {
    return ErrorOf([&] { MakeTurns(kScalarNet, StrCat("base_lr: 0.01 max_iter: 3 ", solver)); }).text;
  };
  const std::string generator = " turn { name: \"generator\" stage: \"generator\" train: \"g\" }";
  EXPECT_THAT(error("turn { stage: \"critic\" }"), testing::HasSubstr("turn 0 has no name"));
  EXPECT_THAT(error("turn { name: \"a/b\" stage: \"critic\" }"),
              testing::HasSubstr("a turn's name has no /, :, @ or space, and this is \"a/b\""));
  EXPECT_THAT(error(generator + generator), testing::HasSubstr("two turns are called \"generator\""));
  EXPECT_THAT(error("turn { name: \"c\" stage: \"critic\" steps: 0 }"),
              testing::HasSubstr("steps must be at least 1, and is 0"));
  EXPECT_THAT(error("turn { name: \"c\" stage: \"critic\" train: \"d_rael\" }"),
              testing::HasSubstr("turn \"c\" trains \"d_rael\", which no layer with parameters of its net is called"));
  EXPECT_THAT(error("turn { name: \"c\" stage: \"critic\" train: \"d_rael\" }"),
              testing::HasSubstr("did you mean \"d_real\"?"));
  EXPECT_THAT(error("iter_size: 2" + generator), testing::HasSubstr("iter_size above 1 does not work with turn yet"));
  EXPECT_THAT(error("snapshot_prefix: \"x\"" + generator), testing::HasSubstr("snapshot_prefix"));
  EXPECT_THAT(error("loss_scale: 8" + generator), testing::HasSubstr("a loss_scale does not work with turn yet"));
  EXPECT_THAT(error("clip_weights: -0.5" + generator), testing::HasSubstr("clip_weights"));
  EXPECT_THAT(error("test_iter: 1 test_interval: 1 sample_grid { blob: \"made\" test_net: 1 }" + generator),
              testing::HasSubstr("sample_grid is of test net 1 of 1"));
}

}  // namespace
}  // namespace moka
