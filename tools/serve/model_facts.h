// The server and its models as JSON tells of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/serve/served_model.h"
#include "tools/serve/service_calls.h"

namespace moka {

// A model as clients may know it; `versions`: those of it that answer.
ModelFacts FactsOf(const ServedModel& model, const std::vector<std::shared_ptr<ServedModel>>& versions);

// Name, version and extensions; `has_regions`: whether shared memory is among them.
std::string ServerFactsJson(bool has_regions);
// Name, versions, platform, inputs and outputs; -1 stands for the rows.
std::string ModelFactsJson(const ModelFacts& facts);
// The settings of serving it, with the times that were measured, which batches are chosen by.
std::string ModelConfigJson(const ModelFacts& facts);
// The addresses of the server as OpenAPI 3.0 has them.
std::string OpenApiText();

}  // namespace moka
