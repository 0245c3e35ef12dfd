// A batch is chosen anew whenever the engine is free: what waits then is what may run together, and no request waits
// for another to come unless its model's settings say so.
#include "tools/serve/net_queue.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"

namespace moka {
namespace {

// The place of a priority in the queue of all models: 0 is usual, lower ones come first.
int64_t LevelOf(const ServedModel& model, int64_t priority) {
  return priority == 0 ? 0 : priority - model.settings().usual_priority;
}
int64_t LevelOf(const QueuedRequest& request) { return LevelOf(*request.model, request.priority); }

int64_t NsBetween(ServeClock::time_point from, ServeClock::time_point to) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(to - from).count();
}

double MsBetween(ServeClock::time_point from, ServeClock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

// Milliseconds that so many rows of a request's model, or its work, take.
double CostMs(const QueuedRequest& request, int64_t rows) {
  if (request.work) return request.work_ms;
  return request.model->slowness() * PredictedMs(request.model->rungs(), rows);
}

// Milliseconds that all rows of requests of one model take.
double CostMs(const std::list<std::shared_ptr<QueuedRequest>>& batch) {
  if (batch.empty()) return 0;
  int64_t rows = 0;
  for (const auto& request : batch) rows += request->rows - request->next_row;
  return CostMs(*batch.front(), rows);
}

// Milliseconds that as many rows of a model as the largest batch may have take.
double LongestMs(const ServedModel& model) {
  return model.rungs().empty() ? 0
                               : model.slowness() * PredictedMs(model.rungs(), model.settings().most_rows.value_or(1));
}
double LongestMs(const QueuedRequest& request) { return request.work ? request.work_ms : LongestMs(*request.model); }

void CountSeconds(CountedModel& counted, int64_t ns) {
  int64_t bound = 500'000;
  int bucket = 0;
  for (; bucket < CountedModel::kBuckets && ns > bound; ++bucket) bound *= 2;
  ++counted.seconds[static_cast<size_t>(bucket)];
}

// A request's rows in a run: from its next on, so many, from a row of the program on.
struct Part {
  QueuedRequest* request = nullptr;
  int64_t at = 0;
  int64_t rows = 0;
};

struct BatchTimes {
  ServeClock::time_point begun = {};
  ServeClock::time_point filled = {};
  ServeClock::time_point ran = {};
  ServeClock::time_point taken = {};
};

// Copies as many rows as the rung has into its program.
std::vector<Part> FillRows(const std::list<std::shared_ptr<QueuedRequest>>& batch, const Rung& rung,
                           ServeClock::time_point now) {
  ServedModel& model = *batch.front()->model;
  std::vector<Part> parts;
  int64_t used = 0;
  for (const auto& request : batch) {
    const int64_t rows = std::min(rung.rows - used, request->rows - request->next_row);
    if (rows == 0) break;
    if (request->next_row == 0) request->begun = now;
    for (size_t i = 0; i < model.inputs().size(); ++i) {
      const int64_t count = model.inputs()[i].Count();
      const float* from = request->inputs[i].data() + request->next_row * count;
      for (int64_t row = 0; row < rows; ++row)
        std::copy_n(from + row * count, count, model.InputRow(rung, i, used + row).data());
    }
    parts.push_back({request.get(), used, rows});
    used += rows;
  }
  return parts;
}

void TakeRows(const std::vector<Part>& parts, const Rung& rung, const ServedModel& model) {
  for (const Part& part : parts) {
    for (size_t i = 0; i < model.outputs().size(); ++i) {
      for (int64_t row = 0; row < part.rows; ++row) {
        const std::span<const float> values = model.OutputRow(rung, i, part.at + row);
        std::vector<float>& taken = part.request->outputs[i];
        taken.insert(taken.end(), values.begin(), values.end());
      }
    }
    part.request->next_row += part.rows;
  }
}

void CountBatch(const ServedModel& model, const BatchTimes& times, const std::vector<Part>& parts, int64_t waiting) {
  const int64_t used = parts.back().at + parts.back().rows;
  model.counts().Update([&](CountedModel& counted) {
    counted.rows += used;
    ++counted.runs;
    counted.alone += parts.size() == 1 && waiting == used ? 1 : 0;
    counted.input.Add(NsBetween(times.begun, times.filled));
    counted.infer.Add(NsBetween(times.filled, times.ran));
    counted.output.Add(NsBetween(times.ran, times.taken));
    BatchCount& of_rows = counted.batches[used];
    ++of_rows.runs;
    of_rows.input_ns += NsBetween(times.begun, times.filled);
    of_rows.infer_ns += NsBetween(times.filled, times.ran);
    of_rows.output_ns += NsBetween(times.ran, times.taken);
  });
}

// After a row of a model that keeps states.
void KeepState(QueuedRequest& request) {
  KeptStates& states = *request.model->states();
  request.state = states.net.State();
  if (request.next_row == request.rows) states.sequences.End(request.sequence, request.state);
}

}  // namespace

ServedTimes QueuedRequest::Times() const {
  if (begun == ServeClock::time_point{}) return {.rows = rows, .queue_ms = MsBetween(queued, ServeClock::now())};
  return {.rows = rows, .queue_ms = MsBetween(queued, begun), .run_ms = MsBetween(begun, ServeClock::now())};
}

NetQueue::Wait NetQueue::WaitOf(int64_t level, double own_ms) const {
  constexpr double kRuns = 2;
  constexpr double kLeastMs = 100;
  std::map<const ServedModel*, int64_t> rows;
  // A run may end before it was thought to.
  Wait wait{.ms = is_running_ ? std::max(0.0, MsBetween(ServeClock::now(), running_until_)) : 0};
  double longest_ms = is_running_ ? std::max(own_ms, running_longest_ms_) : own_ms;
  for (const auto& request : waiting_) {
    if (LevelOf(*request) > level) continue;  // it would be overtaken
    longest_ms = std::max(longest_ms, LongestMs(*request));
    if (request->work) {
      wait.ms += request->work_ms;
    } else {
      rows[request->model.get()] += request->rows - request->next_row;
    }
  }
  for (const auto& [model, count] : rows) wait.ms += model->slowness() * PredictedMs(model->rungs(), count);
  wait.most_ms =
      limits_.most_wait ? static_cast<double>(limits_.most_wait->count()) : std::max(kLeastMs, kRuns * longest_ms);
  return wait;
}

bool NetQueue::RunsHere(const QueuedRequest& request) const {
  // Others of the caller's connections wait so long.
  constexpr double kMostMs = 0.5;
  if (is_running_ || !waiting_.empty() || request.rows != 1) return false;
  const ServedModel& model = *request.model;
  if (model.rungs().empty() || model.rungs()[0].threads != 1 || model.states() != nullptr) return false;
  if (!request.work && model.settings().most_delay.count() > 0) return false;  // it waits for others
  return model.slowness() * (request.work ? request.work_ms : model.rungs()[0].ms) <= kMostMs;
}

void NetQueue::Begin(const Queue& batch) {
  is_running_ = true;
  running_longest_ms_ = LongestMs(*batch.front());
  running_until_ = ServeClock::now() + std::chrono::microseconds(std::lround(1000 * CostMs(batch)));
}

Submission NetQueue::Submit(std::shared_ptr<QueuedRequest> request) {
  Submission submission;
  Queue here;
  request->queued = ServeClock::now();
  if (request->most_wait.count() > 0) request->due = request->queued + request->most_wait;
  {
    const std::lock_guard lock(mutex_);
    submission.is_closing = is_stopping_;
    const Wait wait = WaitOf(LevelOf(*request), std::max(LongestMs(*request), CostMs(*request, request->rows)));
    submission.wait_ms = wait.ms;
    submission.is_late =
        request->due != ServeClock::time_point::max() && MsBetween(ServeClock::now(), request->due) < wait.ms;
    if (is_stopping_ || IsFull(*request->model, request->priority) || wait.IsTooLong() || submission.is_late)
      return submission;
    submission.is_taken = true;
    if (RunsHere(*request)) {
      here.push_back(std::move(request));
      Begin(here);
    } else {
      const auto after =
          std::ranges::find_if(waiting_, [&](const auto& other) { return LevelOf(*other) > LevelOf(*request); });
      waiting_.insert(after, std::move(request));
    }
  }
  if (here.empty()) {
    changed_.notify_one();
  } else {
    RunTaken(here);
  }
  return submission;
}

bool NetQueue::IsFull(const ServedModel& model, int64_t priority) const {
  if (std::ssize(waiting_) >= limits_.waiting) return true;
  const int64_t most = model.settings().QueueOf(priority).most_waiting;
  const int64_t level = LevelOf(model, priority);
  const auto is_beside = [&](const auto& other) { return other->model.get() == &model && LevelOf(*other) == level; };
  return most > 0 && std::ranges::count_if(waiting_, is_beside) >= most;
}

Submission NetQueue::Look(const ServedModel& model, int64_t priority, double later_ms) const {
  const std::lock_guard lock(mutex_);
  Submission submission;
  submission.is_closing = is_stopping_;
  Wait wait = WaitOf(LevelOf(model, priority), LongestMs(model));
  wait.ms = std::max(later_ms, wait.ms);
  submission.wait_ms = wait.ms;
  submission.is_taken = !is_stopping_ && !IsFull(model, priority) && !wait.IsTooLong();
  return submission;
}

int64_t NetQueue::waiting() const {
  const std::lock_guard lock(mutex_);
  return std::ssize(waiting_);
}

int64_t NetQueue::waiting(const ServedModel& model) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::count_if(waiting_, [&](const auto& request) { return request->model.get() == &model; });
}

