// A batch is chosen anew whenever the engine is free: what waits then is what may run together, and no request waits
// for another to come.
#include "tools/serve/net_queue.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"

namespace moka {
namespace {

int64_t LevelOf(const QueuedRequest& job) {
  return job.priority == 0 ? kUsualPriority : std::min(job.priority, kLowestPriority);
}

int64_t NsBetween(ServeClock::time_point from, ServeClock::time_point to) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(to - from).count();
}

void CountSeconds(CountedModel& counted, int64_t ns) {
  int64_t bound = 500'000;
  int bucket = 0;
  for (; bucket < CountedModel::kBuckets && ns > bound; ++bucket) bound *= 2;
  ++counted.seconds[static_cast<size_t>(bucket)];
}

}  // namespace

double NetQueue::PredictedWaitMs() const {
  std::map<const ServedModel*, int64_t> rows;
  double ms = 0;
  for (const auto& job : waiting_) {
    if (job->work) {
      ms += job->model->rungs().empty() ? 1 : job->model->rungs()[0].ms;
    } else {
      rows[job->model.get()] += job->rows - job->next_row;
    }
  }
  for (const auto& [model, count] : rows) ms += PredictedMs(model->rungs(), count);
  return ms;
}

Submission NetQueue::Submit(std::shared_ptr<QueuedRequest> job) {
  Submission submission;
  {
    const std::lock_guard lock(mutex_);
    submission.wait_ms = PredictedWaitMs();
    const auto wait = std::chrono::duration<double, std::milli>(submission.wait_ms);
    const bool is_late = job->due != ServeClock::time_point::max() && ServeClock::now() + wait > job->due;
    if (is_stopping_ || std::ssize(waiting_) >= limits_.waiting || wait > limits_.most_wait || is_late)
      return submission;
    submission.is_taken = true;
    const auto after =
        std::ranges::find_if(waiting_, [&](const auto& other) { return LevelOf(*other) > LevelOf(*job); });
    waiting_.insert(after, std::move(job));
  }
  changed_.notify_one();
  return submission;
}

int64_t NetQueue::waiting() const {
  const std::lock_guard lock(mutex_);
  return std::ssize(waiting_);
}

int64_t NetQueue::waiting(const ServedModel& model) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::count_if(waiting_, [&](const auto& job) { return job->model.get() == &model; });
}

void NetQueue::Stop(bool at_once) {
  Queue left;
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    if (at_once) left.swap(waiting_);
  }
  changed_.notify_one();
  for (const auto& job : left) End(*job, RequestEnd::kStopped);
}

NetQueue::Queue NetQueue::TakeUnwanted() {
  Queue unwanted;
  const auto now = ServeClock::now();
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    const QueuedRequest& job = **it;
    const bool is_gone = job.is_gone && *job.is_gone;
    const bool is_late = job.next_row == 0 && now > job.due;
    const auto next = std::next(it);
    if (is_gone || is_late) unwanted.splice(unwanted.end(), waiting_, it);
    it = next;
  }
  return unwanted;
}

NetQueue::Queue NetQueue::TakeBatch() {
  Queue batch;
  const QueuedRequest& head = *waiting_.front();
  if (head.work) {
    batch.splice(batch.end(), waiting_, waiting_.begin());
    return batch;
  }
  const ServedModel* model = head.model.get();
  const auto is_same = [&](const QueuedRequest& job) { return job.model.get() == model && !job.work; };
  int64_t rows = 0;
  for (const auto& job : waiting_) {
    if (is_same(*job)) rows += job->rows - job->next_row;
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
      changed_.wait(lock, [&] { return !waiting_.empty() || is_stopping_; });
      if (waiting_.empty()) return;
      unwanted = TakeUnwanted();
      if (!waiting_.empty()) batch = TakeBatch();
    }
    for (const auto& job : unwanted) End(*job, job->is_gone && *job->is_gone ? RequestEnd::kGone : RequestEnd::kLate);
    if (batch.empty()) continue;
    if (batch.front()->work) {
      RunWork(*batch.front());
    } else {
      RunBatch(batch);
    }
  }
}

