// Where scratch lies: apart from what the next step writes, unless that would take more memory.
#include "graph/storage.h"

#include <gtest/gtest.h>

#include <array>

#include "layers/catalog.h"
#include "tests/threads.h"

namespace moka {
namespace {

// Five steps of 128 floats each in a chain, none of which may overwrite its input.
class StorageTest : public testing::Test {
 protected:
  StorageTest() : graph_(StandardCatalog()) {
    const GraphBuilder builder(graph_, {"net", {}, "", kNoId});
    const Attributes lrn = {
        {"size", int64_t{3}}, {"alpha", 1.0}, {"beta", 0.75}, {"k", 1.0}, {"region", std::string("across")}};
    ValueId v = graph_.AddInput("x", {DType::kFloat32, Shape{1, 128, 1, 1}, {}});
    for (ValueId& result : results_) v = result = builder.Add1("lrn", {v}, lrn);
    graph_.AddOutput("y", v);
    schedule_.steps = graph_.TopologicalOrder();
  }

  // Whether the step's scratch lies over the result of the one after it.
  bool Overlaps(const StoragePlan& plan, const std::vector<int64_t>& scratch, size_t step) const {
    const Storage& next = plan.storages[static_cast<size_t>(plan.storage_of[static_cast<size_t>(results_[step + 1])])];
    const int64_t begin = plan.scratch_offset[step];
    return begin < next.offset + next.bytes && next.offset < begin + scratch[step];
  }

  Graph graph_;
  Schedule schedule_;
  std::array<ValueId, 5> results_{};
};

constexpr int64_t kBytes = 512;  // of a result

TEST_F(StorageTest, ScratchIsLeftAloneByTheNextStep) {
  const Threads team(2);
  ASSERT_EQ(schedule_.steps.size(), results_.size());
  // The last step needs the most: there is room for the second one's scratch at the third.
  const std::vector<int64_t> scratch = {0, 4 * kBytes, 0, 0, 8 * kBytes};
  const StoragePlan plan = PlanStorage(graph_, schedule_, scratch);
  EXPECT_FALSE(Overlaps(plan, scratch, 1));
  EXPECT_EQ(plan.arena_bytes, 10 * kBytes);
}

TEST_F(StorageTest, ScratchThatRestsTakesNoMoreMemory) {
  const Threads team(2);
  // The second step has the peak: its scratch and two results. At the third it would be beside two and more scratch.
  const std::vector<int64_t> scratch = {0, 4 * kBytes, kBytes, 0, 0};
  const StoragePlan plan = PlanStorage(graph_, schedule_, scratch);
  EXPECT_EQ(plan.bound_bytes, 6 * kBytes);
}

TEST_F(StorageTest, OneThreadWritesOverItsOwnScratch) {
  const Threads team(1);
  const std::vector<int64_t> scratch = {0, 4 * kBytes, 0, 0, 0};
  EXPECT_EQ(PlanStorage(graph_, schedule_, scratch).arena_bytes, 6 * kBytes);
  EXPECT_EQ(PlanStorage(graph_, schedule_, scratch).bound_bytes, 6 * kBytes);
}

}  // namespace
}  // namespace moka
