// ModelStreamInfer: requests as they come, answers in their order.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>

#include "tools/serve/grpc/open_calls.h"
#include "tools/serve/service_calls.h"

namespace moka {

using InferReactor = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;

// Begins a stream, which owns itself. `calls` and the context outlive it.
InferReactor* BeginInferStream(const grpc::CallbackServerContext& context, ServiceCalls& calls,
                               std::shared_ptr<OpenCalls> open);

}  // namespace moka
