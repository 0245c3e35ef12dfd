// Parts that calls of gRPC share: who may call, by when, and with which status a failure ends.
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_utils.h>

#include <atomic>
#include <memory>
#include <optional>

#include "core/error.h"
#include "core/text.h"
#include "tools/serve/grpc/field_count.h"
#include "tools/serve/grpc/open_calls.h"
#include "tools/serve/service_calls.h"

namespace moka {

grpc::Status StatusOf(const CallFailure& failure);

// Why a call is not taken: its token, or the server's end; nothing: it is.
std::optional<CallFailure> RefusalOf(const grpc::CallbackServerContext& context, const ServiceCalls& calls,
                                     const OpenCalls& open, bool loads);

// The caller's address, without its port.
std::string PeerOf(const grpc::CallbackServerContext& context);

// Bounds the wait of a request by its call's deadline. Returns whether there is time left.
bool KeepDeadline(const grpc::CallbackServerContext& context, InferRequest& request);
CallFailure DeadlineFailure();

// A request from its bytes, which gRPC leaves to be read here: it tells a client of one call UNIMPLEMENTED where they
// are broken, one of a stream nothing, and does not count what a message holds. Errors: kBadData.
template <class Message>
Message ReadMessage(const grpc::ByteBuffer& bytes) {
  // The same bytes, of which a reader lets go.
  grpc::ByteBuffer counted = bytes;
  grpc::ProtoBufferReader reader(&counted);
  CheckFieldCount(*Message::descriptor(), reader);
  grpc::ByteBuffer read = bytes;
  Message message;
  if (grpc::SerializationTraits<Message>::Deserialize(&read, &message).ok()) return message;
  throw Error(ErrorKind::kBadData, {}, StrCat("the message is no ", Message::descriptor()->name()),
              "one of its texts is no UTF-8");
}
template <class Message>
grpc::Status WriteMessage(const Message& message, grpc::ByteBuffer& bytes) {
  bool owns = false;  // that the bytes are a copy is of no concern here
  return grpc::SerializationTraits<Message>::Serialize(message, &bytes, &owns);
}

// An error as a client is told of it.
CallFailure FailureOf(const std::exception& error);

// A call with one answer, which owns itself: Finish is to be called once.
class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  explicit UnaryCall(std::shared_ptr<OpenCalls> open) : open_(std::move(open)) { open_->Begin(); }
  std::shared_ptr<const std::atomic<bool>> is_gone() const { return is_gone_; }

  void OnCancel() override { *is_gone_ = true; }
  void OnDone() override {
    const std::unique_ptr<UnaryCall> self(this);
    open_->End();
  }

 private:
  std::shared_ptr<OpenCalls> open_;
  std::shared_ptr<std::atomic<bool>> is_gone_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace moka