void NetQueue::RunWork(QueuedRequest& job) {
  job.begun = ServeClock::now();
  std::string failed;
  try {
    job.work();
  } catch (const std::exception& error) {
    failed = error.what();
  }
  const auto end = ServeClock::now();
  job.model->counts().Update([&](CountedModel& counted) {
    ++counted.rows;
    ++counted.runs;
    counted.infer.Add(NsBetween(job.begun, end));
  });
  End(job, failed.empty() ? RequestEnd::kDone : RequestEnd::kFailed, failed);
}

void NetQueue::RunBatch(const Queue& batch) {
  ServedModel& model = *batch.front()->model;
  int64_t waiting = 0;
  for (const auto& job : batch) waiting += job->rows - job->next_row;
  const Rung& rung = NextRung(model.rungs(), waiting);
  // The part of each job in this run: its rows from next_row on, from a row of the program on.
  struct Part {
    QueuedRequest* job;
    int64_t at;
    int64_t rows;
  };
  std::vector<Part> parts;
  const auto begin = ServeClock::now();
  int64_t used = 0;
  for (const auto& job : batch) {
    const int64_t rows = std::min(rung.rows - used, job->rows - job->next_row);
    if (rows == 0) break;
    if (job->next_row == 0) job->begun = begin;
    for (size_t i = 0; i < model.inputs().size(); ++i) {
      const int64_t count = model.inputs()[i].Count();
      const float* from = job->inputs[i].data() + job->next_row * count;
      for (int64_t row = 0; row < rows; ++row)
        std::copy_n(from + row * count, count, model.InputRow(rung, i, used + row).data());
    }
    parts.push_back({job.get(), used, rows});
    used += rows;
  }
  const auto filled = ServeClock::now();
  std::string failed;
  try {
    model.Run(rung);
  } catch (const std::exception& error) {
    failed = error.what();
  }
  const auto ran = ServeClock::now();
  for (const Part& part : parts) {
    QueuedRequest& job = *part.job;
    for (size_t i = 0; i < model.outputs().size() && failed.empty(); ++i) {
      for (int64_t row = 0; row < part.rows; ++row) {
        const std::span<const float> values = model.OutputRow(rung, i, part.at + row);
        job.outputs[i].insert(job.outputs[i].end(), values.begin(), values.end());
      }
    }
    job.next_row += part.rows;
  }
  const auto end = ServeClock::now();
  model.counts().Update([&](CountedModel& counted) {
    counted.rows += used;
    ++counted.runs;
    counted.alone += parts.size() == 1 && waiting == used ? 1 : 0;
    counted.input.Add(NsBetween(begin, filled));
    counted.infer.Add(NsBetween(filled, ran));
    counted.output.Add(NsBetween(ran, end));
    BatchCount& of_rows = counted.batches[used];
    ++of_rows.runs;
    of_rows.ns += NsBetween(filled, ran);
  });
  Queue left;
  for (const auto& job : batch) {
    if (!failed.empty()) {
      End(*job, RequestEnd::kFailed, failed);
    } else if (job->next_row == job->rows) {
      End(*job, RequestEnd::kDone);
    } else {
      left.push_back(job);
    }
  }
  if (left.empty()) return;
  const std::lock_guard lock(mutex_);
  waiting_.splice(waiting_.begin(), left);
}

void NetQueue::End(QueuedRequest& job, RequestEnd end, const std::string& error) {
  const auto now = ServeClock::now();
  job.model->counts().Update([&](CountedModel& counted) {
    counted.last_ms =
        std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
            .count();
    const int64_t ns = NsBetween(job.arrived, now);
    if (end == RequestEnd::kDone) {
      counted.success.Add(ns);
      counted.queue.Add(NsBetween(job.arrived, job.begun));
      CountSeconds(counted, ns);
    } else {
      counted.fail.Add(ns);
      if (end == RequestEnd::kGone) ++counted.cancelled;
      if (end == RequestEnd::kLate) ++counted.late;
    }
  });
  try {
    job.ended(job, end, error);
  } catch (const std::exception& thrown) {
    LogWarning(StrCat("a request's answer failed: ", thrown.what()));
  }
}

}  // namespace moka
