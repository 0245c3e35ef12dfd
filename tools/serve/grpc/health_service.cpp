// A watch writes a state when it differs from the one that it wrote last; whoever knows of a change has it look.
#include "tools/serve/grpc/health_service.h"

#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "tools/serve/grpc/call_parts.h"
#include "tools/serve/grpc/inference.grpc.pb.h"

namespace moka {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

HealthCheckResponse::ServingStatus HealthOf(const std::string& service, const ServiceCalls& calls) {
  const bool is_known = service.empty() || service == inference::GRPCInferenceService::service_full_name();
  if (!is_known) return HealthCheckResponse::SERVICE_UNKNOWN;
  return calls.IsReady() ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
}

// At most one write is under way; Finish is called once, when none is.
class HealthWatch final : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                          public LastingCall,
                          public std::enable_shared_from_this<HealthWatch> {
 public:
  HealthWatch(std::string service, const ServiceCalls& calls, std::shared_ptr<OpenCalls> open)
      : service_(std::move(service)), calls_(calls), open_(std::move(open)) {}

  // Ends it at once where its request has a failure.
  void Begin(const std::optional<CallFailure>& failure) {
    open_->Add(shared_from_this());
    const std::lock_guard lock(mutex_);
    if (failure) {
      is_finished_ = true;
      Finish(StatusOf(*failure));
    } else {
      Go();
    }
  }
  void LookAtHealth() override {
    const std::lock_guard lock(mutex_);
    Go();
  }
  void EndWithServer() override {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
    Go();
  }
  void OnCancel() override {
    const std::lock_guard lock(mutex_);
    is_broken_ = true;
    Go();
  }
  void OnWriteDone(bool is_written) override {
    const std::lock_guard lock(mutex_);
    is_writing_ = false;
    is_broken_ = is_broken_ || !is_written;
    Go();
  }
  void OnDone() override { open_->Remove(*this); }

 private:
  // Starts what is next. Requires: the lock is held.
  void Go() {
    if (is_finished_ || is_writing_) return;
    const auto health = HealthOf(service_, calls_);
    if (!is_broken_ && health != response_.status()) {
      is_writing_ = true;
      response_.set_status(health);
      (void)WriteMessage(response_, bytes_);
      return StartWrite(&bytes_);
    }
    if (!is_broken_ && !is_ending_) return;
    is_finished_ = true;
    Finish(StatusOf(is_broken_ ? CallFailure{CallStatus::kGone, "the client left"}
                               : CallFailure{CallStatus::kUnavailable, "the server is closing"}));
  }

  std::string service_;
  const ServiceCalls& calls_;
  std::shared_ptr<OpenCalls> open_;
  std::mutex mutex_;
  HealthCheckResponse response_;  // that was written last; UNKNOWN: none
  grpc::ByteBuffer bytes_;        // of it
  bool is_writing_ = false;
  bool is_ending_ = false;
  bool is_broken_ = false;
  bool is_finished_ = false;
};

}  // namespace

grpc::ServerUnaryReactor* HealthService::Check(grpc::CallbackServerContext* /*context*/,
                                               const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  auto* call = std::make_unique<UnaryCall>(open_).release();
  try {
    HealthCheckResponse answer;
    answer.set_status(HealthOf(ReadMessage<HealthCheckRequest>(*request).service(), calls_));
    const bool is_known = answer.status() != HealthCheckResponse::SERVICE_UNKNOWN;
    call->Finish(is_known ? WriteMessage(answer, *response)
                          : grpc::Status(grpc::StatusCode::NOT_FOUND, "there is no such service"));
  } catch (const std::exception& error) {
    call->Finish(StatusOf(FailureOf(error)));
  }
  return call;
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* HealthService::Watch(grpc::CallbackServerContext* /*context*/,
                                                                 const grpc::ByteBuffer* request) {
  std::string service;
  std::optional<CallFailure> failure;
  try {
    service = ReadMessage<HealthCheckRequest>(*request).service();
  } catch (const std::exception& error) {
    failure = FailureOf(error);
  }
  const auto watch = std::make_shared<HealthWatch>(std::move(service), calls_, open_);
  watch->Begin(failure);
  return watch.get();
}

}  // namespace moka
