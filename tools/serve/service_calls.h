// The calls that a server answers, apart from HTTP and gRPC, which say them in their own ways. The module for gRPC is
// loaded at run time and shares these types with the program; no exception passes between the two.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tools/serve/model/model_counts.h"
#include "tools/serve/model/model_settings.h"
#include "tools/serve/wire_tensor.h"

namespace moka {

// Parts of the protocol, beyond its core, that HTTP and gRPC both have; kSharedMemory where the server has it.
inline constexpr std::array kExtensions = {"classification", "model_repository", "schedule_policy", "sequence",
                                           "statistics"};
inline constexpr const char* kSharedMemory = "system_shared_memory";
// Said to who sends settings with a load: to take them, or files, from whoever may call would be to run what they like.
inline constexpr const char* kLoadTakesNothing =
    "a load takes no parameters: what a model is set to lies beside it on the server";

enum class CallStatus : uint8_t {
  kWrong,        // the request is
  kNoToken,      // that the server knows
  kNotAllowed,   // to this caller, or on this server
  kNotFound,     // no such model or version
  kUnavailable,  // a model that is not loaded; a server that is closing
  kFull,         // too many requests wait
  kLate,         // the request waited longer than its timeout
  kGone,         // the client left
  kFailed        // by a fault of the server
};

// Why a call has no answer.
struct CallFailure {
  CallStatus status = CallStatus::kFailed;
  std::string text;
  std::string hint = {};
  double wait_s = 0;  // after so long to ask again makes sense
};

template <class Value>
using CallResult = std::variant<Value, CallFailure>;

// A tensor of a model; -1 stands for the rows.
struct TensorFacts {
  std::string name;
  std::vector<int64_t> shape;
};

// The time of a run of so many rows.
struct BatchFacts {
  int64_t rows = 0;
  double ms = 0;
};

struct ModelFacts {
  std::string name;
  std::string version;
  std::vector<std::string> versions;  // of the model that answer
  ModelSettings settings;
  bool is_on_gpu = false;
  std::string task;
  std::string asks;          // what predict takes: "picture" or "text"; "tensors" where only infer asks
  bool keeps_state = false;  // so that requests may be of sequences
  bool draws = false;
  std::vector<TensorFacts> inputs;
  std::vector<TensorFacts> outputs;
  std::vector<BatchFacts> batches;  // by rows
};

struct ModelStatistics {
  std::string name;
  std::string version;
  CountedModel counted;
};

// A version of a model as the index of the repository tells of it.
struct ModelListing {
  std::string name;
  std::string version;
  std::string state;  // "READY"
  std::string reason = {};
};

// A region of this machine's shared memory, as a client registers it.
struct SharedRegion {
  std::string name;    // that requests call it by
  std::string key;     // that it was made by, as shm_open takes it
  int64_t offset = 0;  // of its first byte
  int64_t bytes = 0;
};

// Regions that tensors may lie in. Thread-safe; nothing is thrown. `peer`: the caller's address.
class RegionCalls {
 public:
  RegionCalls() = default;
  RegionCalls(const RegionCalls&) = delete;
  RegionCalls& operator=(const RegionCalls&) = delete;
  virtual ~RegionCalls() = default;

  virtual std::optional<CallFailure> Register(const SharedRegion& region, std::string_view peer) = 0;
  // Without a name all.
  virtual std::optional<CallFailure> Unregister(const std::string& name, std::string_view peer) = 0;
  // Without a name all.
  virtual CallResult<std::vector<SharedRegion>> List(const std::string& name) const = 0;
};

// Said where there are no regions: kNotAllowed to who registers one, kWrong to who uses one.
inline CallFailure NoRegions(CallStatus status) {
  return {status, "this server takes no shared memory", "moka serve --shared-memory does"};
}

// Each is called once, by any thread.
using InferRespond = std::function<void(CallResult<InferAnswer> result)>;
using LoadRespond = std::function<void(std::optional<CallFailure> failure)>;

// Thread-safe; nothing is thrown.
class ServiceCalls {
 public:
  // `regions`: null where there is no shared memory.
  explicit ServiceCalls(RegionCalls* regions) : regions_(regions) {}
  ServiceCalls(const ServiceCalls&) = delete;
  ServiceCalls& operator=(const ServiceCalls&) = delete;
  virtual ~ServiceCalls() = default;
  RegionCalls* regions() const { return regions_; }

  // Why whoever sends "Bearer TOKEN" may not call; nothing: may. `loads`: to load and unload models.
  virtual std::optional<CallFailure> Refusal(std::string_view authorization, bool loads) const = 0;
  // Whether all models answer and will for a while.
  virtual bool IsReady() const = 0;
  // `version`: that which is to answer; empty: the highest.
  virtual CallResult<ModelFacts> Model(const std::string& name, const std::string& version) const = 0;
  // Statistics of the versions that answer: without a version of all, without a name of those of all models.
  virtual CallResult<std::vector<ModelStatistics>> Statistics(const std::string& name,
                                                              const std::string& version) const = 0;
  virtual std::vector<ModelListing> Index(bool wants_ready) const = 0;
  // Loads the versions of a model that it is set to, or unloads all. Answers once that is done.
  virtual void Load(const std::string& name, bool loads, LoadRespond respond) = 0;
  // `is_gone`: whether the client has left, so that what waits is dropped.
  virtual void Infer(const std::string& name, const std::string& version, InferRequest request,
                     std::shared_ptr<const std::atomic<bool>> is_gone, InferRespond respond) = 0;

 private:
  RegionCalls* regions_;
};

}  // namespace moka
