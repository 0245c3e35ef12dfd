// A libnccl.so.2 for tests without a GPU: ranks are threads of one process, "device" memory is the host's, and a sum is
// over when ncclGroupEnd is no longer in progress. A test says through fake_nccl.h what goes wrong.
#include "fake_nccl.h"

#include <nccl.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace {

struct Piece {
  float* values;
  size_t count;
};

struct World {
  int size = 0;
  int joined = 0;
  std::vector<std::vector<std::vector<Piece>>> queued;  // by rank: the groups that are not summed yet
};

std::mutex mutex;
std::map<std::string, std::shared_ptr<World>> worlds;
FakeNcclCounts counts;
ncclResult_t planned = ncclSuccess;
int ids = 0;

}  // namespace

struct ncclComm {
  std::shared_ptr<World> world;
  int rank = 0;
  std::vector<Piece> open;  // of the group under way
};

namespace {

thread_local ncclComm_t grouped = nullptr;

// Sums the oldest group once every rank has brought it.
void Settle(World& world) {
  const auto is_there = [](const auto& groups) { return !groups.empty(); };
  if (!std::all_of(world.queued.begin(), world.queued.end(), is_there)) return;
  for (size_t piece = 0; piece < world.queued[0].front().size(); ++piece) {
    for (size_t i = 0; i < world.queued[0].front()[piece].count; ++i) {
      float sum = 0;
      for (const auto& groups : world.queued) sum += groups.front()[piece].values[i];
      for (const auto& groups : world.queued) groups.front()[piece].values[i] = sum;
    }
  }
  for (auto& groups : world.queued) groups.erase(groups.begin());
}

}  // namespace

extern "C" {

FakeNcclCounts FakeNcclTakeCounts() {
  const std::lock_guard lock(mutex);
  return std::exchange(counts, {});
}

void FakeNcclFailWith(int result) {
  const std::lock_guard lock(mutex);
  planned = static_cast<ncclResult_t>(result);
}

ncclResult_t ncclGetVersion(int* version) {
  const char* text = std::getenv("FAKE_NCCL_VERSION");
  *version = text == nullptr ? 22809 : std::atoi(text);
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::lock_guard lock(mutex);
  std::memset(id->internal, 0, sizeof id->internal);
  const std::string name = "world " + std::to_string(++ids);
  std::memcpy(id->internal, name.data(), name.size());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  const std::lock_guard lock(mutex);
  if (config->blocking != 0) return ncclInvalidArgument;
  std::shared_ptr<World>& world = worlds[id.internal];
  if (!world) {
    world = std::make_shared<World>();
    world->size = size;
    world->queued.resize(static_cast<size_t>(size));
  }
  ++world->joined;
  *comm = new ncclComm{world, rank, {}};
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  const std::lock_guard lock(mutex);
  World& world = *comm->world;
  Settle(world);
  const bool waits = world.joined < world.size || !world.queued[static_cast<size_t>(comm->rank)].empty();
  *state = planned != ncclSuccess ? planned : waits ? ncclInProgress : ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const std::lock_guard lock(mutex);
  ++counts.aborts;
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t /*comm*/) {
  const std::lock_guard lock(mutex);
  ++counts.finalized;
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const std::lock_guard lock(mutex);
  ++counts.destroyed;
  delete comm;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "remote process exited" : "unhandled system error";
}

const char* ncclGetLastError(ncclComm_t /*comm*/) { return "socket 7 was closed"; }

ncclResult_t ncclGroupStart() {
  grouped = nullptr;
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t /*stream*/) {
  const std::lock_guard lock(mutex);
  if (from != to || type != ncclFloat || op != ncclSum) return ncclInvalidArgument;
  ++counts.sums;
  comm->open.push_back({static_cast<float*>(to), count});
  grouped = comm;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  const std::lock_guard lock(mutex);
  if (grouped == nullptr) return ncclSuccess;
  ++counts.groups;
  grouped->world->queued[static_cast<size_t>(grouped->rank)].push_back(std::move(grouped->open));
  grouped->open.clear();
  return ncclInProgress;
}

}  // extern "C"
