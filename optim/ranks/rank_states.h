// Reads the states that ranks last wrote of themselves to RUN/ranks/rank-N.json, and tells which rank held up the
// others.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace moka {

struct RankState {
  static constexpr const char* kFailed = "failed";
  int rank = 0;
  std::string host;
  int64_t pid = 0;
  std::string state;  // "training", "writing", ..., kFailed: by its own fault
  int64_t iteration = 0;
  int64_t collective = 0;        // number of the collective it began last
  int64_t bucket = -1;           // of gradients, in that collective; -1: none
  std::string layer;             // the last whose gradients were finished
  double updated_s = 0;          // seconds since 1970, by its host's clock
  std::vector<int> waits_for{};  // ranks; empty: it does not wait, or not for long
  int round = 0;                 // of the collective, if it waits
  bool is_sending = false;       // if it waits: not for what others send, but until they take
  int64_t batch = 0;             // samples that all ranks share out among them; 0: any number of ranks will do
  int lost = -1;                 // the rank that it has given up waiting for; -1: none
  std::string verdict{};         // and why
  bool is_stopping = false;      // it was asked to stop, and goes on as `state` says until it has
  int exit_code = 0;             // of kFailed: what the process ends with
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
// In this order: a rank that says of itself that it failed; one that wrote nothing while others did; one that others
// have given up waiting for; the only one that ended without a word when all were asked to; the one that those who wait
// in the lowest place wait for; one that fell silent kSilentS before the others; one that has begun fewer collectives,
// or iterations, than all others.
std::optional<Culprit> FindCulprit(const std::vector<RankState>& states, int ranks);

// Whether a rank other than `rank` is at work that is waited for (tests, checkpoints): it says so, waits for nobody,
// and has written since `since_s`.
bool IsOneWorking(const std::vector<RankState>& states, int rank, double since_s);

// Ranks write every second or more often, and clocks may differ by a second.
inline constexpr double kSilentS = 2.5;

}  // namespace moka
