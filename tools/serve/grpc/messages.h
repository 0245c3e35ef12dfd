// Requests and answers between gRPC's messages and the types of the service.
#pragma once

#include <string>
#include <vector>

#include "tools/serve/grpc/inference.pb.h"
#include "tools/serve/service_calls.h"
#include "tools/serve/wire_tensor.h"

namespace moka {

// Errors: kBadData naming the input, output or parameter, and what was expected.
InferRequest RequestOf(const inference::ModelInferRequest& message);
// Whether outputs are answered as raw bytes: where no input came as contents.
bool WantsRaw(const inference::ModelInferRequest& message);
void WriteAnswer(const InferAnswer& answer, bool is_raw, inference::ModelInferResponse& message);

void WriteMetadata(const ModelFacts& facts, inference::ModelMetadataResponse& message);
void WriteConfig(const ModelFacts& facts, inference::ModelConfig& message);
void WriteStatistics(const std::vector<ModelStatistics>& models, inference::ModelStatisticsResponse& message);
void WriteRegions(const std::vector<SharedRegion>& regions, inference::SystemSharedMemoryStatusResponse& message);
void WriteIndex(const std::vector<ModelListing>& models, inference::RepositoryIndexResponse& message);

// A failure on one line, as the status of a call carries it: UTF-8 of a length that every client takes.
std::string FailureText(const CallFailure& failure);

}  // namespace moka
