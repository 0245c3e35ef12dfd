// The events of a training in MLPerf's log, in their order:
//
//   run_start -> (block_start|epoch_start -> .. -> block_stop|epoch_stop -> [eval_start -> eval_accuracy ->
//   eval_stop])*
//             -> run_stop
//
// Tests at ends of epochs alone: each epoch is an interval. Else the stretch between two tests is a block. A line of
// the loop has the iteration in its metadata, by which a resumed run finds where it goes on (ResumeMlperfLog).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "optim/run/mlperf_fields.h"
#include "optim/run/mlperf_log.h"

namespace moka {

// One thread. Without a log every call does nothing.
class MlperfRun {
 public:
  struct Course {
    MlperfFacts facts;
    int64_t test_interval = 1;
    int64_t max_iter = 0;
  };
  MlperfRun() = default;
  // A run that goes on has its block or epoch open since that iteration, or none.
  MlperfRun(MlperfLog log, const Course& course, std::optional<int64_t> open_since = {})
      : log_(std::move(log)), course_(course), open_since_(open_since) {}

  void Begin() const;
  // The session goes on from a checkpoint of `done` iterations, whose clock had run `clock_s`.
  void GoOn(int64_t done, double clock_s) const;
  // An iteration begins and ends; `done` is what is done then.
  void Train(int64_t done);
  void Trained(int64_t done);
  void StartTest(int64_t done);
  // A value that is not finite is no accuracy: it is left out, with a warning.
  void Test(int64_t done, double accuracy) const;
  void EndTest(int64_t done) const;
  // The run has come to its end; nothing that comes later is logged.
  void End(int64_t done, bool is_success);

 private:
  // Where all tests lie at ends of epochs.
  bool is_by_epoch() const { return course_.test_interval % course_.facts.steps_per_epoch() == 0; }
  int64_t interval() const { return is_by_epoch() ? course_.facts.steps_per_epoch() : course_.test_interval; }
  // Epochs of so many iterations: whole ones where the intervals are.
  double Epochs(int64_t iterations) const;
  // The fields of the interval that begins there.
  std::vector<MlperfField> Interval(int64_t begin) const;
  void CloseInterval(int64_t done);

  std::optional<MlperfLog> log_;
  Course course_;
  std::optional<int64_t> open_since_;
};

}  // namespace moka
