// The rules by which the culprit is found, strongest first: a rank's own verdict, one that fell silent, one that others
// wait for, one that is behind. Each must name one rank alone, or it says nothing.
#include "optim/ranks/rank_states.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "core/error.h"
#include "core/file.h"
#include "core/json_whole.h"
#include "core/text.h"

namespace moka {
namespace {

constexpr int64_t kStateLimitBytes = int64_t{1} << 20;

RankState StateOf(const nlohmann::json& json) {
  RankState state;
  state.rank = JsonWhole<int>(json.at("rank"));
  state.host = json.value("host", "");
  state.pid = JsonWholeOr<int64_t>(json, "pid", 0);
  state.state = json.value("state", "");
  state.iteration = JsonWholeOr<int64_t>(json, "iteration", 0);
  state.collective = JsonWholeOr<int64_t>(json, "collective", 0);
  state.bucket = JsonWholeOr<int64_t>(json, "bucket", -1);
  state.layer = json.value("layer", "");
  state.updated_s = json.at("updated_s");
  for (const nlohmann::json& rank : json.value("waits_for", nlohmann::json::array())) {
    state.waits_for.push_back(JsonWhole<int>(rank));
  }
  state.round = JsonWholeOr<int>(json, "round", 0);
  state.is_sending = json.value("is_sending", false);
  state.batch = JsonWholeOr<int64_t>(json, "batch", 0);
  state.lost = JsonWholeOr<int>(json, "lost", -1);
  state.verdict = json.value("verdict", "");
  state.is_stopping = json.value("is_stopping", false);
  state.exit_code = JsonWholeOr<int>(json, "exit_code", 0);
  return state;
}

// "iteration 40, collective 1203, bucket 2, layer conv4".
std::string PlaceText(const RankState& state) {
  std::string text = StrCat("iteration ", state.iteration, ", collective ", state.collective);
  if (state.bucket >= 0) text += StrCat(", bucket ", state.bucket);
  if (!state.layer.empty()) text += ", last layer " + Printable(state.layer);
  return text;
}

Culprit Named(const RankState& state, const std::string& why) {
  return {state.rank, state.host,
          StrCat("rank ", state.rank, " on ", Printable(state.host), " (pid ", state.pid, ") ", why, ": ",
                 PlaceText(state))};
}

// The state in which `field` is least, if it is so in one state only and `gap` below all others.
template <class T, class Field>
const RankState* Lowest(const std::vector<RankState>& states, Field field, T gap) {
  const auto lowest = std::ranges::min_element(states, {}, field);
  for (const RankState& other : states) {
    if (&other != &*lowest && other.*field - (*lowest).*field < gap) return nullptr;
  }
  return &*lowest;
}

std::optional<Culprit> FindMissing(const std::vector<RankState>& states, int ranks) {
  std::set<int> seen;
  for (const RankState& state : states) seen.insert(state.rank);
  for (int rank = 0; rank < ranks; ++rank) {
    if (!seen.contains(rank))
      return Culprit{rank, "", StrCat("rank ", rank, " wrote nothing of itself: it did not start, or not in this run")};
  }
  return std::nullopt;
}

const RankState* StateOfRank(const std::vector<RankState>& states, int rank) {
  const auto it = std::ranges::find(states, rank, &RankState::rank);
  return it == states.end() ? nullptr : &*it;
}

// The rank with most votes; nothing if two have as many.
std::optional<int> Elected(const std::map<int, int>& votes) {
  std::optional<int> elected;
  int most = 0;
  for (const auto& [rank, count] : votes) {
    if (count == most) elected.reset();
    if (count > most) elected = rank;
    most = std::max(most, count);
  }
  return elected;
}

// Returns the culprit named by a rank that gave up, whatever happened to the others after it.
std::optional<Culprit> FindVerdict(const std::vector<RankState>& states) {
  std::map<int, int> votes;
  for (const RankState& state : states) {
    if (state.lost >= 0) ++votes[state.lost];
  }
  const std::optional<int> lost = Elected(votes);
  if (!lost) return std::nullopt;
  const RankState* of_lost = StateOfRank(states, *lost);
  const auto judge = std::ranges::find(states, *lost, &RankState::lost);
  return Culprit{*lost, of_lost == nullptr ? std::string() : of_lost->host, Printable(judge->verdict)};
}

// mpirun asks all ranks to stop when one is gone; that one does not answer.
const RankState* FindVanished(const std::vector<RankState>& states) {
  const auto answers = [](const RankState& state) { return state.is_stopping; };
  const auto silent = std::ranges::find_if_not(states, answers);
  if (silent == states.end() || std::ranges::count_if(states, answers) + 1 != std::ssize(states)) return nullptr;
  return &*silent;
}

// Returns the rank that others wait for. Among the waiting ranks, those at the lowest place wait for the one that holds
// up all. A rank that has fallen silent is left out, as its words are too old.
std::optional<Culprit> FindWaitedFor(const std::vector<RankState>& states, double newest_s) {
  const auto place = [](const RankState& s) { return std::tuple(s.collective, s.round, s.is_sending); };
  std::vector<RankState> waiting;
  for (const RankState& state : states) {
    if (!state.waits_for.empty() && state.updated_s > newest_s - kSilentS) waiting.push_back(state);
  }
  if (waiting.empty()) return std::nullopt;
  const auto lowest = place(*std::ranges::min_element(waiting, {}, place));
  std::erase_if(waiting, [&](const RankState& state) { return place(state) != lowest; });
  std::map<int, int> votes;
  std::vector<std::string> waiters;
  for (const RankState& state : waiting) {
    for (const int rank : state.waits_for) ++votes[rank];
  }
  std::optional<int> culprit = Elected(votes);
  if (!culprit) {  // ranks that wait in a chain, as in a pipeline: one who waits as well holds nobody up
    for (const RankState& waiter : waiting) votes.erase(waiter.rank);
    culprit = Elected(votes);
  }
  const RankState* state = culprit ? StateOfRank(states, *culprit) : nullptr;
  if (state == nullptr) return std::nullopt;
  for (const RankState& waiter : waiting) {
    if (std::ranges::count(waiter.waits_for, *culprit) > 0) waiters.push_back(StrCat(waiter.rank));
  }
  const double silent_s = newest_s - state->updated_s;
  return Named(*state, StrCat("is waited for by rank", waiters.size() == 1 ? " " : "s ", Join(waiters, ", "),
                              silent_s < kSilentS ? std::string() : fmt::format(" and silent for {:.1f} s", silent_s)));
}

}  // namespace

bool IsOneWorking(const std::vector<RankState>& states, int rank, double since_s) {
  return std::ranges::any_of(states, [&](const RankState& state) {
    const bool is_slow_work = state.state == "testing" || state.state == "writing";
    return state.rank != rank && is_slow_work && state.waits_for.empty() && state.updated_s >= since_s;
  });
}

void WriteRankState(const std::filesystem::path& run, const RankState& state) {
  const nlohmann::ordered_json json{{"rank", state.rank},
                                    {"host", state.host},
                                    {"pid", state.pid},
                                    {"state", state.state},
                                    {"iteration", state.iteration},
                                    {"collective", state.collective},
                                    {"bucket", state.bucket},
                                    {"layer", state.layer},
                                    {"updated_s", state.updated_s},
                                    {"waits_for", state.waits_for},
                                    {"round", state.round},
                                    {"is_sending", state.is_sending},
                                    {"batch", state.batch},
                                    {"lost", state.lost},
                                    {"verdict", state.verdict},
                                    {"is_stopping", state.is_stopping},
                                    {"exit_code", state.exit_code}};
  const std::filesystem::path path = run / "ranks" / StrCat("rank-", state.rank, ".json");
  try {
    PlaceFile(path, json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  } catch (const Error&) {
    // Said again in a moment: what cannot be written now is no reason to stop.
  }
}

std::vector<RankState> ReadRankStates(const std::filesystem::path& run, double since_s) {
  std::vector<RankState> states;
  std::error_code code;
  if (!std::filesystem::is_directory(run / "ranks", code)) return states;
  for (const std::filesystem::path& file : ListFiles(run / "ranks", ".json")) {
    try {
      const RankState state = StateOf(nlohmann::json::parse(ReadFile(file, kStateLimitBytes)));
      if (state.updated_s >= since_s) states.push_back(state);
    } catch (const Error&) {
      continue;
    } catch (const nlohmann::json::exception&) {
      continue;
    }
  }
  std::ranges::sort(states, {}, &RankState::rank);
  return states;
}

std::optional<Culprit> FindCulprit(const std::vector<RankState>& states, int ranks) {
  if (states.empty()) return std::nullopt;
  for (const RankState& state : states) {
    if (state.state == RankState::kFailed) return Named(state, "failed");
  }
  if (std::optional<Culprit> missing = FindMissing(states, ranks)) return missing;
  if (states.size() < 2) return std::nullopt;
  if (std::optional<Culprit> lost = FindVerdict(states)) return lost;
  if (const RankState* vanished = FindVanished(states)) return Named(*vanished, "ended without a word");
  const double newest = std::ranges::max_element(states, {}, &RankState::updated_s)->updated_s;
  if (std::optional<Culprit> waited_for = FindWaitedFor(states, newest)) return waited_for;
  if (const RankState* silent = Lowest(states, &RankState::updated_s, kSilentS))
    return Named(*silent,
                 fmt::format("fell silent {:.1f} s before the last of the others", newest - silent->updated_s));
  if (const RankState* behind = Lowest(states, &RankState::collective, int64_t{1}))
    return Named(*behind, "is behind all others");
  if (const RankState* behind = Lowest(states, &RankState::iteration, int64_t{1}))
    return Named(*behind, "is behind all others");
  return std::nullopt;
}

}  // namespace moka
