// A small checkpoint for tests: two layers, one slot, a trainer's state.
#pragma once

#include "optim/checkpoint/checkpoint.h"
#include "optim_fixture.h"

namespace moka {

class CheckpointTest : public FolderTest {
 protected:
  CheckpointTest() { store_.Add("ip/0/@history", {2, 3}); }

  // Values depend on the iteration, so two checkpoints are never alike.
  CheckpointContent Content(int64_t iteration) {
    const auto n = static_cast<float>(iteration);
    CheckpointContent content;
    content.trainer.iteration = iteration;
    content.trainer.seed = 77;
    content.trainer.loss_window = {0.5, 0.25};
    content.trainer.smoothed_loss = 0.1 + 0.2;
    content.trainer.best = 0.75;
    content.trainer.best_iteration = 1;
    content.trainer.positions = {{"train/data", iteration * 64}, {"test0/data", 5}};
    content.solver_text = "base_lr: 0.1\n";
    content.net_text = "name: \"tiny\"\n";
    content.weights = {{"ip", 0, {2, 3}, {n, 1, 2, 3, 4, 5}}, {"ip", 1, {2}, {n, -1}}};
    store_.Set("ip/0/@history", std::vector<float>{n, 2, 3, 4, 5, 6});
    content.store = &store_;
    content.slots = {"ip/0/@history"};
    return content;
  }
  std::filesystem::path Write(int64_t iteration, bool is_best = false, CheckpointPolicy policy = {}) {
    return WriteCheckpoint(folder_, Content(iteration), is_best, policy);
  }
  // Returns the iteration that the folder would be resumed from, after checking every value; -1: none.
  static int64_t ResumeFrom(const std::filesystem::path& folder) {
    const std::optional<Checkpoint> found = FindNewestValid(folder);
    if (!found) return -1;
    const auto n = static_cast<float>(found->trainer.iteration);
    EXPECT_EQ(found->weights.blobs.at(0).values, (std::vector<float>{n, 1, 2, 3, 4, 5}));
    EXPECT_EQ(found->weights.blobs.at(1).values, (std::vector<float>{n, -1}));
    EXPECT_EQ(found->slots.at(0).second.values, (std::vector<float>{n, 2, 3, 4, 5, 6}));
    EXPECT_EQ(found->trainer.positions.at("train/data"), found->trainer.iteration * 64);
    return found->trainer.iteration;
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  ParameterStore store_;
};

}  // namespace moka
