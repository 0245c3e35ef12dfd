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

template <class Answer>
InferenceService::Call* InferenceService::Answered(const Context& context, const Answer& answer) {
  UnaryCall* const call = NewCall(open_);
  if (const auto refusal = RefusalOf(context, calls_, *open_, false)) {
    call->Finish(StatusOf(*refusal));
  } else {
    call->Finish(answer());
  }
  return call;
}

InferenceService::Call* InferenceService::ServerLive(Context* /*context*/,
                                                     const inference::ServerLiveRequest* /*request*/,
                                                     inference::ServerLiveResponse* response) {
  UnaryCall* const call = NewCall(open_);
  response->set_live(true);
  call->Finish(grpc::Status::OK);
  return call;
}

InferenceService::Call* InferenceService::ServerReady(Context* /*context*/,
                                                      const inference::ServerReadyRequest* /*request*/,
                                                      inference::ServerReadyResponse* response) {
  UnaryCall* const call = NewCall(open_);
  response->set_ready(calls_.IsReady());
  call->Finish(grpc::Status::OK);
  return call;
}

InferenceService::Call* InferenceService::ModelReady(Context* context, const inference::ModelReadyRequest* request,
                                                     inference::ModelReadyResponse* response) {
  return Answered(*context, [&] {
    const auto facts = calls_.Model(request->name(), request->version());
    const auto* failure = std::get_if<CallFailure>(&facts);
    if (failure != nullptr && failure->status != CallStatus::kUnavailable) return StatusOf(*failure);
    response->set_ready(failure == nullptr);
    return grpc::Status::OK;
  });
}

InferenceService::Call* InferenceService::ServerMetadata(Context* context,
                                                         const inference::ServerMetadataRequest* /*request*/,
                                                         inference::ServerMetadataResponse* response) {
  return Answered(*context, [&] {
    response->set_name("moka");
    response->set_version(version_);
    for (const char* extension : kExtensions) response->add_extensions(extension);
    if (calls_.regions() != nullptr) response->add_extensions(kSharedMemory);
    return grpc::Status::OK;
  });
}

InferenceService::Call* InferenceService::ModelMetadata(Context* context,
                                                        const inference::ModelMetadataRequest* request,
                                                        inference::ModelMetadataResponse* response) {
  return Answered(*context, [&] {
    return Written(calls_.Model(request->name(), request->version()),
                   [&](const ModelFacts& facts) { WriteMetadata(facts, *response); });
  });
}

InferenceService::Call* InferenceService::ModelConfig(Context* context, const inference::ModelConfigRequest* request,
                                                      inference::ModelConfigResponse* response) {
  return Answered(*context, [&] {
    return Written(calls_.Model(request->name(), request->version()),
                   [&](const ModelFacts& facts) { WriteConfig(facts, *response->mutable_config()); });
  });
}

InferenceService::Call* InferenceService::ModelStatistics(Context* context,
                                                          const inference::ModelStatisticsRequest* request,
                                                          inference::ModelStatisticsResponse* response) {
  return Answered(*context, [&] {
    return Written(calls_.Statistics(request->name(), request->version()),
                   [&](const std::vector<moka::ModelStatistics>& models) { WriteStatistics(models, *response); });
  });
}

InferenceService::Call* InferenceService::RepositoryIndex(Context* context,
                                                          const inference::RepositoryIndexRequest* request,
                                                          inference::RepositoryIndexResponse* response) {
  return Answered(*context, [&] {
    if (const auto refused = RefusedRepository(request->repository_name())) return StatusOf(*refused);
    WriteIndex(calls_.Index(request->ready()), *response);
    return grpc::Status::OK;
  });
}

