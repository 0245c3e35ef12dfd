// Who of the ranks keeps which weights' slots and updates them.
#pragma once

#include <string>
#include <vector>

#include "comm/transport/communicator.h"
#include "graph/parameter_store.h"
#include "layers/net/layer.h"
#include "optim/optimizers/update.h"

namespace moka {

// The blobs of each rank: large ones first, each to the rank that has least. A blob has one owner, so LARS and LAMB
// have the norms of whole blobs. The same on all ranks.
std::vector<std::vector<NetBlob>> ShareOut(std::vector<NetBlob> blobs, int ranks);

// All ranks: each rank's values `names[rank]` in its store `from` come to every rank's `to`, which has them. Errors:
// kPeer.
void ShareValues(Communicator& world, const std::vector<std::vector<std::string>>& names, const ParameterStore& from,
                 ParameterStore& to);

// The slots of the blobs of each rank.
std::vector<std::vector<std::string>> SlotsOf(const std::vector<std::vector<NetBlob>>& owned,
                                              const std::vector<SlotState>& slots);

}  // namespace moka
