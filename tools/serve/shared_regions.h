// Regions of this machine's shared memory in which tensors of requests and answers may lie (the protocol's extension
// system_shared_memory). They are files in /dev/shm, which clients may change and shorten whenever they like: so bytes
// are copied out of them and into them by the kernel's calls, and nothing is mapped.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/serve/service_calls.h"

namespace moka {

struct SharedLimits {
  int64_t regions = 64;
  int64_t tensor_bytes = int64_t{64} << 20;   // of a request's inputs
  int64_t copied_bytes = int64_t{512} << 20;  // of inputs together that are not answered yet
};

// Thread-safe.
class SharedRegions : public RegionCalls {
 public:
  explicit SharedRegions(const SharedLimits& limits = {}) : limits_(limits) {}

  std::optional<CallFailure> Register(const SharedRegion& region, std::string_view peer) override;
  std::optional<CallFailure> Unregister(const std::string& name, std::string_view peer) override;
  CallResult<std::vector<SharedRegion>> List(const std::string& name) const override;

  // Copies the inputs that lie in regions to the request, before anything is checked of them. Returns what responds
  // with the answer once outputs that are to lie there have been written. Errors: kBadData for a place that is no part
  // of a region, kUnavailable where the copies of all requests are too many.
  InferRespond Fill(InferRequest& request, InferRespond respond);

 private:
  struct Opened;  // a region with its file
  using Owned = std::shared_ptr<const Opened>;
  // The region of a place that lies in it. Errors: kBadData.
  Owned RegionOf(const SharedPlace& place, const std::string& where) const;

  SharedLimits limits_;
  mutable std::mutex mutex_;
  std::map<std::string, Owned> regions_;
  std::atomic<int64_t> copied_ = 0;
};

// Bytes of inputs that lie in regions.
int64_t SharedBytesOf(const InferRequest& request);
// Whether inputs or outputs of it do.
bool UsesRegions(const InferRequest& request);

}  // namespace moka
