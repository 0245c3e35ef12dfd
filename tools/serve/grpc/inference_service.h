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

// All requests come as bytes (ReadMessage).
template <class Base>
using OfServer = Wire::WithRawCallbackMethod_ServerLive<
    Wire::WithRawCallbackMethod_ServerReady<Wire::WithRawCallbackMethod_ServerMetadata<Base>>>;
template <class Base>
using OfModel = Wire::WithRawCallbackMethod_ModelReady<Wire::WithRawCallbackMethod_ModelMetadata<
    Wire::WithRawCallbackMethod_ModelConfig<Wire::WithRawCallbackMethod_ModelStatistics<Base>>>>;
template <class Base>
using OfRepository = Wire::WithRawCallbackMethod_RepositoryIndex<
    Wire::WithRawCallbackMethod_RepositoryModelLoad<Wire::WithRawCallbackMethod_RepositoryModelUnload<Base>>>;
template <class Base>
using OfRegions =
    Wire::WithRawCallbackMethod_SystemSharedMemoryStatus<Wire::WithRawCallbackMethod_SystemSharedMemoryRegister<
        Wire::WithRawCallbackMethod_SystemSharedMemoryUnregister<Base>>>;
template <class Base>
using OfInference = Wire::WithRawCallbackMethod_ModelInfer<Wire::WithRawCallbackMethod_ModelStreamInfer<Base>>;

class InferenceService final : public OfServer<OfModel<OfRepository<OfRegions<OfInference<Wire::Service>>>>> {
 public:
  InferenceService(ServiceCalls& calls, std::shared_ptr<OpenCalls> open, std::string version)
      : calls_(calls), open_(std::move(open)), version_(std::move(version)) {}

  using Context = grpc::CallbackServerContext;
  using Call = grpc::ServerUnaryReactor;
  using Bytes = grpc::ByteBuffer;
  Call* ServerLive(Context* context, const Bytes* request, Bytes* response) override;
  Call* ServerReady(Context* context, const Bytes* request, Bytes* response) override;
  Call* ModelReady(Context* context, const Bytes* request, Bytes* response) override;
  Call* ServerMetadata(Context* context, const Bytes* request, Bytes* response) override;
  Call* ModelMetadata(Context* context, const Bytes* request, Bytes* response) override;
  Call* ModelInfer(Context* context, const Bytes* request, Bytes* response) override;
  Call* ModelConfig(Context* context, const Bytes* request, Bytes* response) override;
  Call* ModelStatistics(Context* context, const Bytes* request, Bytes* response) override;
  Call* RepositoryIndex(Context* context, const Bytes* request, Bytes* response) override;
  Call* RepositoryModelLoad(Context* context, const Bytes* request, Bytes* response) override;
  Call* RepositoryModelUnload(Context* context, const Bytes* request, Bytes* response) override;
  Call* SystemSharedMemoryStatus(Context* context, const Bytes* request, Bytes* response) override;
  Call* SystemSharedMemoryRegister(Context* context, const Bytes* request, Bytes* response) override;
  Call* SystemSharedMemoryUnregister(Context* context, const Bytes* request, Bytes* response) override;
  InferReactor* ModelStreamInfer(Context* context) override;

 private:
  // A call that `answer`, which is given no failure, finishes with its status at once.
  template <class Request, class Response, class Answer>
  Call* Answered(const Context& context, const Bytes& request, Bytes& response, const Answer& answer);
  // Loads or unloads. `allowed`: the one parameter that asks for nothing.
  template <class Request, class Response>
  Call* Loaded(const Context& context, const Bytes& request, Bytes& response, bool loads, const std::string& allowed);

  ServiceCalls& calls_;
  std::shared_ptr<OpenCalls> open_;
  std::string version_;
};

}  // namespace moka
