// What every rank last wrote of itself to RUN/ranks/rank-N.json, and which of them held up the others.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace moka {

struct RankState {
  int rank = 0;
  std::string host;
  int64_t pid = 0;
  std::string state;  // "running", "waiting", "failed", ...
  int64_t iteration = 0;
  int64_t collective = 0;  // number of the collective it began last
  int64_t bucket = -1;     // of gradients, in that collective; -1: none
  std::string layer;       // the last whose gradients were finished
  double updated_s = 0;    // seconds since 1970, by its host's clock
};

// The files of a run that were written since `since_s`, by rank. Files that cannot be read are left out: a rank that
// died while writing leaves its last whole one.
std::vector<RankState> ReadRankStates(const std::filesystem::path& run, double since_s);

// Whole or not at all, but not safe against power loss, which would end the rank as well. What cannot be written is
// silence, which is what it would say.
void WriteRankState(const std::filesystem::path& run, const RankState& state);

struct Culprit {
  int rank = 0;
  std::string host;  // empty: unknown
  std::string text;  // which rank, where, what it did last, and why it is taken for the cause
};

// The rank that most likely ended a job of `ranks` ranks; nothing if the states do not tell one from the others.
// In this order: a rank that says of itself that it failed; one that wrote nothing while others did; one that fell
// silent kSilentS before the others; one that has begun fewer collectives, or iterations, than all others.
std::optional<Culprit> FindCulprit(const std::vector<RankState>& states, int ranks);

// Ranks write every second, and clocks may differ by kClockLimitS.
inline constexpr double kSilentS = 2.5;

}  // namespace moka
