// A stream reads ahead so far as a few requests wait in it, then its client waits, too.
//
//   1. At most one read and one write are under way; Finish is called once, when no request is unanswered.
//   2. A request has a slot from when it was read until its answer was written; slots are written in order.
//   3. A client that left gets nothing more, but its slots stay until the queue has given the requests back.
#include "tools/serve/grpc/infer_stream.h"

#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "core/error.h"
#include "tools/serve/grpc/call_parts.h"
#include "tools/serve/grpc/messages.h"

namespace moka {
namespace {

constexpr size_t kMostSlots = 16;

class InferStream final : public InferReactor, public LastingCall, public std::enable_shared_from_this<InferStream> {
 public:
  InferStream(const grpc::CallbackServerContext& context, ServiceCalls& calls, std::shared_ptr<OpenCalls> open)
      : context_(context), calls_(calls), open_(std::move(open)) {}

  void Begin() {
    open_->Add(shared_from_this());
    const std::lock_guard lock(mutex_);
    Go();
  }
  void EndWithServer() override {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
    Go();
  }
  void OnCancel() override {
    *is_gone_ = true;
    const std::lock_guard lock(mutex_);
    is_broken_ = true;
    Go();
  }
  void OnReadDone(bool is_read) override {
    std::shared_ptr<Slot> slot;
    {
      const std::lock_guard lock(mutex_);
      if (is_read && !is_finished_) {
        slot = slots_.emplace_back(std::make_shared<Slot>());
        open_->Begin();
      }
      has_read_all_ = has_read_all_ || !is_read;
    }
    if (slot) Ask(slot);
    const std::lock_guard lock(mutex_);
    is_reading_ = false;
    Go();
  }
  void OnWriteDone(bool is_written) override {
    const std::lock_guard lock(mutex_);
    is_writing_ = false;
    is_broken_ = is_broken_ || !is_written;
    Drop();
    Go();
  }
  void OnDone() override { open_->Remove(*this); }

 private:
  struct Slot {
    inference::ModelStreamInferResponse response;
    grpc::ByteBuffer bytes;  // of the response, once it is ready
    bool is_raw = false;
    bool is_ready = false;
  };

  // Hands on what was read. The next read waits until this is done, as it writes over the bytes.
  void Ask(const std::shared_ptr<Slot>& slot) {
    try {
      const inference::ModelInferRequest message = ReadMessage<inference::ModelInferRequest>(request_);
      request_.Clear();
      slot->is_raw = WantsRaw(message);
      slot->response.mutable_infer_response()->set_id(message.id());
      InferRequest request = RequestOf(message);
      if (!KeepDeadline(context_, request)) return Put(*slot, DeadlineFailure());
      calls_.Infer(
          message.model_name(), message.model_version(), std::move(request), is_gone_,
          [self = shared_from_this(), slot](const CallResult<InferAnswer>& result) { self->Put(*slot, result); });
    } catch (const Error& error) {
      Put(*slot, CallFailure{CallStatus::kWrong, error.text(), error.hint()});
    } catch (const std::exception& error) {
      Put(*slot, CallFailure{CallStatus::kFailed, error.what()});
    }
  }

  void Put(Slot& slot, const CallResult<InferAnswer>& result) {
    if (const auto* failure = std::get_if<CallFailure>(&result)) {
      slot.response.set_error_message(FailureText(*failure));
    } else {
      WriteAnswer(std::get<InferAnswer>(result), slot.is_raw, *slot.response.mutable_infer_response());
    }
    const bool is_written = WriteMessage(slot.response, slot.bytes).ok();
    slot.response.Clear();
    const std::lock_guard lock(mutex_);
    is_broken_ = is_broken_ || !is_written;  // an answer of more than 2 GiB
    slot.is_ready = true;
    Go();
  }

  // Requires, as Go: the lock is held.
  void Drop() {
    slots_.pop_front();
    open_->End();
  }

  // Starts whatever may be next.
  void Go() {
    if (is_finished_) return;
    while (is_broken_ && !is_writing_ && !slots_.empty() && slots_.front()->is_ready) Drop();
    if (!is_writing_ && !slots_.empty() && slots_.front()->is_ready) {
      is_writing_ = true;
      StartWrite(&slots_.front()->bytes);
    }
    const bool is_last = has_read_all_ || is_ending_ || is_broken_;
    if (!is_last && !is_reading_ && slots_.size() < kMostSlots) {
      is_reading_ = true;
      StartRead(&request_);
    }
    if (!is_last || !slots_.empty()) return;
    is_finished_ = true;
    if (is_broken_) return Finish(StatusOf({CallStatus::kGone, "the client left"}));
    Finish(has_read_all_ ? grpc::Status::OK : StatusOf({CallStatus::kUnavailable, "the server is closing"}));
  }

  const grpc::CallbackServerContext& context_;
  ServiceCalls& calls_;
  std::shared_ptr<OpenCalls> open_;
  std::shared_ptr<std::atomic<bool>> is_gone_ = std::make_shared<std::atomic<bool>>(false);
  grpc::ByteBuffer request_;  // that is read

  std::mutex mutex_;
  std::deque<std::shared_ptr<Slot>> slots_;
  bool is_reading_ = false;
  bool is_writing_ = false;
  bool has_read_all_ = false;  // the client sends no more
  bool is_ending_ = false;     // with the server
  bool is_broken_ = false;     // the client has left
  bool is_finished_ = false;
};

// A stream that ends before it begins.
class RefusedStream final : public InferReactor {
 public:
  explicit RefusedStream(const CallFailure& failure) { Finish(StatusOf(failure)); }
  void OnDone() override { const std::unique_ptr<RefusedStream> self(this); }
};

}  // namespace

InferReactor* BeginInferStream(const grpc::CallbackServerContext& context, ServiceCalls& calls,
                               std::shared_ptr<OpenCalls> open) {
  if (const auto refusal = RefusalOf(context, calls, *open, false))
    return std::make_unique<RefusedStream>(*refusal).release();
  const auto stream = std::make_shared<InferStream>(context, calls, std::move(open));
  stream->Begin();
  return stream.get();
}

}  // namespace moka
