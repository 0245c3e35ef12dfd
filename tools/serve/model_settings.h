// What serving a model is set to, by serve.pbtxt in its folder (proto/serve.proto); all that is not said there is
// derived.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

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

struct ModelSettings {
  VersionPolicy versions = {};
};

// Where there is no such file, the settings of a model that says nothing. Errors: kBadData (no text), ErrorList or
// Error of kConfig at file:line:column for what the schema does not have and for what cannot be done.
ModelSettings ReadModelSettings(const std::filesystem::path& file);

}  // namespace moka
