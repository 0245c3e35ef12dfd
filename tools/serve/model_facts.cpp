// The protocol's metadata, and what a person asks who wonders how batches are chosen.
#include "tools/serve/model_facts.h"

#include <nlohmann/json.hpp>

#include "core/text.h"
#include "tools/serve/openapi.h"
#include "tools/serve/service_answers.h"

namespace moka {
namespace {

using Json = nlohmann::ordered_json;

Json ShapeOf(const ServedTensor& tensor) {
  Json shape = Json::array({-1});
  for (const int64_t side : tensor.row) shape.push_back(side);
  return shape;
}

Json TensorsOf(const std::vector<ServedTensor>& tensors) {
  Json list = Json::array();
  for (const ServedTensor& tensor : tensors) {
    list.push_back({{"name", tensor.name}, {"datatype", "FP32"}, {"shape", ShapeOf(tensor)}});
  }
  return list;
}

}  // namespace

std::string ServerFacts() {
  return DumpJson(
      Json{{"name", "moka"},
           {"version", MOKA_VERSION},
           {"extensions",
            {"binary_tensor_data", "classification", "model_repository", "schedule_policy", "statistics", "predict"}}});
}

std::string ModelFacts(const ServedModel& model) {
  return DumpJson(Json{{"name", model.name()},
                       {"versions", {model.version()}},
                       {"platform", "moka_prototxt"},
                       {"inputs", TensorsOf(model.inputs())},
                       {"outputs", TensorsOf(model.outputs())}});
}

std::string ModelConfig(const ServedModel& model) {
  const auto described = [](const std::vector<ServedTensor>& tensors) {
    Json list = Json::array();
    for (const ServedTensor& tensor : tensors)
      list.push_back({{"name", tensor.name}, {"data_type", "TYPE_FP32"}, {"dims", tensor.row}});
    return list;
  };
  Json rungs = Json::array();
  for (const Rung& rung : model.rungs()) rungs.push_back({{"rows", rung.rows}, {"ms", rung.ms}});
  return DumpJson(Json{{"name", model.name()},
                       {"platform", "moka_prototxt"},
                       {"task", ModelCard::Task_Name(model.source().card.task())},
                       {"version_policy", {{"latest", {{"num_versions", 1}}}}},
                       {"max_batch_size", model.rungs().empty() ? 0 : model.rungs().back().rows},
                       {"input", described(model.inputs())},
                       {"output", described(model.outputs())},
                       {"dynamic_batching", {{"max_queue_delay_microseconds", 0}}},
                       {"batches", rungs}});
}

std::string OpenApiText() { return std::string(OpenApiDocument()); }

namespace {

// Errors: kBadData for more than any call has to say.
void CheckSize(const std::string& body) {
  constexpr int64_t kMostBytes = 4096;
  if (std::ssize(body) > kMostBytes)
    throw Error(ErrorKind::kBadData, StrCat("the body has more than ", kMostBytes, " bytes"));
}

}  // namespace

void CheckRepositoryCall(const std::string& body) {
  if (Trim(body).empty()) return;
  CheckSize(body);
  const Json json = Json::parse(body, nullptr, false);
  if (!json.is_object()) throw Error(ErrorKind::kBadData, "the body is no JSON object");
  const Json given = json.size() == 1 && json.contains("parameters") ? json["parameters"] : json;
  // No model depends on another, so this asks for nothing; clients send it always.
  const bool is_of_dependents = given.size() == 1 && given.contains("unload_dependents");
  if (given.empty() || is_of_dependents) return;
  throw Error(ErrorKind::kBadData, {},
              "a load takes no parameters: what a model is set to lies beside it on the server", "leave the body out");
}

bool CheckIndexCall(const std::string& body) {
  if (Trim(body).empty()) return false;
  CheckSize(body);
  const Json json = Json::parse(body, nullptr, false);
  if (!json.is_object()) throw Error(ErrorKind::kBadData, "the body is no JSON object");
  bool wants_ready = false;
  for (const auto& [name, value] : json.items()) {
    if (name != "ready" || !value.is_boolean())
      throw Error(ErrorKind::kBadData, {}, StrCat("unknown field \"", Printable(name), "\""),
                  "{\"ready\": true} is known");
    wants_ready = value.get<bool>();
  }
  return wants_ready;
}

}  // namespace moka
