// JSON with every field checked on the way back: a count cannot be negative.
#include "optim/checkpoint/trainer_state.h"

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json_bounds.h"
#include "core/json_whole.h"
#include "core/text.h"

namespace moka {
namespace {

using Json = nlohmann::json;

// A number of the object; a negative one is refused.
template <class Whole = int64_t>
Whole CountOf(const Json& json, const char* field) {
  const auto value = JsonWhole<Whole>(json.at(field));
  if (value < 0) throw Error(ErrorKind::kBadData, StrCat(field, " is ", value));
  return value;
}

GradientNoise NoiseOf(const Json& json) {
  GradientNoise noise{.measured = CountOf(json, "measured"),
                      .weight = json.at("weight").get<double>(),
                      .gradient_sum = json.at("gradient_sum").get<double>(),
                      .variance_sum = json.at("variance_sum").get<double>()};
  if (noise.weight > 0 && noise.weight <= 1) return noise;
  throw Error(ErrorKind::kBadData, StrCat("gradient_noise.weight is ", noise.weight));
}

TrainerState FromObject(const Json& json) {
  TrainerState state;
  state.iteration = CountOf(json, "iteration");
  state.seed = JsonWhole<uint64_t>(json.at("seed"));
  state.loss_window = json.at("loss_window").get<std::vector<double>>();
  state.smoothed_loss = json.at("smoothed_loss").get<double>();
  if (!json.at("best").is_null()) state.best = json.at("best").get<double>();
  state.best_iteration = JsonWhole<int64_t>(json.at("best_iteration"));
  state.tests_since_best = CountOf(json, "tests_since_best");
  for (const auto& [name, position] : json.at("positions").items()) {
    state.positions[name] = JsonWhole<int64_t>(position);
    if (state.positions[name] < 0) throw Error(ErrorKind::kBadData, StrCat("positions.", name, " is negative"));
  }
  if (json.contains("plateau")) {
    const Json& plateau = json.at("plateau");
    state.plateau = {.minimum_loss = plateau.at("minimum_loss").get<double>(),
                     .last_event = CountOf(plateau, "last_event"),
                     .step = CountOf<int>(plateau, "step")};
  }
  state.skipped_updates = CountOf(json, "skipped_updates");
  if (json.contains("waiting_ranks")) state.waiting_ranks = CountOf(json, "waiting_ranks");
  if (json.contains("is_test_due")) state.is_test_due = json.at("is_test_due").get<bool>();
  if (json.contains("gradient_noise")) state.noise = NoiseOf(json.at("gradient_noise"));
  if (json.contains("clock_s")) state.clock_s = json.at("clock_s").get<double>();
  if (state.clock_s < 0) throw Error(ErrorKind::kBadData, StrCat("clock_s is ", state.clock_s));
  return state;
}

}  // namespace

std::string ToJson(const TrainerState& state) {
  Json json;
  json["iteration"] = state.iteration;
  json["seed"] = state.seed;
  json["loss_window"] = state.loss_window;
  json["smoothed_loss"] = state.smoothed_loss;
  json["best"] = state.best ? Json(*state.best) : Json();
  json["best_iteration"] = state.best_iteration;
  json["tests_since_best"] = state.tests_since_best;
  json["positions"] = state.positions;
  if (state.plateau != PlateauState()) {
    json["plateau"] = {{"minimum_loss", state.plateau.minimum_loss},
                       {"last_event", state.plateau.last_event},
                       {"step", state.plateau.step}};
  }
  json["skipped_updates"] = state.skipped_updates;
  if (state.waiting_ranks > 0) json["waiting_ranks"] = state.waiting_ranks;
  if (state.is_test_due) json["is_test_due"] = true;
  if (state.noise.measured > 0) {
    json["gradient_noise"] = {{"measured", state.noise.measured},
                              {"weight", state.noise.weight},
                              {"gradient_sum", state.noise.gradient_sum},
                              {"variance_sum", state.noise.variance_sum}};
  }
  if (state.clock_s > 0) json["clock_s"] = state.clock_s;
  return json.dump(1) + "\n";
}

TrainerState TrainerStateFromJson(std::string_view json, const std::string& where) {
  try {
    CheckJsonBounds(json, {});
    const Json parsed = Json::parse(json);
    return FromObject(parsed);
  } catch (const Json::exception& e) {
    throw Error(ErrorKind::kBadData, StrCat(where, ": not a trainer's state: ", Printable(e.what())));
  } catch (const Error& e) {
    throw Error(ErrorKind::kBadData, StrCat(where, ": not a trainer's state: ", Printable(e.text())));
  }
}

}  // namespace moka
