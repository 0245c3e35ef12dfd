// Where scratch lies: apart from what the next step writes, unless that would take more memory.
#include "graph/storage.h"

#include <gtest/gtest.h>

#include <array>

#include "layers/net/catalog.h"
#include "tests/threads.h"

namespace moka {
namespace {

constexpr int64_t kBytes = 2 << 20;  // of a result

// Five steps in a chain, none of which may overwrite its input.
class StorageTest : public testing::Test {
 protected:
  StorageTest() : graph_(StandardCatalog()) {
    const GraphBuilder builder(graph_, {"net", {}, "", kNoId});
    const Attributes lrn = {
        {"size", int64_t{3}}, {"alpha", 1.0}, {"beta", 0.75}, {"k", 1.0}, {"region", std::string("across")}};
    ValueId v = graph_.AddInput("x", {DType::kFloat32, Shape{2, 64, 64, 64}, {}});
    for (ValueId& result : results_) v = result = builder.Add1("lrn", {v}, lrn);
    graph_.AddOutput("y", v);
    schedule_.steps = graph_.TopologicalOrder();
  }

  // How often a step's scratch lies over the result of the one after it, where steps have `bytes` or none.
  int Overlaps(int threads, int64_t bytes) const {
    const Threads team(threads);
    int overlaps = 0;
    for (int64_t has = 0; has < 8; ++has) {
      const std::vector<int64_t> scratch = {has % 2 * bytes, has / 2 % 2 * bytes, has / 4 * bytes, 0, 9 * kBytes};
      const StoragePlan plan = PlanStorage(graph_, schedule_, scratch);
      EXPECT_EQ(plan.arena_bytes, 11 * kBytes);
      for (size_t step = 0; step < 3; ++step) {
        const Storage& next =
            plan.storages[static_cast<size_t>(plan.storage_of[static_cast<size_t>(results_[step + 1])])];
        const int64_t begin = plan.scratch_offset[step];
        overlaps += begin < next.offset + next.bytes && next.offset < begin + scratch[step];
      }
    }
    return overlaps;
  }

  Graph graph_;
  NodeSchedule schedule_;
  std::array<ValueId, 5> results_{};
};

// The last step needs the most, so that there is room at the others for the scratch of the steps before them.
TEST_F(StorageTest, ScratchIsLeftAloneByTheNextStep) {
  ASSERT_EQ(schedule_.steps.size(), results_.size());
  EXPECT_EQ(Overlaps(2, kBytes), 0);
  EXPECT_GT(Overlaps(1, kBytes), 0);       // one thread writes over its own
  EXPECT_GT(Overlaps(2, kBytes - 64), 0);  // and little is not worth it
}

TEST_F(StorageTest, ScratchThatRestsTakesNoMoreMemory) {
  const Threads team(2);
  // The second step has the peak: its scratch and two results. At the third it would be beside two and more scratch.
  const std::vector<int64_t> scratch = {0, 4 * kBytes, kBytes, 0, 0};
  const StoragePlan plan = PlanStorage(graph_, schedule_, scratch);
  EXPECT_EQ(plan.bound_bytes, 6 * kBytes);
}

}  // namespace
}  // namespace moka
