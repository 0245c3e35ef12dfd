// The file is written as a whole; one that is damaged is an error which says how to write it anew.
#include "tools/zoo/expected.h"

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "core/json_bounds.h"
#include "core/json_whole.h"
#include "core/text.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

ExpectedOutput OutputFrom(const Json& json) {
  ExpectedOutput output{json.at("net").get<std::string>(), json.at("blob").get<std::string>(), {}};
  std::vector<int64_t> dims;
  for (const Json& dim : json.at("shape")) dims.push_back(JsonWhole<int64_t>(dim));
  output.summary.shape = Shape(dims);
  output.summary.mean = json.at("mean").get<double>();
  output.summary.deviation = json.at("deviation").get<double>();
  output.summary.projection = json.at("projection").get<double>();
  return output;
}

Expected ExpectedFrom(const Json& json) {
  Expected expected;
  expected.parameters = JsonWhole<int64_t>(json.at("parameters"));
  expected.statistics = JsonWhole<int64_t>(json.at("statistics"));
  expected.deployed_parameters = JsonWhole<int64_t>(json.at("deployed_parameters"));
  expected.macs = JsonWhole<int64_t>(json.at("macs"));
  expected.input = json.at("input").get<std::string>();
  for (const Json& output : json.at("outputs")) expected.outputs.push_back(OutputFrom(output));
  if (json.contains("training")) {
    const Json& t = json["training"];
    expected.training = {JsonWhole<int64_t>(t.at("batch")), JsonWhole<int64_t>(t.at("steps")),
                         t.at("first_loss").get<double>(), t.at("last_loss").get<double>()};
  }
  if (json.contains("memory"))
    expected.memory = {JsonWhole<int64_t>(json["memory"].at("batch")), JsonWhole<int64_t>(json["memory"].at("bytes"))};
  return expected;
}

}  // namespace

std::optional<Expected> ReadExpected(const fs::path& folder) {
  const fs::path file = folder / kExpectedFile;
  std::error_code code;
  if (!fs::is_regular_file(file, code)) return std::nullopt;
  try {
    const std::string text = ReadFile(file);
    CheckJsonBounds(text, file.string());
    return ExpectedFrom(Json::parse(text));
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::kBadData, {}, StrCat(file.string(), ": ", error.what()),
                "moka zoo verify NAME --update writes it anew");
  } catch (Error& error) {
    throw error.SetPlace({.file = file.string()});
  }
}

void WriteExpected(const Expected& expected, const fs::path& folder) {
  Json outputs = Json::array();
  for (const auto& [net, blob, summary] : expected.outputs) {
    outputs.push_back({{"net", net},
                       {"blob", blob},
                       {"shape", std::vector<int64_t>(summary.shape.dims().begin(), summary.shape.dims().end())},
                       {"mean", summary.mean},
                       {"deviation", summary.deviation},
                       {"projection", summary.projection}});
  }
  Json json = {{"parameters", expected.parameters},
               {"statistics", expected.statistics},
               {"deployed_parameters", expected.deployed_parameters},
               {"macs", expected.macs},
               {"input", expected.input},
               {"outputs", std::move(outputs)}};
  if (expected.training) {
    json["training"] = {{"batch", expected.training->batch},
                        {"steps", expected.training->steps},
                        {"first_loss", expected.training->first_loss},
                        {"last_loss", expected.training->last_loss}};
  }
  if (expected.memory) json["memory"] = {{"batch", expected.memory->batch}, {"bytes", expected.memory->bytes}};
  WriteFileAtomically(folder / kExpectedFile, json.dump(2) + "\n");
}

}  // namespace moka
