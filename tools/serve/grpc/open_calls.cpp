// Lasting calls are called without the lock: each has its own, and may remove itself.
#include "tools/serve/grpc/open_calls.h"

#include <algorithm>
#include <thread>

namespace moka {

void OpenCalls::Begin() {
  const std::lock_guard lock(mutex_);
  ++unanswered_;
  last_call_ = std::chrono::steady_clock::now();
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
  bool is_closing = false;
  {
    const std::lock_guard lock(mutex_);
    lasting_.emplace(call.get(), call);
    is_closing = is_closing_;
  }
  if (is_closing) call->EndWithServer();
}

void OpenCalls::Remove(const LastingCall& call) {
  std::shared_ptr<LastingCall> last;  // ends without the lock
  const std::lock_guard lock(mutex_);
  const auto found = lasting_.find(&call);
  if (found == lasting_.end()) return;
  last = std::move(found->second);
  lasting_.erase(found);
}

void OpenCalls::Close() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
  }
  for (const auto& [key, call] : Lasting()) call->EndWithServer();
}

bool OpenCalls::is_closing() const {
  const std::lock_guard lock(mutex_);
  return is_closing_;
}

void OpenCalls::WaitForQuiet(std::chrono::milliseconds quiet, std::chrono::milliseconds most) const {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  for (Clock::time_point now = begin; now < begin + most; now = Clock::now()) {
    Clock::time_point calm = begin + quiet;
    {
      const std::lock_guard lock(mutex_);
      calm = std::max(calm, last_call_ + quiet);
    }
    if (now >= calm) return;
    std::this_thread::sleep_until(std::min(calm, begin + most));
  }
}

void OpenCalls::LookAtHealth() const {
  for (const auto& [key, call] : Lasting()) call->LookAtHealth();
}

}  // namespace moka
