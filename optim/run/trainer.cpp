// The loop and what ends it. Everything between two iterations is in one order, so that a resumed run meets tests,
// snapshots and requests at the same places.
#include "optim/run/trainer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/exit_code.h"
#include "core/log.h"
#include "core/log_file.h"
#include "core/text.h"
#include "optim/checkpoint/net_weights.h"
#include "optim/optimizers/lr_policy.h"
#include "optim/optimizers/solver_fields.h"
#include "optim/run/sample_grid.h"
#include "optim/run/target.h"
#include "optim/signals.h"
#include "proto/nets/net_file.h"
#include "proto/text/places.h"

namespace moka {
namespace {

constexpr double kHeartbeatSeconds = 5;

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Returns the loss of all ranks' outputs, which have been joined.
double LossOf(const std::vector<OutputValue>& outputs) {
  double loss = 0;
  for (const OutputValue& output : outputs) loss += output.loss_weight * output.value;
  return loss;
}

std::optional<double> ValueOf(const std::vector<OutputValue>& outputs, const std::string& name) {
  const auto it = std::ranges::find(outputs, name, &OutputValue::name);
  return it == outputs.end() ? std::nullopt : std::optional<double>(it->value);
}

// The end of a run that has made all of its iterations.
TrainEnd EndOfAll(const SolverParameter& solver, bool is_target_reached) {
  return solver.has_target_metric() && !is_target_reached ? TrainEnd::kTargetMissed : TrainEnd::kFinished;
}

// Whether the run has come to what it was started for.
bool IsSuccess(TrainEnd end) { return end == TrainEnd::kFinished || end == TrainEnd::kTargetReached; }

}  // namespace

Trainer::~Trainer() = default;

TrainResult Trainer::Run() {
  try {
    LogToFile(StrCat("Solving ", train_->param().name()));
    LogToFile(StrCat("Learning Rate Policy: ", solver_.lr_policy()));
    WriteStatus("running");
    TrainResult result = Loop();
    reporter_.SetPhase(RankReporter::Phase::kEnded);
    InputReport::End(train_->feed(), train_s_);
    if (scaling_ != nullptr) scaling_->End(Point(), train_s_, options_.run, *report_);
    if (is_first() && solver_.noise_scale_interval() > 0 && state_.noise.measured > 0) {
      LogInfo(state_.noise.DescribePrediction(Batch()));
    }
    LogExchange();
    report_->Plot();
    CheckLogFile();
    const bool is_open = result.end == TrainEnd::kInterrupted || result.end == TrainEnd::kTimeUp;
    WriteStatus(is_open ? "interrupted" : "finished", {}, result.exit_code());
    LogToFile("Optimization Done.");
    return result;
  } catch (const Error& e) {
    Fail(e.kind() == ErrorKind::kDiverged ? "diverged" : "failed", e.what(), static_cast<int>(e.kind()));
    throw;
  } catch (const std::exception& e) {  // memory that is not there, say
    Fail("failed", e.what(), ExitCodeOf(e));
    throw;
  }
}

void Trainer::Fail(std::string_view state, const std::string& why, int exit_code) noexcept {
  if (exit_code != static_cast<int>(ErrorKind::kPeer)) reporter_.SetFailed(exit_code);
  CancelExchange(why);
  try {
    try {
      WriteStatus(state, why, exit_code);
      mlperf_.End(state_.iteration, false);
    } catch (const Error& second) {
      if (why != second.what()) LogWarning(StrCat("the end of this run could not be written: ", second.what()));
    }
  } catch (const std::exception&) {
    return;  // without memory for a sentence the first error is told alone
  }
}

// An iteration, then what is due after it (Settle): test, best weights, target, signals, checkpoint. A run that was cut
// inside an iteration or a test goes on from the checkpoint as if it had not been cut.
TrainResult Trainer::Loop() {
  PrepareSnapshots();
  StartClock();
  started_ = displayed_ = heartbeat_ = Clock::now();
  started_at_ = displayed_at_ = state_.iteration;
  epochs_ = static_cast<int64_t>(Epoch());
  const bool tests = !tests_.empty() && solver_.test_interval() > 0;
  AskInAccumulations();
  std::optional<TrainEnd> end;
  if (state_.iteration > 0 && state_.is_test_due) end = Settle();
  if (state_.iteration == 0 && tests && solver_.test_initialization()) {
    TestAll();
    end = cut_;
    if (end) WriteSnapshot(false);
  }
  if (!end) state_.is_test_due = false;
  while (!end && state_.iteration < max_iter_) {
    Iterate();
    end = cut_;
    if (end) {
      WriteSnapshot(false);
    } else {
      end = Settle();
    }
  }
  if (cut_ && options_.take_signals) (void)SignalRequests::Take();  // answered
  train_->states().Gather(store_);
  if (!end) end = EndOfAll(solver_, is_target_reached_);
  mlperf_.End(state_.iteration, IsSuccess(*end));
  LogToFile(StrCat("Iteration ", state_.iteration, ", loss = ", General(state_.smoothed_loss)));
  return Result(*end);
}

// The test comes before the checkpoint, so that a checkpoint holds the state after it; a test that was cut is written
// down as due and made first thing by the run that goes on.
std::optional<TrainEnd> Trainer::Settle() {
  const int64_t done = state_.iteration;
  const bool was_left = state_.is_test_due;
  const bool tests = !tests_.empty() && solver_.test_interval() > 0;
  const bool is_best = tests && done % solver_.test_interval() == 0 && TestAll();
  state_.is_test_due = cut_.has_value();  // where the run that goes on has no test here any more, none is due
  const std::optional<TrainEnd> end = cut_ ? cut_ : Ending();
  // The checkpoint that follows is no part of MLPerf's run.
  if (end || done >= max_iter_) mlperf_.End(done, IsSuccess(end.value_or(EndOfAll(solver_, is_target_reached_))));
  CheckLogFile();
  const bool is_due = solver_.snapshot() > 0 && done % solver_.snapshot() == 0;
  const bool is_last =
      !cut_ && (done >= max_iter_ || (end && *end != TrainEnd::kInterrupted && *end != TrainEnd::kTimeUp));
  const bool is_stopped = end && !is_last;
  if (is_due || wants_snapshot_ || is_stopped || was_left || (is_best && solver_.keep_best()) ||
      (is_last && solver_.snapshot_after_train())) {
    WriteSnapshot(is_best);
  }
  wants_snapshot_ = false;
  if (SecondsSince(heartbeat_) > kHeartbeatSeconds) WriteStatus("running");
  return end;
}

// Copies of the plateau and of the weights before the update are kept until the iteration is whole: one that is left in
// the middle must leave no trace.
void Trainer::Iterate() {
  const Clock::time_point begin = Clock::now();
  const PlateauState plateau = state_.plateau;
  std::vector<NamedBlob> before_last;
  UpdatePlateau(solver_, state_.iteration, state_.smoothed_loss, state_.plateau);
  if (solver_.snapshot_diff()) {
    train_->states().Gather(store_);
    before_last = std::exchange(before_update_, WeightsOf(turns_->blobs(), store_));
  }
  if (tests_.empty()) train_->states().ReleaseWhole(store_);
  TellWishes();
  reporter_.SetPhase(RankReporter::Phase::kTraining);
  reporter_.SetIteration(state_.iteration);
  mlperf_.Train(state_.iteration);
  const double loss = turns_->Step(state_.iteration, state_.plateau.step, MustAgree());
  if (train_->cut().has_left()) {
    state_.plateau = plateau;
    if (solver_.snapshot_diff()) before_update_ = std::move(before_last);
    return;
  }
  train_s_ += SecondsSince(begin);
  Replan();
  state_.noise.Take(train_->norms(), double{solver_.noise_scale_decay()});
  if (std::isfinite(loss)) {
    Smooth(loss);
    if (train_->scale().overflowed_at > 0) {
      ++state_.skipped_updates;
      const std::string next = train_->scale().next ? StrCat("scale ", General(*train_->scale().next))
                                                    : std::string("loss_scale is fixed, a lower one may not overflow");
      LogWarning(StrCat("iteration ", state_.iteration, ": a gradient overflowed at loss scale ",
                        General(train_->scale().overflowed_at), "; this update is skipped (", state_.skipped_updates,
                        " so far), ", next));
    }
  } else if (solver_.on_nan() == SolverParameter::STOP) {
    Diverge(loss);
  } else {
    ++state_.skipped_updates;
    LogWarning(StrCat("iteration ", state_.iteration, ": the loss is ", loss, "; this update is skipped (",
                      state_.skipped_updates, " so far)"));
  }
  if (solver_.display() > 0 && state_.iteration % solver_.display() == 0) Display();
  ++state_.iteration;
  mlperf_.Trained(state_.iteration);
  if (const auto epochs = static_cast<int64_t>(Epoch()); epochs > epochs_) {
    input_.Epoch(train_->feed(), options_.run, Point(), train_s_ - epoch_s_);
    if (train_->exchange() != nullptr) train_->exchange()->Drain();
    if (scaling_ != nullptr) scaling_->Report(Point(), train_s_, options_.run, *report_);
    epochs_ = epochs;
    epoch_s_ = train_s_;
  }
  if (options_.observer != nullptr) options_.observer->OnIteration(Progress());
}

// The mean of the last average_loss losses, updated as Caffe does.
void Trainer::Smooth(double loss) {
  const auto window = static_cast<size_t>(std::max(solver_.average_loss(), 1));
  const auto size = static_cast<double>(state_.loss_window.size());
  if (state_.loss_window.size() < window) {
    state_.loss_window.push_back(loss);
    state_.smoothed_loss = (state_.smoothed_loss * size + loss) / (size + 1);
    return;
  }
  state_.smoothed_loss += (loss - state_.loss_window.front()) / static_cast<double>(window);
  state_.loss_window.erase(state_.loss_window.begin());
  state_.loss_window.push_back(loss);
}

void Trainer::Diverge(double loss) {
  const std::optional<NonFinite> first = turns_->failed().FindNonFinite();
  std::string where = "no single value is to blame";
  if (first) {
    where = StrCat("the first value that is not finite is ", first->what, " of layer \"", first->layer, "\" (index ",
                   first->index, ": ", first->value, ")");
  }
  const std::string kept = last_checkpoint_.empty() ? std::string("there is no checkpoint yet")
                                                    : StrCat("the last good checkpoint is ", last_checkpoint_.string());
  throw Error(ErrorKind::kDiverged, SourcePlace{},
              StrCat("iteration ", state_.iteration, ": the loss is ", loss, "; ", where, "; ", kept),
              "lower base_lr, set clip_gradients or warmup_iter, or look at the data of that layer");
}

// A weight may stop being finite while the loss still is; a test or a checkpoint of it would be worthless.
void Trainer::CheckWeights() {
  for (const NetBlob& blob : turns_->blobs()) {
    const std::vector<float> values = store_.Values(blob.name);
    const auto bad = std::ranges::find_if(values, [](float v) { return !std::isfinite(v); });
    if (bad == values.end()) continue;
    const std::string kept = last_checkpoint_.empty()
                                 ? std::string("there is no checkpoint yet")
                                 : StrCat("the last good checkpoint is ", last_checkpoint_.string());
    throw Error(ErrorKind::kDiverged, SourcePlace{},
                StrCat("iteration ", state_.iteration, ": blob ", blob.index, " of layer \"", blob.layer,
                       "\" has become ", *bad, " though the loss is ", state_.smoothed_loss, "; ", kept),
                "lower base_lr, set clip_gradients, or look for values in the data that are not finite");
  }
}

void Trainer::Display() {
  TrainReport::Display display;
  display.iteration = state_.iteration;
  display.every = solver_.display();
  display.since_last = state_.iteration - displayed_at_;
  display.seconds = SecondsSince(displayed_);
  display.progress = Progress();
  // The iteration counts as done only after this: its rate is that of its own number.
  display.progress.lr = LearningRate(turns_->lead_solver(), state_.iteration, state_.plateau.step);
  display.outputs = IsTogether() ? OverRanks(turns_->Outputs()) : turns_->Outputs();
  if (!signs_) signs_.emplace(turns_->WholeNet());
  if (is_first()) signs_->Look(display.outputs);
  display.loss_scale = train_->scale().next;
  if (solver_.noise_scale_interval() > 0) display.noise = state_.noise;
  display.input_wait_ms =
      input_.TakeWaitMs(train_->feed()) / static_cast<double>(std::max<int64_t>(state_.iteration - displayed_at_, 1));
  report_->Train(display);
  displayed_ = Clock::now();
  displayed_at_ = state_.iteration;
}

bool Trainer::TestAll() {
  reporter_.SetPhase(RankReporter::Phase::kTesting);
  if (options_.run != nullptr) options_.run->CheckStanding();
  mlperf_.StartTest(state_.iteration);
  train_->states().Gather(store_);
  CheckWeights();
  bool is_best = false;
  const TrainerState before = state_;
  const bool was_target_reached = is_target_reached_;
  for (size_t i = 0; i < tests_.size(); ++i) {
    const int net = static_cast<int>(i);
    const int64_t batches = solver_.test_iter(net);
    if (!TestsNet(solver_, net)) continue;
    report_->TestBegins(net, state_.iteration);
    TestReport test{.net = net, .iteration = state_.iteration, .outputs = {}, .is_best = false};
    const int64_t own_batches = batches / tests_[i]->feed().ranks();
    std::vector<OutputValue> outputs = tests_[i]->Run(own_batches, [&](int64_t done) {
      if (options_.observer != nullptr) options_.observer->OnTestBatch(net, done, own_batches);
      return done == own_batches || !LeavesTest(done);
    });
    if (cut_) {
      DropTest(before, was_target_reached);
      return false;
    }
    test.outputs = OverRanks(std::move(outputs));
    if (options_.run != nullptr) {
      samples_.Try([&] { DrawSampleGrids(solver_, net, *tests_[i], state_.iteration, options_.run->path()); });
    }
    if (i == 0) {
      mlperf_.Test(state_.iteration, ValueOf(test.outputs, accuracy_).value_or(std::nan("")));
      is_best = test.is_best = RankTest(test.outputs);
    }
    report_->Test(test, Point(),
                  {.with_loss = solver_.test_compute_loss(),
                   .with_classes = solver_.show_per_class_result(),
                   .loss = LossOf(test.outputs)});
    if (options_.observer != nullptr) options_.observer->OnTest(test);
  }
  state_.is_test_due = false;
  mlperf_.EndTest(state_.iteration);
  report_->Plot();
  return is_best;
}

bool Trainer::RankTest(const std::vector<OutputValue>& outputs) {
  if (solver_.has_target_metric()) {
    const double value = ValueOf(outputs, solver_.target_metric()).value_or(std::nan(""));
    is_target_reached_ = is_target_reached_ ||
                         MeetsTarget(value, double{solver_.target_value()}, FallsToItsTarget(solver_.target_metric()));
  }
  const std::optional<double> value = ValueOf(outputs, best_metric_);
  if (!value || !std::isfinite(*value)) return false;
  if (state_.best && (is_smaller_better_ ? *value >= *state_.best : *value <= *state_.best)) {
    ++state_.tests_since_best;
    return false;
  }
  state_.best = *value;
  state_.best_iteration = state_.iteration;
  state_.tests_since_best = 0;
  return true;
}

std::optional<TrainEnd> Trainer::Ending() {
  TakeWishes();  // before anything else: what a signal wants of one rank alone must not be done by it alone
  if (is_target_reached_) return TrainEnd::kTargetReached;
  if (solver_.early_stop_patience() > 0 && state_.tests_since_best >= solver_.early_stop_patience()) {
    return TrainEnd::kStoppedEarly;
  }
  if (state_.iteration >= max_iter_) return std::nullopt;
  if (wants_stop_ || state_.iteration == options_.stop_after) return TrainEnd::kInterrupted;
  if (is_time_up_) return TrainEnd::kTimeUp;
  return std::nullopt;
}

// Rates are those of training alone: tests and checkpoints are not in train_s_, though the time left counts them.
TrainProgress Trainer::Progress() const {
  TrainProgress progress;
  progress.iteration = state_.iteration;
  progress.max_iteration = max_iter_;
  progress.epoch = Epoch();
  progress.clock_s = clock_.run_s();
  progress.loss = state_.smoothed_loss;
  progress.lr = LearningRate(turns_->lead_solver(), std::max<int64_t>(state_.iteration - 1, 0), state_.plateau.step);
  const auto done = static_cast<double>(state_.iteration - started_at_);
  if (train_s_ > 0 && done > 0) {
    progress.images_per_s = done * static_cast<double>(Batch()) / train_s_;
    progress.eta_s = SecondsSince(started_) / done * static_cast<double>(max_iter_ - state_.iteration);
  }
  return progress;
}

double Trainer::Epoch() const {
  const int64_t records = train_->feed().epoch_size();
  if (records <= 0) return 0;
  const double samples = static_cast<double>(state_.iteration) * static_cast<double>(Batch());
  return samples / static_cast<double>(records);
}

void Trainer::WriteStatus(std::string_view state, const std::string& error, std::optional<int> exit_code) {
  if (options_.run == nullptr) return;
  const TrainProgress progress = Progress();
  RunStatus status;
  status.state = state;
  status.iteration = state_.iteration;
  status.max_iteration = max_iter_;
  status.batch = Batch();
  status.epoch = progress.epoch;
  status.eta_s = progress.eta_s;
  status.best = state_.best;
  if (!last_checkpoint_.empty()) status.last_checkpoint = StrCat("checkpoints/", last_checkpoint_.filename().string());
  status.exit_code = exit_code;
  status.error = error;
  if (clock_.has_started()) status.clock = {.init_s = clock_.init_s(), .run_s = clock_.run_s()};
  options_.run->WriteStatus(status);
  heartbeat_ = Clock::now();
}

TrainResult Trainer::Result(TrainEnd end) const {
  return {.end = end,
          .iteration = state_.iteration,
          .loss = state_.smoothed_loss,
          .best = state_.best,
          .best_iteration = state_.best_iteration,
          .best_metric = best_metric_,
          .checkpoint = last_checkpoint_};
}

void Trainer::Announce(std::string_view phase) {
  LogToFile(phase);
  if (options_.observer != nullptr) options_.observer->OnPhase(phase);
}

}  // namespace moka
