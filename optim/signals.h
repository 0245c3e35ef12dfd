// Signals as requests: a handler only sets a flag that the run loop takes at the end of an iteration.
#pragma once

#include <array>
#include <csignal>
#include <filesystem>
#include <string>

namespace moka {

inline constexpr int kKilledByInterrupt = 130;  // the exit code after a second SIGINT

enum class SignalEffect { kNone, kSnapshot, kStop };

// While it lives: SIGINT and SIGTERM and SIGUSR1 ask to stop (checkpoint, exit 75), SIGHUP asks for a checkpoint, as
// Caffe's --sigint_effect and --sighup_effect may change. A second SIGINT ends the process at once.
// One at a time; the former handlers come back when it ends.
class SignalRequests {
 public:
  explicit SignalRequests(SignalEffect sigint = SignalEffect::kStop, SignalEffect sighup = SignalEffect::kSnapshot);
  SignalRequests(const SignalRequests&) = delete;
  SignalRequests& operator=(const SignalRequests&) = delete;
  ~SignalRequests();

  // The strongest request since the last call.
  static SignalEffect Take();
  // Whether a stop is asked for; the request stays.
  static bool WantsStop();
  // Whether a stop was ever asked for, taken or not.
  static bool WasAskedToStop();
  // Sets what a second SIGINT leaves behind: `text` in place of the content of the file, which exists already. An empty
  // text: nothing. Any thread.
  static void SetLastWords(const std::filesystem::path& file, std::string text);

 private:
  static constexpr std::array<int, 4> kSignals = {SIGINT, SIGTERM, SIGUSR1, SIGHUP};
  std::array<struct sigaction, kSignals.size()> former_{};
};

}  // namespace moka
