// The settings by which a model is served: serve.pbtxt in its folder (proto/serve.proto); all that is not said there is
// derived.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <vector>

#include "core/error.h"
#include "tools/serve/model/sequences.h"

namespace moka {

inline constexpr const char* kSettingsFile = "serve.pbtxt";

// The versions of a model that are served beside each other.
struct VersionPolicy {
  enum class Choice : uint8_t { kLatest, kAll, kSpecific };
  Choice choice = Choice::kLatest;
  int64_t latest = 1;                  // so many of the highest
  std::vector<int64_t> specific = {};  // ascending

  // Those of the versions that are there which are to be served, ascending. Requires: `there` ascends.
  std::vector<int64_t> Chosen(const std::vector<int64_t>& there) const;
};

// How long requests may wait, and how many.
struct QueuePolicy {
  std::chrono::microseconds timeout{0};  // of those that name none; 0: none
  bool allows_shorter = true;            // a request's own time counts where it is shorter
  int64_t most_waiting = 0;              // 0: as many as the server takes of all models

  // How long a request may wait whose own time is this; 0: any time.
  std::chrono::microseconds WaitOf(std::chrono::microseconds own) const;
};

// The device that a model is to run on.
struct WantedDevice {
  bool is_gpu = false;
  std::vector<int64_t> gpus = {};  // none: any
  SourcePlace place = {};
};

// Runs before a model is ready.
struct WarmUp {
  int64_t rows = 1;
  int64_t runs = 1;
};

struct ModelSettings {
  VersionPolicy versions = {};
  std::optional<int64_t> most_rows = {};     // of a run
  std::vector<int64_t> preferred_rows = {};  // ascending; those of runs beside one row
  std::chrono::microseconds most_delay{0};   // that a batch which is not full waits for others
  std::vector<WarmUp> warm_ups = {};
  std::optional<SourcePlace> rows_place = {};  // of a field that is of nets which run several rows at once
  bool preserves_order = false;
  int64_t priorities = 16;
  int64_t usual_priority = 8;  // of requests that name none
  QueuePolicy queue = {};
  std::map<int64_t, QueuePolicy> queues = {};  // of priorities with one of their own
  SequenceLimits sequences = {};
  std::optional<SourcePlace> sequences_place = {};  // where the file has them
  std::optional<WantedDevice> device = {};

  // The policy for requests of that priority; 0: for those that name none.
  const QueuePolicy& QueueOf(int64_t priority) const;
  // The rows of programs beside that for one, ascending. `usual_most`: of models that do not say.
  std::vector<int64_t> RowsOfRuns(int64_t usual_most) const;
};

// Where there is no such file, the settings of a model that says nothing. Errors: kBadData (no text), ErrorList or
// Error of kConfig at file:line:column for what the schema does not have and for what cannot be done.
ModelSettings ReadModelSettings(const std::filesystem::path& file);

}  // namespace moka
