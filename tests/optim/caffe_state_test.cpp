// Solver states in both of Caffe's formats, against files of Caffe's own.
#include "optim/checkpoint/caffe_state.h"

#include <fstream>

#include "optim/optimizers/update.h"
#include "optim_fixture.h"
#include "proto/weights/weights.h"

namespace moka {
namespace {

class CaffeStateTest : public FolderTest {
 protected:
  CaffeStateTest() {
    NetBlob tied = Blob("c", 0, {2, 3});
    tied.name = "a/0";
    tied.shared = true;
    blobs_ = {Blob("a", 0, {2, 3}), Blob("a", 1, {2}, ParameterRole::kBias),
              Blob("bn", 0, {1}, ParameterRole::kStatistic), tied};
    for (const char* slot : {"m", "v"}) {
      store_.Add(SlotName("a/0", slot), {2, 3});
      store_.Add(SlotName("a/1", slot), {2});
    }
    store_.Set("a/0/@m", std::vector<float>{1, 2, 3, 4, 5, 6});
    store_.Set("a/1/@m", std::vector<float>{7, 8});
    store_.Set("a/0/@v", std::vector<float>{9, 10, 11, 12, 13, 14});
    store_.Set("a/1/@v", std::vector<float>{15, 16});
  }
  const SolverParameter adam_ = Solver("type: \"Adam\" momentum: 0.9");
  std::vector<NetBlob> blobs_;
  ParameterStore store_;
};

TEST_F(CaffeStateTest, HistoryIsInCaffesOrder) {
  const std::vector<StateTensor> history = HistoryFromStore(adam_, blobs_, store_);
  ASSERT_EQ(history.size(), 6U);  // three learnable blobs, two slots
  EXPECT_EQ(history[1].values, (std::vector<float>{7, 8}));
  EXPECT_EQ(history[2].values, (std::vector<float>{0}));  // the statistic
  EXPECT_EQ(history[3].values, (std::vector<float>{9, 10, 11, 12, 13, 14}));
}

TEST_F(CaffeStateTest, GoesThroughAFileAndBack) {
  const CaffeState state{.iteration = 40,
                         .learned_net = "x_iter_40.caffemodel",
                         .current_step = 2,
                         .history = HistoryFromStore(adam_, blobs_, store_)};
  WriteCaffeState(At("x.solverstate"), state);
  const CaffeState read = ReadCaffeState(At("x.solverstate"));
  EXPECT_EQ(read.iteration, 40);
  EXPECT_EQ(read.learned_net, "x_iter_40.caffemodel");
  EXPECT_EQ(read.current_step, 2);
  store_.Set("a/0/@v", std::vector<float>(6, 0.0F));
  HistoryToStore(adam_, blobs_, read.history, store_);
  EXPECT_EQ(store_.Values("a/0/@v"), (std::vector<float>{9, 10, 11, 12, 13, 14}));
}

TEST_F(CaffeStateTest, IsTheSameInBothFormats) {
  const CaffeState state{.iteration = 40,
                         .learned_net = "x_iter_40.caffemodel.h5",
                         .current_step = 2,
                         .minimum_loss = 0.25F,
                         .iter_last_event = 30,
                         .history = HistoryFromStore(adam_, blobs_, store_)};
  for (const char* name : {"x.solverstate", "x.solverstate.h5"}) {
    WriteCaffeState(At(name), state);
    const CaffeState read = ReadCaffeState(At(name));
    EXPECT_EQ(read.iteration, 40) << name;
    EXPECT_EQ(read.learned_net, "x_iter_40.caffemodel.h5") << name;
    EXPECT_EQ(read.current_step, 2) << name;
    EXPECT_EQ(read.minimum_loss, 0.25F) << name;
    EXPECT_EQ(read.iter_last_event, 30) << name;
    ASSERT_EQ(read.history.size(), 6U) << name;
    EXPECT_EQ(read.history[4].values, (std::vector<float>{15, 16})) << name;
    EXPECT_EQ(read.history[0].shape, Shape({2, 3})) << name;
    EXPECT_EQ(CaffeStateFromBytes(ReadFile(At(name)), name).history[4].values, read.history[4].values);
  }
}

TEST_F(CaffeStateTest, AFileOfCaffesIsReadAndWrittenAlike) {
  SolverState message;  // as BVLC's schema has it
  message.set_iter(7);
  message.set_learned_net("w.caffemodel");
  message.set_current_step(1);
  BlobToProto({2}, std::vector<float>{1, -2}, message.add_history());
  BlobProto* doubles = message.add_history();
  doubles->add_double_data(3);
  doubles->set_num(1);
  doubles->set_channels(1);
  doubles->set_height(1);
  doubles->set_width(1);
  const CaffeState read = CaffeStateFromBytes(message.SerializeAsString(), "s");
  EXPECT_EQ(read.iteration, 7);
  EXPECT_EQ(read.minimum_loss, std::nullopt);
  ASSERT_EQ(read.history.size(), 2U);
  EXPECT_EQ(read.history[0].values, (std::vector<float>{1, -2}));
  EXPECT_EQ(read.history[1].shape, Shape({1, 1, 1, 1}));
  WriteCaffeState(At("s.solverstate"), read);
  SolverState again;
  ASSERT_TRUE(again.ParseFromString(ReadFile(At("s.solverstate"))));
  EXPECT_EQ(again.iter(), 7);
  EXPECT_EQ(again.learned_net(), "w.caffemodel");
  EXPECT_EQ(again.current_step(), 1);
  EXPECT_FALSE(again.has_minimum_loss());
  EXPECT_EQ(again.history(0).SerializeAsString(), message.history(0).SerializeAsString());
}

TEST_F(CaffeStateTest, DamageIsNamed) {
  WriteCaffeState(At("x.solverstate"), {.iteration = 3, .history = HistoryFromStore(adam_, blobs_, store_)});
  const std::string bytes = ReadFile(At("x.solverstate"));
  for (const size_t cut : {1U, 9U}) {
    const Caught caught = ErrorOf([&] { CaffeStateFromBytes(bytes.substr(0, bytes.size() - cut), "s"); });
    EXPECT_EQ(caught.kind, ErrorKind::kBadData);
    EXPECT_THAT(caught.text, testing::HasSubstr("(the file is cut short)"));
  }
  SolverState message;
  message.set_iter(-1);
  EXPECT_THAT(ErrorOf([&] { CaffeStateFromBytes(message.SerializeAsString(), "s"); }).text,
              testing::HasSubstr("s: the iteration is -1"));
  WriteHdf5Weights(At("w.caffemodel.h5"), NetParameter(), std::vector<NamedBlob>{{"a", 0, {2}, {1, 2}}});
  EXPECT_THAT(ErrorOf([&] { ReadCaffeState(At("w.caffemodel.h5")); }).text,
              testing::HasSubstr("this HDF5 file holds weights (.caffemodel.h5)"));
}

TEST_F(CaffeStateTest, ACheckpointKnowsWhatIsShared) {
  Checkpoint checkpoint;
  checkpoint.path = "run/iter_0000025";
  checkpoint.trainer.iteration = 25;
  checkpoint.solver_text = "type: \"Adam\" base_lr: 1 lr_policy: \"step\" gamma: 0.1 stepsize: 25 momentum: 0.9";
  checkpoint.net_text =
      "layer { name: \"a\" type: \"InnerProduct\" bottom: \"x\" top: \"a\" param { name: \"w\" } } "
      "layer { name: \"bn\" type: \"BatchNorm\" bottom: \"a\" top: \"bn\" } "
      "layer { name: \"c\" type: \"InnerProduct\" bottom: \"bn\" top: \"c\" param { name: \"w\" } }";
  checkpoint.weights.blobs = {{"a", 0, {2}, {0, 0}}, {"a", 1, {1}, {0}}, {"bn", 0, {1}, {0}}, {"c", 0, {2}, {0, 0}}};
  checkpoint.slots = {{SlotName("w", "m"), {{2}, {1, 2}}},
                      {SlotName("w", "v"), {{2}, {3, 4}}},
                      {SlotName("a/1", "m"), {{1}, {5}}},
                      {SlotName("a/1", "v"), {{1}, {6}}}};
  const CaffeState state = CaffeStateOf(checkpoint, "w.caffemodel");
  EXPECT_EQ(state.iteration, 25);
  EXPECT_EQ(state.current_step, 0);     // the last update was iteration 24's
  ASSERT_EQ(state.history.size(), 6U);  // w, a/1 and the statistic, twice
  EXPECT_EQ(state.history[0].values, (std::vector<float>{1, 2}));
  EXPECT_EQ(state.history[2].values, (std::vector<float>{0}));
  EXPECT_EQ(state.history[3].values, (std::vector<float>{3, 4}));
  EXPECT_EQ(state.history[4].values, (std::vector<float>{6}));
  checkpoint.slots[0].second = {{3}, {1, 2, 3}};
  EXPECT_EQ(ErrorOf([&] { CaffeStateOf(checkpoint, "w"); }).kind, ErrorKind::kBadData);
  checkpoint.solver_text = "type: \"LAMB\" base_lr: 1 lr_policy: \"fixed\" momentum: 0.9";
  EXPECT_THAT(ErrorOf([&] { CaffeStateOf(checkpoint, "w"); }).text,
              testing::HasSubstr("Caffe has no solver of type LAMB"));
}

TEST_F(CaffeStateTest, MistakesAreNamedAndChangeNothing) {
  std::vector<StateTensor> history = HistoryFromStore(adam_, blobs_, store_);
  history[0].shape = {3, 2};
  history[1].values = {70, 80};
  EXPECT_THAT(ErrorOf([&] { HistoryToStore(adam_, blobs_, history, store_); }).text,
              testing::HasSubstr("history blob 0 of the solver state has shape [3,2] and \"a/0\" has [2,3]"));
  EXPECT_EQ(store_.Values("a/1/@m"), (std::vector<float>{7, 8}));
  history.pop_back();
  EXPECT_THAT(ErrorOf([&] { HistoryToStore(adam_, blobs_, history, store_); }).text,
              testing::HasSubstr("has 5 history blobs, and Adam over 3 parameters needs 6"));
}

TEST_F(CaffeStateTest, OldFourDimensionalShapesFit) {
  std::vector<StateTensor> history = HistoryFromStore(adam_, blobs_, store_);
  history[0].shape = {1, 1, 2, 3};
  history[1].shape = {1, 1, 1, 2};
  EXPECT_NO_THROW(HistoryToStore(adam_, blobs_, history, store_));
}

TEST_F(CaffeStateTest, OtherFilesAreToldApart) {
  WriteCaffemodel(At("w.caffemodel"), NetParameter(), std::vector<NamedBlob>{{"a", 0, {2}, {1, 2}}});
  const Caught caught = ErrorOf([&] { ReadCaffeState(At("w.caffemodel")); });
  EXPECT_EQ(caught.kind, ErrorKind::kBadData);
  EXPECT_THAT(caught.text,
              testing::HasSubstr("expected a solver's state (.solverstate or .solverstate.h5), but this is"));
  std::ofstream(At("t")) << "net: \"x\"\n";
  EXPECT_THAT(ErrorOf([&] { ReadCaffeState(At("t")); }).text,
              testing::HasSubstr("expected a solver's state (.solverstate or .solverstate.h5), but this is"));
  EXPECT_EQ(ErrorOf([&] { ReadCaffeState(At("none")); }).kind, ErrorKind::kNoInput);
}

TEST(CaffeStepTest, CountsAsCaffe) {
  EXPECT_EQ(CaffeCurrentStep(Solver("lr_policy: \"step\" stepsize: 10"), 25), 2);
  EXPECT_EQ(CaffeCurrentStep(Solver("lr_policy: \"multistep\" stepvalue: 10 stepvalue: 20"), 20), 2);
  EXPECT_EQ(CaffeCurrentStep(Solver("lr_policy: \"fixed\""), 20), 0);
}

}  // namespace
}  // namespace moka
