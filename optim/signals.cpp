// Handlers write lock-free atomics and nothing else; a second SIGINT ends the process at once, with the last words
// prepared beforehand, by async-signal-safe calls.
#include "optim/signals.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

namespace moka {
namespace {

// Lock-free atomics are what a handler may touch.
std::atomic<int> stop_requests{0};
std::atomic<bool> was_asked{false};
std::atomic<int> snapshot_requests{0};
std::atomic<int> interrupts{0};
std::atomic<SignalEffect> sigint_effect{SignalEffect::kStop};
std::atomic<SignalEffect> sighup_effect{SignalEffect::kSnapshot};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<SignalEffect>::is_always_lock_free &&
              std::atomic<bool>::is_always_lock_free);

struct LastWords {
  std::string file;
  std::string text;
};
std::atomic<const LastWords*> last_words{nullptr};
static_assert(std::atomic<const LastWords*>::is_always_lock_free);

// Only async-signal-safe calls.
void WriteLastWords() {
  const LastWords* words = last_words.load();
  if (words == nullptr) return;
  const int fd = open(words->file.c_str(), O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return;
  const auto bytes = static_cast<ssize_t>(words->text.size());
  if (write(fd, words->text.data(), words->text.size()) == bytes) (void)!ftruncate(fd, bytes);
}

void OnSignal(int signal) {
  SignalEffect effect = SignalEffect::kStop;
  if (signal == SIGINT) {
    effect = sigint_effect.load();
    if (effect == SignalEffect::kStop && interrupts.fetch_add(1) > 0) {
      WriteLastWords();
      _exit(kKilledByInterrupt);
    }
  }
  if (signal == SIGHUP) effect = sighup_effect.load();
  if (effect == SignalEffect::kStop) {
    stop_requests.store(1);
    was_asked.store(true);
  }
  if (effect == SignalEffect::kSnapshot) snapshot_requests.store(1);
}

}  // namespace

SignalRequests::SignalRequests(SignalEffect sigint, SignalEffect sighup) {
  stop_requests = 0;
  was_asked = false;
  snapshot_requests = 0;
  interrupts = 0;
  sigint_effect = sigint;
  sighup_effect = sighup;
  struct sigaction action {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals.at(i), &action, &former_.at(i));
}

SignalRequests::~SignalRequests() {
  was_asked = false;
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals.at(i), &former_.at(i), nullptr);
}

SignalEffect SignalRequests::Take() {
  if (stop_requests.exchange(0) != 0) return SignalEffect::kStop;
  return snapshot_requests.exchange(0) != 0 ? SignalEffect::kSnapshot : SignalEffect::kNone;
}

bool SignalRequests::WantsStop() { return stop_requests.load() != 0; }

bool SignalRequests::WasAskedToStop() { return was_asked.load(); }

void SignalRequests::SetLastWords(const std::filesystem::path& file, std::string text) {
  // A handler in another thread may read the words that are replaced: they stay until the next ones come.
  static std::mutex mutex;
  static std::unique_ptr<const LastWords> current;
  static std::unique_ptr<const LastWords> former;
  std::unique_ptr<const LastWords> next;
  if (!text.empty()) next = std::make_unique<const LastWords>(LastWords{file.string(), std::move(text)});
  const std::scoped_lock lock(mutex);
  last_words.store(next.get());
  former = std::exchange(current, std::move(next));
}

}  // namespace moka
