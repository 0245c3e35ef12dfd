#include "optim/rank_states.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"

namespace moka {
namespace {

constexpr int64_t kLimitBytes = int64_t{1} << 20;

RankState StateOf(const nlohmann::json& json) {
  RankState state;
  state.rank = json.at("rank");
  state.host = json.value("host", "");
  state.pid = json.value("pid", int64_t{0});
  state.state = json.value("state", "");
  state.iteration = json.value("iteration", int64_t{0});
  state.collective = json.value("collective", int64_t{0});
  state.bucket = json.value("bucket", int64_t{-1});
  state.layer = json.value("layer", "");
  state.updated_s = json.at("updated_s");
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

}  // namespace

void WriteRankState(const std::filesystem::path& run, const RankState& state) {
  const nlohmann::ordered_json json{
      {"rank", state.rank},     {"host", state.host},           {"pid", state.pid},
      {"state", state.state},   {"iteration", state.iteration}, {"collective", state.collective},
      {"bucket", state.bucket}, {"layer", state.layer},         {"updated_s", state.updated_s}};
  const std::filesystem::path path = run / "ranks" / StrCat("rank-", state.rank, ".json");
  std::filesystem::path temporary = path;
  temporary += ".new";
  std::ofstream(temporary) << json.dump() << "\n";
  std::error_code code;
  std::filesystem::rename(temporary, path, code);
}

std::vector<RankState> ReadRankStates(const std::filesystem::path& run, double since_s) {
  std::vector<RankState> states;
  std::error_code code;
  if (!std::filesystem::is_directory(run / "ranks", code)) return states;
  for (const std::filesystem::path& file : ListFiles(run / "ranks", ".json")) {
    try {
      const RankState state = StateOf(nlohmann::json::parse(ReadFile(file, kLimitBytes)));
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
    if (state.state == "failed") return Named(state, "failed");
  }
  if (const std::optional<Culprit> missing = FindMissing(states, ranks)) return missing;
  if (states.size() < 2) return std::nullopt;
  const double newest = std::ranges::max_element(states, {}, &RankState::updated_s)->updated_s;
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
