// grpc.health.v1 for the server, the service "" or by its name: serving once /v2/health/ready says yes. Without a
// token.
#pragma once

#include <memory>

#include "tools/serve/grpc/health.grpc.pb.h"
#include "tools/serve/grpc/open_calls.h"
#include "tools/serve/service_calls.h"

namespace moka {

class HealthService final
    : public grpc::health::v1::Health::WithRawCallbackMethod_Check<
          grpc::health::v1::Health::WithRawCallbackMethod_Watch<grpc::health::v1::Health::Service>> {
 public:
  HealthService(ServiceCalls& calls, std::shared_ptr<OpenCalls> open) : calls_(calls), open_(std::move(open)) {}

  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Watch(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request) override;

 private:
  ServiceCalls& calls_;
  std::shared_ptr<OpenCalls> open_;
};

}  // namespace moka
