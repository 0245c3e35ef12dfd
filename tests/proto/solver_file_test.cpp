// The nets that a solver has, and where they come from.
#include "proto/nets/solver_file.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "core/file.h"
#include "tests/proto/errors_of.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr const char* kNet =
    "layer { name: 'data' type: 'Data' include { phase: TRAIN } } layer { name: 'test' type: 'Data' include { phase: "
    "TEST not_stage: 'x' } }"
    "layer { name: 'x' type: 'ReLU' include { stage: 'x' } }";

class SolverFile : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("moka_solver_file_test_" + std::to_string(getpid()));
    CreateFolders(folder_);
    WriteFileAtomically(folder_ / "train_val.prototxt", kNet);
  }
  void TearDown() override { fs::remove_all(folder_); }

  SolverParameter Read(const std::string& text, const std::vector<std::string>& overrides = {}) const {
    WriteFileAtomically(folder_ / "solver.prototxt", text);
    return ReadSolver(folder_ / "solver.prototxt", {.overrides = overrides});
  }
  std::string NetsError(const std::string& text) const {
    return ErrorTextOf([&] { ReadSolverNets(Read(text)); });
  }

  fs::path folder_;
};

TEST_F(SolverFile, LayersThatChangeWithTheTrainingLearnItsLength) {
  const auto length = [&](const std::string& fields) {
    const SolverNets nets = ReadSolverNets(
        Read("net_param { layer { name: 'e' type: 'AssistedExcitation' " + fields + " } } max_iter: 70"));
    return nets.train.layer(0).assisted_excitation_param().max_iter();
  };
  EXPECT_EQ(length(""), 70);
  EXPECT_EQ(length("assisted_excitation_param { max_iter: 5 }"), 5);
}

TEST_F(SolverFile, FindsTheNetBesideTheSolver) {
  const SolverNets nets = ReadSolverNets(Read("net: 'train_val.prototxt' test_iter: 1 test_interval: 10"));
  EXPECT_EQ(nets.train.layer(0).name(), "data");
  EXPECT_EQ(nets.train.layer_size(), 1);
  ASSERT_EQ(nets.tests.size(), 1U);
  EXPECT_EQ(nets.tests[0].layer(0).name(), "test");
  EXPECT_EQ(nets.tests[0].state().phase(), TEST);
}

TEST_F(SolverFile, MergesStates) {
  const SolverNets nets =
      ReadSolverNets(Read("net: 'train_val.prototxt' train_state { stage: 'x' } test_iter: [1, 1] test_interval: 10 "
                          "test_state { } test_state { stage: 'x' }"));
  EXPECT_EQ(nets.train.layer_size(), 2);
  EXPECT_EQ(nets.tests[0].layer(0).name(), "test");
  EXPECT_EQ(nets.tests[1].layer(0).name(), "x");
}

TEST_F(SolverFile, ReadsNetsWrittenInTheSolver) {
  const SolverNets nets =
      ReadSolverNets(Read("net_param { layers { name: 'old' type: RELU } } test_iter: 1 test_interval: 1"));
  EXPECT_EQ(nets.train.layer(0).type(), "ReLU");
  EXPECT_EQ(nets.tests[0].layer(0).type(), "ReLU");
}

TEST_F(SolverFile, ReadsTestNetsOfTheirOwn) {
  const SolverNets nets =
      ReadSolverNets(Read("train_net: 'train_val.prototxt' test_net: 'train_val.prototxt' test_net_param { layer { "
                          "name: 'p' } } test_iter: [1, 2] test_interval: 1"));
  EXPECT_EQ(nets.tests[0].layer(0).name(), "p");
  EXPECT_EQ(nets.tests[1].layer(0).name(), "test");
}

TEST_F(SolverFile, AppliesOverridesToItsFieldsAndToTheNets) {
  const SolverParameter solver = Read("net: 'none' base_lr: 1", {"net=train_val.prototxt", "base_lr=2"});
  EXPECT_EQ(solver.base_lr(), 2);
  const SolverNets nets = ReadSolverNets(solver, {.overrides = {"layer[data].name=renamed"}});
  EXPECT_EQ(nets.train.layer(0).name(), "renamed");
}

TEST_F(SolverFile, SuggestsTheNetsFile) {
  const std::string error = NetsError("\nnet: 'train_vl.prototxt'");
  EXPECT_THAT(error, HasSubstr("solver.prototxt:2:1: file \"train_vl.prototxt\" does not exist"));
  EXPECT_THAT(error, HasSubstr("did you mean \"train_val.prototxt\"?"));
  EXPECT_EQ(ErrorKindOf([&] { ReadSolverNets(Read("net: 'gone'")); }), ErrorKind::kNoInput);
}

TEST_F(SolverFile, ChecksItsNets) {
  EXPECT_THAT(NetsError("base_lr: 1"), HasSubstr("the solver names 0 train nets"));
  EXPECT_THAT(NetsError("net: 'a' train_net: 'b'"), HasSubstr("the solver names 2 train nets"));
  EXPECT_THAT(NetsError("net: 'train_val.prototxt' test_iter: 3"),
              HasSubstr("test_interval, the iterations from test to test, is not"));
  EXPECT_THAT(NetsError("net: 'train_val.prototxt' test_iter: 3 test_interval: 0"),
              HasSubstr("test_interval is 0, expected at least 1; leave out test_iter and test_interval to train"));
  EXPECT_THAT(NetsError("train_net: 'train_val.prototxt' test_iter: 3 test_interval: 1"),
              HasSubstr("0 test nets but 1 test_iter"));
  EXPECT_THAT(NetsError("net: 'train_val.prototxt' test_iter: 3 test_interval: 1 test_state { } test_state { }"),
              HasSubstr("1 test nets but 2 test_state"));
}

TEST_F(SolverFile, SaysWhatInAPathIsTakenAsItStands) {
  EXPECT_THAT(NetsError("net: '~/net.prototxt'"), HasSubstr("~ is not expanded here: write the whole path"));
  EXPECT_THAT(NetsError("net: '$HOME/net.prototxt'"), HasSubstr("variables such as $HOME are not expanded here"));
  EXPECT_THAT(NetsError("net: 'D:\\train.prototxt'"), HasSubstr("begins an escape such as \\t: write / or \\\\"));
  EXPECT_THAT(NetsError("net: 'train_val.prototxt '"), HasSubstr("the path begins or ends with a blank"));
  EXPECT_THAT(NetsError("net: 'D:/train.prototxt'"), HasSubstr("a path of Windows"));
  EXPECT_THAT(NetsError("net: 'train_vla.prototxt'"), HasSubstr("did you mean \"train_val.prototxt\"?"));
}

TEST_F(SolverFile, PrintsBack) {
  const SolverParameter solver = Read("net: 'n' base_lr: 0.5 warmup_iter: 10");
  EXPECT_EQ(SolverToText(solver), "base_lr: 0.5\nnet: \"n\"\nwarmup_iter: 10\n");
}

TEST(SolverDefaults, AreThoseOfTheSchema) {
  const SolverParameter solver;
  EXPECT_EQ(solver.keep_last(), 3);
  EXPECT_TRUE(solver.keep_best());
  EXPECT_EQ(solver.on_nan(), SolverParameter::STOP);
  EXPECT_EQ(solver.type(), "SGD");
  EXPECT_EQ(solver.test_initialization(), true);
}

}  // namespace
}  // namespace moka