void NetQueue::Stop(bool at_once) {
  Queue left;
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    stops_at_once_ = at_once;
    if (at_once) left.swap(waiting_);
  }
  changed_.notify_one();
  for (const auto& request : left) End(*request, RequestEnd::kStopped);
}

NetQueue::Queue NetQueue::TakeUnwanted() {
  Queue unwanted;
  const auto now = ServeClock::now();
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    const QueuedRequest& request = **it;
    const bool is_gone = request.is_gone && *request.is_gone;
    const bool is_late = request.next_row == 0 && now > request.due;
    const auto next = std::next(it);
    if (is_gone || is_late) unwanted.splice(unwanted.end(), waiting_, it);
    it = next;
  }
  return unwanted;
}

ServeClock::time_point NetQueue::ReadyAt(const QueuedRequest& request) const {
  const ServedModel& model = *request.model;
  const ModelSettings& settings = model.settings();
  const bool is_alone = request.work || model.states() != nullptr;
  if (is_alone || settings.most_delay.count() == 0 || is_stopping_) return ServeClock::time_point::min();
  const int64_t enough = settings.preferred_rows.empty() ? model.rungs().back().rows : settings.preferred_rows.front();
  int64_t rows = 0;
  auto at = ServeClock::time_point::max();
  for (const auto& other : waiting_) {
    if (other->model != request.model || other->work) continue;
    rows += other->rows - other->next_row;
    if (rows >= enough || other->has_waited) return ServeClock::time_point::min();
    ServeClock::duration delay = settings.most_delay;
    // It is to be begun before its time is over, however busy the machine is.
    if (other->due != ServeClock::time_point::max()) delay = std::min(delay, (other->due - other->queued) / 2);
    at = std::min(at, other->queued + delay);
  }
  return at;
}

