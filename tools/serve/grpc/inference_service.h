// The calls of the Open Inference Protocol over gRPC, each answered by the service.
#pragma once

#include <memory>
#include <string>

#include "tools/serve/grpc/infer_stream.h"
#include "tools/serve/grpc/inference.grpc.pb.h"
#include "tools/serve/grpc/open_calls.h"
#include "tools/serve/service_calls.h"

namespace moka {

using Wire = inference::GRPCInferenceService;

// Requests for inference come as bytes, all others as messages.
template <class Base>
using OfServer = Wire::WithCallbackMethod_ServerLive<
    Wire::WithCallbackMethod_ServerReady<Wire::WithCallbackMethod_ServerMetadata<Base>>>;
template <class Base>
using OfModel = Wire::WithCallbackMethod_ModelReady<Wire::WithCallbackMethod_ModelMetadata<
    Wire::WithCallbackMethod_ModelConfig<Wire::WithCallbackMethod_ModelStatistics<Base>>>>;
template <class Base>
using OfRepository = Wire::WithCallbackMethod_RepositoryIndex<
    Wire::WithCallbackMethod_RepositoryModelLoad<Wire::WithCallbackMethod_RepositoryModelUnload<Base>>>;
template <class Base>
using OfRegions = Wire::WithCallbackMethod_SystemSharedMemoryStatus<
    Wire::WithCallbackMethod_SystemSharedMemoryRegister<Wire::WithCallbackMethod_SystemSharedMemoryUnregister<Base>>>;
template <class Base>
using OfInference = Wire::WithRawCallbackMethod_ModelInfer<Wire::WithRawCallbackMethod_ModelStreamInfer<Base>>;

class InferenceService final : public OfServer<OfModel<OfRepository<OfRegions<OfInference<Wire::Service>>>>> {
 public:
  InferenceService(ServiceCalls& calls, std::shared_ptr<OpenCalls> open, std::string version)
      : calls_(calls), open_(std::move(open)), version_(std::move(version)) {}

  using Context = grpc::CallbackServerContext;
  using Call = grpc::ServerUnaryReactor;
  Call* ServerLive(Context* context, const inference::ServerLiveRequest* request,
                   inference::ServerLiveResponse* response) override;
  Call* ServerReady(Context* context, const inference::ServerReadyRequest* request,
                    inference::ServerReadyResponse* response) override;
  Call* ModelReady(Context* context, const inference::ModelReadyRequest* request,
                   inference::ModelReadyResponse* response) override;
  Call* ServerMetadata(Context* context, const inference::ServerMetadataRequest* request,
                       inference::ServerMetadataResponse* response) override;
  Call* ModelMetadata(Context* context, const inference::ModelMetadataRequest* request,
                      inference::ModelMetadataResponse* response) override;
  Call* ModelInfer(Context* context, const grpc::ByteBuffer* request, grpc::ByteBuffer* response) override;
  InferReactor* ModelStreamInfer(Context* context) override;
  Call* ModelConfig(Context* context, const inference::ModelConfigRequest* request,
                    inference::ModelConfigResponse* response) override;
  Call* ModelStatistics(Context* context, const inference::ModelStatisticsRequest* request,
                        inference::ModelStatisticsResponse* response) override;
  Call* RepositoryIndex(Context* context, const inference::RepositoryIndexRequest* request,
                        inference::RepositoryIndexResponse* response) override;
  Call* RepositoryModelLoad(Context* context, const inference::RepositoryModelLoadRequest* request,
                            inference::RepositoryModelLoadResponse* response) override;
  Call* RepositoryModelUnload(Context* context, const inference::RepositoryModelUnloadRequest* request,
                              inference::RepositoryModelUnloadResponse* response) override;
  Call* SystemSharedMemoryStatus(Context* context, const inference::SystemSharedMemoryStatusRequest* request,
                                 inference::SystemSharedMemoryStatusResponse* response) override;
  Call* SystemSharedMemoryRegister(Context* context, const inference::SystemSharedMemoryRegisterRequest* request,
                                   inference::SystemSharedMemoryRegisterResponse* response) override;
  Call* SystemSharedMemoryUnregister(Context* context, const inference::SystemSharedMemoryUnregisterRequest* request,
                                     inference::SystemSharedMemoryUnregisterResponse* response) override;

 private:
  // A call that `answer`, which is given no failure, finishes with its status at once.
  template <class Answer>
  Call* Answered(const Context& context, const Answer& answer);
  // Loads or unloads. `allowed`: the one parameter that asks for nothing.
  template <class Request>
  Call* Loaded(const Context& context, const Request& request, bool loads, const std::string& allowed);

  ServiceCalls& calls_;
  std::shared_ptr<OpenCalls> open_;
  std::string version_;
};

}  // namespace moka
