#include "optim/caffe_state.h"

#include <fstream>

#include "optim/update.h"
#include "optim_fixture.h"
#include "proto/weights.h"

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
  EXPECT_THAT(caught.text, testing::HasSubstr("is not a .solverstate"));
  std::ofstream(At("t")) << "net: \"x\"\n";
  EXPECT_THAT(ErrorOf([&] { ReadCaffeState(At("t")); }).text, testing::HasSubstr("is not a .solverstate"));
  EXPECT_EQ(ErrorOf([&] { ReadCaffeState(At("none")); }).kind, ErrorKind::kNoInput);
}

TEST(CaffeStepTest, CountsAsCaffe) {
  EXPECT_EQ(CaffeCurrentStep(Solver("lr_policy: \"step\" stepsize: 10"), 25), 2);
  EXPECT_EQ(CaffeCurrentStep(Solver("lr_policy: \"multistep\" stepvalue: 10 stepvalue: 20"), 20), 2);
  EXPECT_EQ(CaffeCurrentStep(Solver("lr_policy: \"fixed\""), 20), 0);
}

}  // namespace
}  // namespace moka
