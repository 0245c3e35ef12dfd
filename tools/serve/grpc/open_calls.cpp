// Lasting calls are called without the lock: each has its own, and may remove itself.
#include "tools/serve/grpc/open_calls.h"

namespace moka {

void OpenCalls::Begin() {
  const std::lock_guard lock(mutex_);
  ++unanswered_;
}

void OpenCalls::End() {
  const std::lock_guard lock(mutex_);
  --unanswered_;
  answered_.notify_all();
}

int64_t OpenCalls::WaitForAnswers(std::chrono::milliseconds most) const {
  std::unique_lock lock(mutex_);
  answered_.wait_for(lock, most, [&] { return unanswered_ == 0; });
  return unanswered_;
}

OpenCalls::Calls OpenCalls::Lasting() const {
  const std::lock_guard lock(mutex_);
  return lasting_;
}

void OpenCalls::Add(const std::shared_ptr<LastingCall>& call) {
  bool is_ending = false;
  {
    const std::lock_guard lock(mutex_);
    lasting_.emplace(call.get(), call);
    is_ending = is_ending_;
  }
  if (is_ending) call->EndWithServer();
}

void OpenCalls::Remove(const LastingCall& call) {
  std::shared_ptr<LastingCall> last;  // ends without the lock
  const std::lock_guard lock(mutex_);
  const auto found = lasting_.find(&call);
  if (found == lasting_.end()) return;
  last = std::move(found->second);
  lasting_.erase(found);
}

void OpenCalls::EndLasting() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  for (const auto& [key, call] : Lasting()) call->EndWithServer();
}

void OpenCalls::LookAtHealth() const {
  for (const auto& [key, call] : Lasting()) call->LookAtHealth();
}

}  // namespace moka