NetQueue::Queue::iterator NetQueue::FirstReady(ServeClock::time_point& next) {
  const auto now = ServeClock::now();
  std::vector<const ServedModel*> later;
  next = ServeClock::time_point::max();
  for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
    const ServedModel* model = (*it)->model.get();
    if (!(*it)->work && std::ranges::find(later, model) != later.end()) continue;
    const auto at = ReadyAt(**it);
    if (at <= now) return it;
    later.push_back(model);
    next = std::min(next, at);
  }
  return waiting_.end();
}

NetQueue::Queue NetQueue::TakeBatch(Queue::iterator first) {
  Queue batch;
  const QueuedRequest& head = **first;
  const ServedModel* model = head.model.get();
  if (head.work || model->states() != nullptr) {  // a state is one request's
    batch.splice(batch.end(), waiting_, first);
    return batch;
  }
  const auto is_same = [&](const QueuedRequest& request) { return request.model.get() == model && !request.work; };
  int64_t rows = 0;
  for (const auto& request : waiting_) {
    if (!is_same(*request)) continue;
    rows += request->rows - request->next_row;
    request->has_waited = true;
  }
  int64_t room = NextRung(model->rungs(), rows).rows;
  for (auto it = waiting_.begin(); it != waiting_.end() && room > 0;) {
    const auto next = std::next(it);
    if (is_same(**it)) {
      room -= (*it)->rows - (*it)->next_row;
      batch.splice(batch.end(), waiting_, it);
    }
    it = next;
  }
  return batch;
}

