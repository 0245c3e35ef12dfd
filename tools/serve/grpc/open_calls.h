// The calls that a server of gRPC has open: how many are unanswered, and those that last until someone ends them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace moka {

// A stream or a watch, which waits for its client without owing it an answer.
class LastingCall {
 public:
  LastingCall() = default;
  LastingCall(const LastingCall&) = delete;
  LastingCall& operator=(const LastingCall&) = delete;
  virtual ~LastingCall() = default;

  // Ends it behind what it owes: the server closes.
  virtual void EndWithServer() = 0;
  virtual void LookAtHealth() {}
};

// Thread-safe.
class OpenCalls {
 public:
  // A call has come, and has been answered.
  void Begin();
  void End();
  // Waits until none is unanswered, at most so long. Returns how many are.
  int64_t WaitForAnswers(std::chrono::milliseconds most) const;

  // Holds a call until Remove. Where the server closes already it is ended.
  void Add(const std::shared_ptr<LastingCall>& call);
  void Remove(const LastingCall& call);
  // From now on the server is to end: what lasts is ended, and calls that come are to be refused.
  void Close();
  bool is_closing() const;
  // Waits until for so long no call has come, at most `most` in all.
  void WaitForQuiet(std::chrono::milliseconds quiet, std::chrono::milliseconds most) const;
  void LookAtHealth() const;

 private:
  using Calls = std::map<const LastingCall*, std::shared_ptr<LastingCall>>;
  Calls Lasting() const;

  mutable std::mutex mutex_;
  mutable std::condition_variable answered_;
  int64_t unanswered_ = 0;
  Calls lasting_;
  bool is_closing_ = false;
  std::chrono::steady_clock::time_point last_call_ = {};
};

}  // namespace moka
