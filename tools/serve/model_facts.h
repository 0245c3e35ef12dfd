// The server and its models as JSON tells of them.
#pragma once

#include <string>

#include "tools/serve/served_model.h"

namespace moka {

// Name, version and extensions.
std::string ServerFacts();
// Name, versions, platform, inputs and outputs; -1 stands for the rows.
std::string ModelFacts(const ServedModel& model);
// The settings of serving it, with the times that were measured, which batches are chosen by.
std::string ModelConfig(const ServedModel& model);
// The addresses of the server as OpenAPI 3.0 has them.
std::string OpenApiText();

}  // namespace moka
