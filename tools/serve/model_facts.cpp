// The protocol's metadata, and what a person asks who wonders how batches are chosen.
#include "tools/serve/model_facts.h"

#include <nlohmann/json.hpp>

#include "core/text.h"
#include "tools/serve/openapi.h"
#include "tools/serve/service_answers.h"

namespace moka {
namespace {

using Json = nlohmann::ordered_json;

std::vector<TensorFacts> TensorsOf(const std::vector<ServedTensor>& tensors) {
  std::vector<TensorFacts> facts;
  for (const ServedTensor& tensor : tensors) {
    facts.push_back({tensor.name, {-1}});
    facts.back().shape.insert(facts.back().shape.end(), tensor.row.begin(), tensor.row.end());
  }
  return facts;
}

Json JsonOf(const std::vector<TensorFacts>& tensors) {
  Json list = Json::array();
  for (const TensorFacts& tensor : tensors)
    list.push_back({{"name", tensor.name}, {"datatype", "FP32"}, {"shape", tensor.shape}});
  return list;
}

Json JsonOf(const VersionPolicy& policy) {
  switch (policy.choice) {
    case VersionPolicy::Choice::kLatest: return {{"latest", {{"num_versions", policy.latest}}}};
    case VersionPolicy::Choice::kAll: return {{"all", Json::object()}};
    case VersionPolicy::Choice::kSpecific: return {{"specific", {{"versions", policy.specific}}}};
  }
  return {};
}

Json JsonOf(const QueuePolicy& queue) {
  return {{"timeout_action", "REJECT"},
          {"default_timeout_microseconds", queue.timeout.count()},
          {"allow_timeout_override", queue.allows_shorter},
          {"max_queue_size", queue.most_waiting}};
}

Json BatchingOf(const ModelSettings& settings) {
  Json batching = {{"preferred_batch_size", settings.preferred_rows},
                   {"max_queue_delay_microseconds", settings.most_delay.count()},
                   {"preserve_ordering", settings.preserves_order},
                   {"priority_levels", settings.priorities},
                   {"default_priority_level", settings.usual_priority},
                   {"default_queue_policy", JsonOf(settings.queue)}};
  for (const auto& [priority, queue] : settings.queues)
    batching["priority_queue_policy"][StrCat(priority)] = JsonOf(queue);
  return batching;
}

// Without the rows.
Json ConfigJsonOf(const std::vector<TensorFacts>& tensors) {
  Json list = Json::array();
  for (const TensorFacts& tensor : tensors) {
    const std::vector<int64_t> row(tensor.shape.begin() + 1, tensor.shape.end());
    list.push_back({{"name", tensor.name}, {"data_type", "TYPE_FP32"}, {"dims", row}});
  }
  return list;
}

std::string AsksOf(const ServedModel& model) {
  if (model.answers() == nullptr) return "tensors";
  return model.answers()->kind() == AskedKind::kPicture ? "picture" : "text";
}

}  // namespace

ModelFacts FactsOf(const ServedModel& model, const std::vector<std::shared_ptr<ServedModel>>& versions) {
  ModelFacts facts{.name = model.name(),
                   .version = model.version(),
                   .versions = {},
                   .settings = model.settings(),
                   .is_on_gpu = !model.source().compile.device.is_cpu(),
                   .task = std::string(ModelCard::Task_Name(model.source().card.task())),
                   .asks = AsksOf(model),
                   .keeps_state = model.states() != nullptr,
                   .draws = model.answers() != nullptr && model.answers()->draws(),
                   .inputs = TensorsOf(model.inputs()),
                   .outputs = TensorsOf(model.outputs()),
                   .batches = {}};
  for (const auto& version : versions) facts.versions.push_back(version->version());
  for (const Rung& rung : model.rungs()) facts.batches.push_back({rung.rows, rung.ms});
  return facts;
}

std::string ServerFactsJson(bool has_regions) {
  Json extensions = kExtensions;
  if (has_regions) extensions.push_back(kSharedMemory);
  extensions.insert(extensions.end(), {"binary_tensor_data", "predict"});
  return DumpJson(Json{{"name", "moka"}, {"version", MOKA_VERSION}, {"extensions", extensions}});
}

std::string ModelFactsJson(const ModelFacts& facts) {
  return DumpJson(Json{{"name", facts.name},
                       {"versions", facts.versions},
                       {"platform", "moka_prototxt"},
                       {"inputs", JsonOf(facts.inputs)},
                       {"outputs", JsonOf(facts.outputs)}});
}

std::string ModelConfigJson(const ModelFacts& facts) {
  Json batches = Json::array();
  for (const BatchFacts& batch : facts.batches) batches.push_back({{"rows", batch.rows}, {"ms", batch.ms}});
  Json config = {{"name", facts.name},
                 {"platform", "moka_prototxt"},
                 {"task", facts.task},
                 {"asks", facts.asks},
                 {"draws", facts.draws},
                 {"version_policy", JsonOf(facts.settings.versions)},
                 {"max_batch_size", facts.batches.empty() ? 0 : facts.batches.back().rows},
                 {"input", ConfigJsonOf(facts.inputs)},
                 {"output", ConfigJsonOf(facts.outputs)},
                 {"dynamic_batching", BatchingOf(facts.settings)},
                 {"instance_group", {{{"count", 1}, {"kind", facts.is_on_gpu ? "KIND_GPU" : "KIND_CPU"}}}},
                 {"batches", batches}};
  for (const WarmUp& warm_up : facts.settings.warm_ups)
    config["model_warmup"].push_back({{"batch_size", warm_up.rows}, {"count", warm_up.runs}});
  if (facts.keeps_state) {
    const SequenceLimits& sequences = facts.settings.sequences;
    config["sequence_batching"] = {{"max_sequence_idle_microseconds", sequences.idle.count()},
                                   {"oldest", {{"max_candidate_sequences", sequences.most}}}};
  }
  return DumpJson(config);
}

std::string OpenApiText() { return std::string(OpenApiDocument()); }

Json CallJsonOf(const std::string& body) {
  constexpr int64_t kMostBytes = 4096;
  if (std::ssize(body) > kMostBytes)
    throw Error(ErrorKind::kBadData, StrCat("the body has more than ", kMostBytes, " bytes"));
  Json json = Json::parse(body, nullptr, false);
  if (!json.is_object()) throw Error(ErrorKind::kBadData, "the body is no JSON object");
  return json;
}

void CheckRepositoryCall(const std::string& body) {
  if (Trim(body).empty()) return;
  const Json json = CallJsonOf(body);
  const Json given = json.size() == 1 && json.contains("parameters") ? json["parameters"] : json;
  // No model depends on another, so this asks for nothing; clients send it always.
  const bool is_of_dependents = given.size() == 1 && given.contains("unload_dependents");
  if (given.empty() || is_of_dependents) return;
  throw Error(ErrorKind::kBadData, {}, kLoadTakesNothing, "leave the body out");
}

bool CheckIndexCall(const std::string& body) {
  if (Trim(body).empty()) return false;
  const Json json = CallJsonOf(body);
  bool wants_ready = false;
  for (const auto& [name, value] : json.items()) {
    if (name == "ready" && !value.is_boolean())
      throw Error(ErrorKind::kBadData, "field \"ready\" is neither true nor false");
    if (name != "ready")
      throw Error(ErrorKind::kBadData, {}, StrCat("unknown field \"", Printable(name), "\""),
                  "{\"ready\": true} is known");
    wants_ready = value.get<bool>();
  }
  return wants_ready;
}

}  // namespace moka
