// A row a call: what it asks the service, and the message that its answer becomes.
#include "tools/serve/grpc/inference_service.h"

#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "tools/serve/grpc/call_parts.h"
#include "tools/serve/grpc/messages.h"

namespace moka {
namespace {

UnaryCall* NewCall(std::shared_ptr<OpenCalls> open) { return std::make_unique<UnaryCall>(std::move(open)).release(); }

// Writes a value, or says why there is none.
template <class Value, class Write>
grpc::Status Written(const CallResult<Value>& result, const Write& write) {
  if (const auto* failure = std::get_if<CallFailure>(&result)) return StatusOf(*failure);
  write(std::get<Value>(result));
  return grpc::Status::OK;
}

// Why a repository other than the one that there is cannot be asked.
std::optional<CallFailure> RefusedRepository(const std::string& name) {
  if (name.empty()) return std::nullopt;
  return CallFailure{CallStatus::kNotFound, StrCat("there is no repository \"", Printable(name.substr(0, 200)), "\""),
                     "the one that there is has no name"};
}

}  // namespace

template <class Request, class Response, class Answer>
InferenceService::Call* InferenceService::Answered(const Context& context, const Bytes& request, Bytes& response,
                                                   const Answer& answer) {
  UnaryCall* const call = NewCall(open_);
  if (const auto refusal = RefusalOf(context, calls_, *open_, false)) {
    call->Finish(StatusOf(*refusal));
    return call;
  }
  try {
    Response message;
    const grpc::Status status = answer(ReadMessage<Request>(request), message);
    call->Finish(status.ok() ? WriteMessage(message, response) : status);
  } catch (const std::exception& error) {
    call->Finish(StatusOf(FailureOf(error)));
  }
  return call;
}

// Anybody may ask these two, without a token, and their requests hold nothing.
InferenceService::Call* InferenceService::ServerLive(Context* /*context*/, const Bytes* /*request*/, Bytes* response) {
  UnaryCall* const call = NewCall(open_);
  inference::ServerLiveResponse message;
  message.set_live(true);
  call->Finish(WriteMessage(message, *response));
  return call;
}

InferenceService::Call* InferenceService::ServerReady(Context* /*context*/, const Bytes* /*request*/, Bytes* response) {
  UnaryCall* const call = NewCall(open_);
  inference::ServerReadyResponse message;
  message.set_ready(calls_.IsReady());
  call->Finish(WriteMessage(message, *response));
  return call;
}

InferenceService::Call* InferenceService::ModelReady(Context* context, const Bytes* request, Bytes* response) {
  return Answered<inference::ModelReadyRequest, inference::ModelReadyResponse>(
      *context, *request, *response, [&](const auto& asked, auto& answer) {
        const auto facts = calls_.Model(asked.name(), asked.version());
        const auto* failure = std::get_if<CallFailure>(&facts);
        if (failure != nullptr && failure->status != CallStatus::kUnavailable) return StatusOf(*failure);
        answer.set_ready(failure == nullptr);
        return grpc::Status::OK;
      });
}

InferenceService::Call* InferenceService::ServerMetadata(Context* context, const Bytes* request, Bytes* response) {
  return Answered<inference::ServerMetadataRequest, inference::ServerMetadataResponse>(
      *context, *request, *response, [&](const auto& /*asked*/, auto& answer) {
        answer.set_name("moka");
        answer.set_version(version_);
        for (const char* extension : kExtensions) answer.add_extensions(extension);
        if (calls_.regions() != nullptr) answer.add_extensions(kSharedMemory);
        return grpc::Status::OK;
      });
}

InferenceService::Call* InferenceService::ModelMetadata(Context* context, const Bytes* request, Bytes* response) {
  return Answered<inference::ModelMetadataRequest, inference::ModelMetadataResponse>(
      *context, *request, *response, [&](const auto& asked, auto& answer) {
        return Written(calls_.Model(asked.name(), asked.version()),
                       [&](const ModelFacts& facts) { WriteMetadata(facts, answer); });
      });
}

InferenceService::Call* InferenceService::ModelConfig(Context* context, const Bytes* request, Bytes* response) {
  return Answered<inference::ModelConfigRequest, inference::ModelConfigResponse>(
      *context, *request, *response, [&](const auto& asked, auto& answer) {
        return Written(calls_.Model(asked.name(), asked.version()),
                       [&](const ModelFacts& facts) { WriteConfig(facts, *answer.mutable_config()); });
      });
}

InferenceService::Call* InferenceService::ModelStatistics(Context* context, const Bytes* request, Bytes* response) {
  return Answered<inference::ModelStatisticsRequest, inference::ModelStatisticsResponse>(
      *context, *request, *response, [&](const auto& asked, auto& answer) {
        return Written(calls_.Statistics(asked.name(), asked.version()),
                       [&](const std::vector<moka::ModelStatistics>& models) { WriteStatistics(models, answer); });
      });
}

InferenceService::Call* InferenceService::RepositoryIndex(Context* context, const Bytes* request, Bytes* response) {
  return Answered<inference::RepositoryIndexRequest, inference::RepositoryIndexResponse>(
      *context, *request, *response, [&](const auto& asked, auto& answer) {
        if (const auto refused = RefusedRepository(asked.repository_name())) return StatusOf(*refused);
        WriteIndex(calls_.Index(asked.ready()), answer);
        return grpc::Status::OK;
      });
}

template <class Request, class Response>
InferenceService::Call* InferenceService::Loaded(const Context& context, const Bytes& request, Bytes& response,
                                                 bool loads, const std::string& allowed) {
  UnaryCall* const call = NewCall(open_);
  std::optional<CallFailure> refused = RefusalOf(context, calls_, *open_, true);
  Request asked;
  try {
    if (!refused) asked = ReadMessage<Request>(request);
  } catch (const std::exception& error) {
    refused = FailureOf(error);
  }
  if (!refused) refused = RefusedRepository(asked.repository_name());
  for (const auto& [name, parameter] : asked.parameters()) {
    if (refused || name == allowed) continue;
    refused = CallFailure{CallStatus::kWrong, kLoadTakesNothing,
                          StrCat("leave \"", Printable(name.substr(0, 200)), "\" out")};
  }
  if (refused) {
    call->Finish(StatusOf(*refused));
  } else {
    calls_.Load(asked.model_name(), loads, [call, &response](const std::optional<CallFailure>& failure) {
      call->Finish(failure ? StatusOf(*failure) : WriteMessage(Response(), response));
    });
  }
  return call;
}

InferenceService::Call* InferenceService::RepositoryModelLoad(Context* context, const Bytes* request, Bytes* response) {
  return Loaded<inference::RepositoryModelLoadRequest, inference::RepositoryModelLoadResponse>(*context, *request,
                                                                                               *response, true, "");
}

// No model depends on another, so `unload_dependents` asks for nothing; clients send it always.
InferenceService::Call* InferenceService::RepositoryModelUnload(Context* context, const Bytes* request,
                                                                Bytes* response) {
  return Loaded<inference::RepositoryModelUnloadRequest, inference::RepositoryModelUnloadResponse>(
      *context, *request, *response, false, "unload_dependents");
}

InferenceService::Call* InferenceService::SystemSharedMemoryStatus(Context* context, const Bytes* request,
                                                                   Bytes* response) {
  return Answered<inference::SystemSharedMemoryStatusRequest, inference::SystemSharedMemoryStatusResponse>(
      *context, *request, *response, [&](const auto& asked, auto& answer) {
        if (calls_.regions() == nullptr) return StatusOf(NoRegions(CallStatus::kNotAllowed));
        return Written(calls_.regions()->List(asked.name()),
                       [&](const std::vector<SharedRegion>& regions) { WriteRegions(regions, answer); });
      });
}

InferenceService::Call* InferenceService::SystemSharedMemoryRegister(Context* context, const Bytes* request,
                                                                     Bytes* response) {
  return Answered<inference::SystemSharedMemoryRegisterRequest, inference::SystemSharedMemoryRegisterResponse>(
      *context, *request, *response, [&](const auto& asked, auto& /*answer*/) {
        if (calls_.regions() == nullptr) return StatusOf(NoRegions(CallStatus::kNotAllowed));
        // Beyond 63 bits a number is negative, which is no place in a region.
        const auto failure = calls_.regions()->Register(
            {asked.name(), asked.key(), static_cast<int64_t>(asked.offset()), static_cast<int64_t>(asked.byte_size())},
            PeerOf(*context));
        return failure ? StatusOf(*failure) : grpc::Status::OK;
      });
}

InferenceService::Call* InferenceService::SystemSharedMemoryUnregister(Context* context, const Bytes* request,
                                                                       Bytes* response) {
  return Answered<inference::SystemSharedMemoryUnregisterRequest, inference::SystemSharedMemoryUnregisterResponse>(
      *context, *request, *response, [&](const auto& asked, auto& /*answer*/) {
        if (calls_.regions() == nullptr) return StatusOf(NoRegions(CallStatus::kNotAllowed));
        const auto failure = calls_.regions()->Unregister(asked.name(), PeerOf(*context));
        return failure ? StatusOf(*failure) : grpc::Status::OK;
      });
}

InferenceService::Call* InferenceService::ModelInfer(Context* context, const Bytes* request, Bytes* response) {
  UnaryCall* const call = NewCall(open_);
  std::optional<CallFailure> refused = RefusalOf(*context, calls_, *open_, false);
  inference::ModelInferRequest message;
  InferRequest infer;
  try {
    if (!refused) {
      message = ReadMessage<inference::ModelInferRequest>(*request);
      infer = RequestOf(message);
      if (!KeepDeadline(*context, infer)) refused = DeadlineFailure();
    }
  } catch (const std::exception& error) {
    refused = FailureOf(error);
  }
  if (refused) {
    call->Finish(StatusOf(*refused));
    return call;
  }
  const bool is_raw = WantsRaw(message);
  calls_.Infer(message.model_name(), message.model_version(), std::move(infer), call->is_gone(),
               [call, response, is_raw](const CallResult<InferAnswer>& result) {
                 if (const auto* failure = std::get_if<CallFailure>(&result)) return call->Finish(StatusOf(*failure));
                 inference::ModelInferResponse answer;
                 WriteAnswer(std::get<InferAnswer>(result), is_raw, answer);
                 call->Finish(WriteMessage(answer, *response));
               });
  return call;
}

InferReactor* InferenceService::ModelStreamInfer(Context* context) { return BeginInferStream(*context, calls_, open_); }

}  // namespace moka