template <class Request>
InferenceService::Call* InferenceService::Loaded(const Context& context, const Request& request, bool loads,
                                                 const std::string& allowed) {
  UnaryCall* const call = NewCall(open_);
  std::optional<CallFailure> refused = RefusalOf(context, calls_, *open_, true);
  if (!refused) refused = RefusedRepository(request.repository_name());
  for (const auto& [name, parameter] : request.parameters()) {
    if (refused || name == allowed) continue;
    refused = CallFailure{CallStatus::kWrong, kLoadTakesNothing,
                          StrCat("leave \"", Printable(name.substr(0, 200)), "\" out")};
  }
  if (refused) {
    call->Finish(StatusOf(*refused));
  } else {
    calls_.Load(request.model_name(), loads, [call](const std::optional<CallFailure>& failure) {
      call->Finish(failure ? StatusOf(*failure) : grpc::Status::OK);
    });
  }
  return call;
}

InferenceService::Call* InferenceService::RepositoryModelLoad(Context* context,
                                                              const inference::RepositoryModelLoadRequest* request,
                                                              inference::RepositoryModelLoadResponse* /*response*/) {
  return Loaded(*context, *request, true, "");
}

// No model depends on another, so `unload_dependents` asks for nothing; clients send it always.
InferenceService::Call* InferenceService::RepositoryModelUnload(
    Context* context, const inference::RepositoryModelUnloadRequest* request,
    inference::RepositoryModelUnloadResponse* /*response*/) {
  return Loaded(*context, *request, false, "unload_dependents");
}

InferenceService::Call* InferenceService::SystemSharedMemoryStatus(
    Context* context, const inference::SystemSharedMemoryStatusRequest* request,
    inference::SystemSharedMemoryStatusResponse* response) {
  return Answered(*context, [&] {
    if (calls_.regions() == nullptr) return StatusOf(NoRegions(CallStatus::kNotAllowed));
    return Written(calls_.regions()->List(request->name()),
                   [&](const std::vector<SharedRegion>& regions) { WriteRegions(regions, *response); });
  });
}

InferenceService::Call* InferenceService::SystemSharedMemoryRegister(
    Context* context, const inference::SystemSharedMemoryRegisterRequest* request,
    inference::SystemSharedMemoryRegisterResponse* /*response*/) {
  return Answered(*context, [&] {
    if (calls_.regions() == nullptr) return StatusOf(NoRegions(CallStatus::kNotAllowed));
    // Beyond 63 bits a number is negative, which is no place in a region.
    const auto failure =
        calls_.regions()->Register({request->name(), request->key(), static_cast<int64_t>(request->offset()),
                                    static_cast<int64_t>(request->byte_size())},
                                   PeerOf(*context));
    return failure ? StatusOf(*failure) : grpc::Status::OK;
  });
}

InferenceService::Call* InferenceService::SystemSharedMemoryUnregister(
    Context* context, const inference::SystemSharedMemoryUnregisterRequest* request,
    inference::SystemSharedMemoryUnregisterResponse* /*response*/) {
  return Answered(*context, [&] {
    if (calls_.regions() == nullptr) return StatusOf(NoRegions(CallStatus::kNotAllowed));
    const auto failure = calls_.regions()->Unregister(request->name(), PeerOf(*context));
    return failure ? StatusOf(*failure) : grpc::Status::OK;
  });
}

InferenceService::Call* InferenceService::ModelInfer(Context* context, const grpc::ByteBuffer* request,
                                                     grpc::ByteBuffer* response) {
  UnaryCall* const call = NewCall(open_);
  std::optional<CallFailure> refused = RefusalOf(*context, calls_, *open_, false);
  inference::ModelInferRequest message;
  InferRequest infer;
  try {
    if (!refused) {
      message = ReadMessage(*request);
      infer = RequestOf(message);
      if (!KeepDeadline(*context, infer)) refused = DeadlineFailure();
    }
  } catch (const Error& error) {
    refused = CallFailure{CallStatus::kWrong, error.text(), error.hint()};
  } catch (const std::exception& error) {  // memory is short
    refused = CallFailure{CallStatus::kFailed, error.what()};
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
