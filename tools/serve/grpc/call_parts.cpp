// A deadline is a time of day, as gRPC has it; what is left of it when the call arrives bounds the wait.
#include "tools/serve/grpc/call_parts.h"

#include <algorithm>
#include <chrono>

#include "core/error.h"
#include "tools/serve/grpc/messages.h"

namespace moka {
namespace {

grpc::StatusCode CodeOf(CallStatus status) {
  switch (status) {
    case CallStatus::kWrong: return grpc::StatusCode::INVALID_ARGUMENT;
    case CallStatus::kNoToken: return grpc::StatusCode::UNAUTHENTICATED;
    case CallStatus::kNotAllowed: return grpc::StatusCode::PERMISSION_DENIED;
    case CallStatus::kNotFound: return grpc::StatusCode::NOT_FOUND;
    case CallStatus::kUnavailable: return grpc::StatusCode::UNAVAILABLE;
    case CallStatus::kFull: return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case CallStatus::kLate: return grpc::StatusCode::DEADLINE_EXCEEDED;
    case CallStatus::kGone: return grpc::StatusCode::CANCELLED;
    case CallStatus::kFailed: return grpc::StatusCode::INTERNAL;
  }
  return grpc::StatusCode::INTERNAL;
}

}  // namespace

grpc::Status StatusOf(const CallFailure& failure) { return {CodeOf(failure.status), FailureText(failure)}; }

std::optional<CallFailure> RefusalOf(const grpc::CallbackServerContext& context, const ServiceCalls& calls,
                                     const OpenCalls& open, bool loads) {
  if (open.is_closing()) return CallFailure{CallStatus::kUnavailable, "the server is closing"};
  const auto& metadata = context.client_metadata();
  const auto token = metadata.find("authorization");
  if (token == metadata.end()) return calls.Refusal({}, loads);
  return calls.Refusal({token->second.data(), token->second.size()}, loads);
}

std::string PeerOf(const grpc::CallbackServerContext& context) {
  std::string peer = context.peer();
  peer.erase(0, peer.find(':') + 1);
  peer.resize(std::min(peer.rfind(':'), peer.size()));
  if (peer.starts_with("%5B") && peer.ends_with("%5D")) return peer.substr(3, peer.size() - 6);
  if (peer.starts_with('[') && peer.ends_with(']')) return peer.substr(1, peer.size() - 2);
  return peer;
}

bool KeepDeadline(const grpc::CallbackServerContext& context, InferRequest& request) {
  using Clock = std::chrono::system_clock;
  const Clock::time_point deadline = context.deadline();
  if (deadline == Clock::time_point::max()) return true;
  const int64_t left_us = std::chrono::duration_cast<std::chrono::microseconds>(deadline - Clock::now()).count();
  if (left_us <= 0) return false;
  request.timeout_us = request.timeout_us == 0 ? left_us : std::min(request.timeout_us, left_us);
  return true;
}

CallFailure FailureOf(const std::exception& error) {
  if (const auto* wrong = dynamic_cast<const Error*>(&error); wrong != nullptr)
    return {CallStatus::kWrong, wrong->text(), wrong->hint()};
  return {CallStatus::kFailed, error.what()};  // memory is short
}

CallFailure DeadlineFailure() { return {CallStatus::kLate, "the call's deadline has passed"}; }

}  // namespace moka
