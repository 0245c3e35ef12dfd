// Checkpoints: whole or absent. One checkpoint of iteration N in a folder is
//
//   iter_N.safetensors   weights, "layer/index" (also what `last` and `best` point at)
//   iter_N.state         optimiser slots, trainer state, solver and net as text (optim/checkpoint/state_file.h)
//   iter_N.sha256        manifest, written last: SHA-256 and size of both; without it the checkpoint does not exist
//
// Invariants, at every moment, whatever is killed:
//   1. A file has its final name only when it is complete and on disk (core/file.h's AtomicFile).
//   2. A manifest exists only after both its files; it goes first when a checkpoint is removed.
//   3. Older checkpoints are removed only after a newer one is complete; at least two stay.
//   4. `last` and `best` are conveniences: FindNewestValid looks at the manifests, not at them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/parameter_store.h"
#include "optim/checkpoint/state_file.h"
#include "optim/checkpoint/trainer_state.h"
#include "proto/weights/weights.h"

namespace moka {

// "residual@2:conv1/0": rank 2's residual of a blob.
struct RankMemory {
  std::string name;
  StateTensor tensor;
};

// The content of a checkpoint.
struct CheckpointContent {
  TrainerState trainer;
  std::string solver_text;
  std::string net_text;  // the train net as resolved
  std::vector<NamedBlob> weights;
  const ParameterStore* store = nullptr;  // of the slots
  std::vector<std::string> slots;         // names in the store
  std::vector<RankMemory> rank_states;    // what each of several ranks keeps for itself
};

struct CheckpointPolicy {
  int keep_last = 3;      // newest kept, never fewer than 2; 0: all
  bool keep_best = true;  // the one `best` points at stays too
};

// Writes the checkpoint of content.trainer.iteration, points `last` (and `best` if it is the best) at it, then removes
// what the policy does not keep. Returns the path without extension. Errors: kCantCreate, kIo; older checkpoints are
// untouched then.
std::filesystem::path WriteCheckpoint(const std::filesystem::path& folder, const CheckpointContent& content,
                                      bool is_best, const CheckpointPolicy& policy);

struct Checkpoint {
  std::filesystem::path path;  // without extension
  TrainerState trainer;
  std::string solver_text;
  std::string net_text;
  Weights weights;
  std::vector<std::pair<std::string, StateTensor>> slots;
  std::vector<RankMemory> rank_states;
};

// The file behind a link. A run's own links, last and best, lead to a file of their folder only, as another may have
// planted one; any other link is its user's and followed. Errors: kNotAllowed.
std::filesystem::path BehindLink(const std::filesystem::path& path);

// Reads and verifies. `path` may carry any of the three extensions or none. Errors: kNoInput (a file is missing),
// kBadData naming the file, the damaged part and what was expected.
Checkpoint LoadCheckpoint(const std::filesystem::path& path);
// The same from the contents of the three files; `name` is the path without extension.
Checkpoint CheckpointFromBytes(std::string_view weights, std::string_view state, std::string_view manifest,
                               const std::string& name);

// The newest checkpoint of the folder that verifies; each newer one that does not is logged with its reason.
std::optional<Checkpoint> FindNewestValid(const std::filesystem::path& folder);

// Before a run goes on from `iteration`: renames what is newer to "*.refused", so that it is neither resumed from nor
// counted as kept, and points `last` and `best` at the checkpoints of `iteration` and `best_iteration` if they are
// there.
void SetAsideNewer(const std::filesystem::path& folder, int64_t iteration, int64_t best_iteration);

// "iter_0005000".
std::string CheckpointName(int64_t iteration);

}  // namespace moka
