// The one thread that runs nets, and the requests that wait for it: a process has one team of threads, so nets take
// turns. What waits is answered, refused or, where its client has left, dropped; nothing else happens to it. How long
// and in which order requests of a model wait is its settings' (tools/serve/model/model_settings.h). A row of a small
// net that nobody waits before is run by the thread that brings it, as to wake another would take longer.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tools/serve/served_model.h"
#include "tools/serve/served_times.h"

namespace moka {

using ServeClock = std::chrono::steady_clock;

// Why a request is not answered by its net.
// kWrong and kFull are found when it is its turn: of a sequence.
enum class RequestEnd : uint8_t { kDone, kFailed, kLate, kGone, kStopped, kWrong, kFull };

// A request. Its owner gives it to the engine and gets it back, once, through `ended`.
struct QueuedRequest {
  std::shared_ptr<ServedModel> model;
  int64_t rows = 1;
  int64_t priority = 0;  // 1: the highest; 0: the model's usual one
  ServeClock::time_point arrived = ServeClock::now();
  ServeClock::time_point queued = arrived;  // later for a picture, which was decoded first; the queue's
  std::chrono::microseconds most_wait{0};   // in the queue alone; 0: any
  ServeClock::time_point due = ServeClock::time_point::max();  // to be begun by then, of that; the queue's
  std::shared_ptr<const std::atomic<bool>> is_gone = {};
  SequencePart sequence = {};  // of models that keep states

  std::vector<std::vector<float>> inputs = {};   // of each input all rows; empty where `work` is there
  std::vector<std::vector<float>> outputs = {};  // filled in
  std::function<void()> work = {};               // instead of rows: runs nets itself
  double work_ms = 1;                            // that this may take
  bool is_refused = false;                       // set by `work` for what it could not answer

  // Called by the thread that ran it. `error` says why it failed.
  std::function<void(QueuedRequest& request, RequestEnd end, const std::string& error)> ended;

  int64_t next_row = 0;     // the engine's
  bool has_waited = false;  // likewise: for others, while those that waited with it are run
  ServeClock::time_point begun = {};
  std::vector<float> state = {};  // of a net that keeps states, behind the rows that have run

  // Returns where its time went, if it has ended now.
  ServedTimes Times() const;
};

struct NetQueueLimits {
  int64_t waiting = 4096;  // requests
  // Predicted; a request that would wait longer is refused. Without: twice as long as the longest run takes that it
  // waits for or is itself, the rows of a net's largest batch or work, and 100 ms at least.
  std::optional<std::chrono::milliseconds> most_wait = std::nullopt;
};

// Whether a request was taken, and if not how long the queue is.
struct Submission {
  bool is_taken = false;
  bool is_closing = false;  // nothing is taken any more
  bool is_late = false;     // it would wait longer than its own `most_wait`
  double wait_ms = 0;       // predicted
};

class NetQueue {
 public:
  explicit NetQueue(const NetQueueLimits& limits) : limits_(limits) {}

  // By any thread, in which a request may be run and ended at once. One that is not taken is left as it was.
  Submission Submit(std::shared_ptr<QueuedRequest> request);
  // Whether a request to the model of that priority, of a row or a picture, would be taken if it came in `later_ms`.
  Submission Look(const ServedModel& model, int64_t priority, double later_ms) const;
  // Does jobs in the calling thread until Stop.
  void Run();
  // Ends Run once what waits is done, or, with `at_once`, ends what waits as kStopped.
  void Stop(bool at_once);
  bool is_stopping() const {
    const std::lock_guard lock(mutex_);
    return is_stopping_;
  }
  int64_t waiting() const;
  int64_t waiting(const ServedModel& model) const;

 private:
  using Queue = std::list<std::shared_ptr<QueuedRequest>>;
  struct Wait {
    double ms = 0;       // predicted
    double most_ms = 0;  // that are allowed
    bool IsTooLong() const { return ms > most_ms; }
  };
  // The wait of a request of that level, of whose own runs the longest takes `own_ms`. Requires: the lock is held.
  Wait WaitOf(int64_t level, double own_ms) const;
  // Whether it is run by who brings it. Requires: the lock is held.
  bool RunsHere(const QueuedRequest& request) const;
  // Says that nets are run from now on, as long as these take. Requires: the lock is held.
  void Begin(const Queue& batch);
  void RunTaken(const Queue& batch);
  // Takes those out that no one waits for any more.
  Queue TakeUnwanted();
  // Whether so many wait already that no other of this model and priority may.
  bool IsFull(const ServedModel& model, int64_t priority) const;
  // When a batch of the model of this request, which waits, may run: one that is not full may wait for others.
  ServeClock::time_point ReadyAt(const QueuedRequest& request) const;
  // The first request whose batch may run now; the end where none may before `next`, which is set.
  Queue::iterator FirstReady(ServeClock::time_point& next);
  // Takes the jobs whose rows run next, all of one model, with this one first among them.
  Queue TakeBatch(Queue::iterator first);
  void RunBatch(const Queue& batch);
  // Gives the net the state that a request of a model with states goes on with. Returns whether it may.
  static bool TakesState(QueuedRequest& request);
  void RunWork(QueuedRequest& request);
  static void End(QueuedRequest& request, RequestEnd end, const std::string& error = {});

  NetQueueLimits limits_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Queue waiting_;                              // by priority, then arrival
  ServeClock::time_point running_until_ = {};  // as predicted, with what is left of the requests that run
  double running_longest_ms_ = 0;              // of the runs of the model that ran last
  bool is_running_ = false;                    // by the engine's thread or one that brought a request
  bool is_stopping_ = false;
  bool stops_at_once_ = false;
};

}  // namespace moka
