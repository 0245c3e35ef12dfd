// The identity of a run: run.json, written once and added to by each process that goes on with the run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace moka {

// Identity, written once to run.json; each process that works on the run adds a session.
struct RunIdentity {
  std::string name{};
  std::vector<std::string> argv{};
  std::string version{};
  uint64_t seed = 0;
  int threads = 0;
  std::string parent{};                       // "run@checkpoint" it was forked from
  std::map<std::string, std::string> more{};  // git revision, ranks, ...
  std::map<std::string, std::string> data{};  // of each file or data set that the nets read, what it holds
};

// Returns what a run's run.json says of its threads, its data and `more`, of which anything that is no text is left
// out. Empty where the file is none, which whoever opens the run tells.
RunIdentity IdentityOfRun(const std::filesystem::path& folder);

}  // namespace moka