void NetQueue::Run() {
  for (;;) {
    Queue unwanted;
    Queue batch;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !is_running_ && (!waiting_.empty() || is_stopping_); });
      if (waiting_.empty()) return;
      unwanted = TakeUnwanted();
      ServeClock::time_point next;
      const auto first = FirstReady(next);
      if (first != waiting_.end()) batch = TakeBatch(first);
      if (batch.empty() && unwanted.empty()) {  // until a batch is full or has waited for long enough
        changed_.wait_until(lock, next);
        continue;
      }
      if (!batch.empty()) Begin(batch);
    }
    for (const auto& request : unwanted)
      End(*request, request->is_gone && *request->is_gone ? RequestEnd::kGone : RequestEnd::kLate);
    if (!batch.empty()) RunTaken(batch);
  }
}

void NetQueue::RunTaken(const Queue& batch) {
  if (batch.front()->work) {
    RunWork(*batch.front());
  } else {
    RunBatch(batch);
  }
  {
    const std::lock_guard lock(mutex_);
    is_running_ = false;
    if (waiting_.empty() && !is_stopping_) return;
  }
  changed_.notify_one();
}

void NetQueue::RunWork(QueuedRequest& request) {
  request.begun = ServeClock::now();
  request.model->UseTeamOfOne();
  std::string failed;
  try {
    request.work();
  } catch (const std::exception& error) {
    failed = error.what();
  }
  const auto end = ServeClock::now();
  request.model->counts().Update([&](CountedModel& counted) {
    counted.rows += request.rows;
    ++counted.runs;
    ++counted.alone;
    counted.infer.Add(NsBetween(request.begun, end));
  });
  End(request, failed.empty() ? RequestEnd::kDone : RequestEnd::kFailed, failed);
}

bool NetQueue::TakesState(QueuedRequest& request) {
  ServedModel& model = *request.model;
  try {
    if (request.next_row == 0) request.state = model.states()->sequences.Begin(request.sequence);
    model.states()->net.SetState(request.state);
    return true;
  } catch (const Error& error) {
    const bool is_full = error.kind() == ErrorKind::kUnavailable;
    const std::string text = error.hint().empty() ? error.text() : StrCat(error.text(), "; ", error.hint());
    End(request, is_full ? RequestEnd::kFull : RequestEnd::kWrong, text);
    return false;
  }
}

void NetQueue::RunBatch(const Queue& batch) {
  ServedModel& model = *batch.front()->model;
  if (model.states() != nullptr && !TakesState(*batch.front())) return;
  int64_t waiting = 0;
  for (const auto& request : batch) waiting += request->rows - request->next_row;
  const Rung& rung = NextRung(model.rungs(), waiting);
  BatchTimes times;
  std::string failed;
  try {
    times.begun = ServeClock::now();
    const std::vector<Part> parts = FillRows(batch, rung, times.begun);
    times.filled = ServeClock::now();
    model.Run(rung);
    times.ran = ServeClock::now();
    TakeRows(parts, rung, model);
    if (model.states() != nullptr) KeepState(*batch.front());
    times.taken = ServeClock::now();
    CountBatch(model, times, parts, waiting);
  } catch (const std::exception& error) {
    failed = error.what();
    LogWarning(StrCat("a batch of ", model.name(), " failed: ", failed));
  }
  Queue left;
  for (const auto& request : batch) {
    if (!failed.empty()) {
      End(*request, RequestEnd::kFailed, failed);
    } else if (request->next_row == request->rows) {
      End(*request, RequestEnd::kDone);
    } else {
      left.push_back(request);
    }
  }
  if (left.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    if (!stops_at_once_) {
      const int64_t level = LevelOf(*left.front());
      const auto at = std::ranges::find_if(waiting_, [&](const auto& other) { return LevelOf(*other) >= level; });
      waiting_.splice(at, left);
    }
  }
  for (const auto& request : left) End(*request, RequestEnd::kStopped);
}

void NetQueue::End(QueuedRequest& request, RequestEnd end, const std::string& error) {
  const auto now = ServeClock::now();
  request.model->counts().Update([&](CountedModel& counted) {
    counted.last_ms =
        std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
            .count();
    const int64_t ns = NsBetween(request.arrived, now);
    if (end == RequestEnd::kDone && !request.is_refused) {
      counted.success.Add(ns);
      counted.queue.Add(NsBetween(request.queued, request.begun));
      CountSeconds(counted, ns);
    } else {
      counted.fail.Add(ns);
      if (end == RequestEnd::kGone) ++counted.cancelled;
      if (end == RequestEnd::kLate) ++counted.late;
    }
  });
  try {
    request.ended(request, end, error);
  } catch (const std::exception& thrown) {
    LogWarning(StrCat("a request's answer failed: ", thrown.what()));
  }
}

}  // namespace moka
