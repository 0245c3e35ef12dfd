// Forward, backward and update are three calls, with the solver's rate, average loss and tests between them as in
// Caffe's Step.
#include "optim/layerwise/solver.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "layers/net/catalog.h"
#include "optim/checkpoint/caffe_state.h"
#include "optim/layerwise/net_files.h"
#include "optim/optimizers/groups.h"
#include "optim/optimizers/solver_fields.h"
#include "optim/step/step_program.h"
#include "proto/text/places.h"

namespace moka {
namespace {

constexpr int64_t kMaxShown = 1000;  // elements of an output written to the log

// Refuses fields that moka train acts on and single steps do not: with it the result would be another.
void RefuseUnstepped(const SolverParameter& solver) {
  const auto refuse = [&](bool is_given, std::string_view field, std::string_view text) {
    if (!is_given) return;
    throw Error(ErrorKind::kUnavailable, PlaceOf(solver, field), StrCat(field, ": a solver in Python ", text),
                "moka.train and moka train do it");
  };
  const bool is_plain = solver.precision().empty() || solver.precision() == "float32";
  refuse(solver.turn_size() > 0, "turn", "steps one net");
  refuse(solver.max_epochs() > 0, "max_epochs", "counts iterations: give max_iter");
  refuse(solver.has_max_time(), "max_time", "looks at no clock");
  refuse(solver.has_target_metric(), "target_metric", "stops at no target");
  refuse(solver.early_stop_patience() > 0, "early_stop_patience", "does not stop before max_iter");
  refuse(solver.ema_decay() != 0, "ema_decay", "keeps no mean of the weights");
  refuse(!is_plain, "precision", "computes in float32");
  refuse(solver.loss_scale() != 0 && solver.loss_scale() != 1, "loss_scale", "does not scale the loss");
  refuse(solver.has_first_solver(), "first_solver", "trains no other before it");
  refuse(solver.distributed().ByteSizeLong() > 0, "distributed", "is one rank");
}

}  // namespace

LayerwiseSolver::LayerwiseSolver(SolverParameter solver, const SolverNets& nets, LayerwiseOptions options)
    : solver_(std::move(solver)) {
  RefuseUnstepped(solver_);
  CheckOptimizer(solver_);
  CheckLrPolicy(solver_);
  SolverContext context{};
  context.finds_loss_scale = false;
  context.is_stepped = true;
  TellGroups(nets.train, context);
  for (const std::string& sentence : UnreadSolverFields(solver_, context)) LogWarning(sentence);
  options.state = nets.train.state();
  options.record_checks = solver_.record_checks();
  if (!options.state.has_phase()) options.state.set_phase(TRAIN);
  net_ = std::make_shared<LayerwiseNet>(nets.train, options);
  for (const std::string& sentence : UnreadGroupFields(solver_, nets.train, net_->net_blobs())) LogWarning(sentence);
  options.parameters = net_->parameters();
  for (const NetParameter& test : nets.tests) {
    options.state = test.state();
    ++options.seed;
    tests_.push_back(std::make_shared<LayerwiseNet>(test, options));
  }
  for (const std::string& weights : solver_.weights()) {
    CopyWeights(weights, *net_);
  }
}

// Compiles the update for the store the net's parameters lie in now; slots of an earlier store come along.
void LayerwiseSolver::BindUpdate() {
  if (bound_ == net_->parameters()) return;
  const std::shared_ptr<SharedParameters> before = std::exchange(bound_, net_->parameters());
  const std::vector<SlotState> old_slots = updates_.slots;
  const std::vector<NetBlob> blobs = net_->net_blobs();
  trained_ = TrainedBlobs(blobs);
  UpdateGraph graph = BuildUpdateGraph(StandardCatalog(), solver_, trained_, &net_->net_param());
  updates_ = graph.updates;
  const std::lock_guard lock(bound_->compiling);
  ParameterStore& store = bound_->store;
  for (size_t i = 0; i < updates_.slots.size(); ++i) {
    const SlotState& slot = updates_.slots[i];
    if (!store.Has(slot.name)) store.Add(slot.name, slot.shape);
    if (before != nullptr && i < old_slots.size() && old_slots[i].shape == slot.shape) {
      store.Set(slot.name, before->store.Values(old_slots[i].name));
    }
    store.FixLayout(slot.name, {});
    store.MarkWritten(slot.name);
  }
  CompileOptions options;
  options.name = "update";
  update_ = Compile(std::move(graph.graph), store, options);
}

void LayerwiseSolver::ApplyUpdate() {
  BindUpdate();
  for (const NetBlob& blob : trained_) {
    const std::shared_ptr<Blob>& parameter = net_->parameter(blob.name);
    bound_->store.Set(SlotName(blob.name, kSumSlot), parameter->gradient());
    std::ranges::copy(parameter->values(), parameter->gradient().begin());
  }
  for (const std::string& name : updates_.inputs) {
    update_->input(name).as<float>()[0] = static_cast<float>(UpdateInput(solver_, name, iteration_, plateau_.step));
  }
  update_->input("guard").as<float>()[0] = 0;  // Caffe updates whatever the loss is
  update_->Run();
  for (const NetBlob& blob : trained_) {
    const std::shared_ptr<Blob>& parameter = net_->parameter(blob.name);
    const std::span<float> diff = parameter->gradient();
    const std::span<const float> values = parameter->values();
    for (size_t i = 0; i < diff.size(); ++i) diff[i] -= values[i];
  }
}

void LayerwiseSolver::Smooth(double loss) {
  const size_t window = static_cast<size_t>(std::max(1, solver_.average_loss()));
  losses_.push_back(loss);
  if (losses_.size() > window) losses_.pop_front();
  smoothed_loss_ = std::accumulate(losses_.begin(), losses_.end(), 0.0) / static_cast<double>(losses_.size());
}

void LayerwiseSolver::Display() const {
  LogInfo(StrCat("Iteration ", iteration_, ", loss = ", smoothed_loss_));
  int64_t shown = 0;
  for (const int output : net_->blobs().outputs) {
    const auto index = static_cast<size_t>(output);
    const double weight = net_->blobs().loss_weights[index];
    for (const float value : net_->blobs().all[index]->values()) {
      if (shown == kMaxShown) return;
      const double v = static_cast<double>(value);
      LogInfo(StrCat("    Train net output #", shown++, ": ", net_->blobs().names[index], " = ", v,
                     weight == 0 ? std::string() : StrCat(" (* ", weight, " = ", weight * v, " loss)")));
    }
  }
}

void LayerwiseSolver::Iterate() {
  net_->ClearParamDiffs();
  if (solver_.test_interval() > 0 && iteration_ % solver_.test_interval() == 0 &&
      (iteration_ > 0 || solver_.test_initialization())) {
    TestAll();
  }
  for (const Callback& callback : callbacks_) callback.on_start();
  double loss = 0;
  for (int i = 0; i < solver_.iter_size(); ++i) {
    loss += ForwardAll(*net_);
    BackwardAll(*net_);
  }
  Smooth(loss / solver_.iter_size());
  UpdatePlateau(solver_, iteration_, smoothed_loss_, plateau_);
  const bool displays = solver_.display() > 0 && iteration_ % solver_.display() == 0;
  if (displays) Display();
  for (const Callback& callback : callbacks_) callback.on_gradients_ready();
  if (displays) LogInfo(StrCat("Iteration ", iteration_, ", lr = ", rate()));
  ApplyUpdate();
  ++iteration_;
  if (solver_.snapshot() > 0 && iteration_ % solver_.snapshot() == 0) Snapshot();
  if (pulse_) pulse_();
}

void LayerwiseSolver::Step(int64_t iterations) {
  if (iterations < 0) throw Error(ErrorKind::kUsage, StrCat("step: ", iterations, " iterations, expected at least 0"));
  losses_.clear();
  for (int64_t i = 0; i < iterations; ++i) Iterate();
}

void LayerwiseSolver::Solve(const std::string& resume) {
  LogInfo(StrCat("Solving ", net_->name()));
  LogInfo(StrCat("Learning Rate Policy: ", solver_.lr_policy()));
  if (!resume.empty()) Restore(resume);
  const int64_t first = iteration_;
  Step(std::max<int64_t>(0, solver_.max_iter() - iteration_));
  if (solver_.snapshot_after_train() && (solver_.snapshot() == 0 || iteration_ % solver_.snapshot() != 0)) Snapshot();
  if (solver_.display() > 0 && iteration_ % solver_.display() == 0) {
    Smooth(ForwardAll(*net_));
    LogInfo(StrCat("Iteration ", iteration_, ", loss = ", smoothed_loss_));
  }
  if (solver_.test_interval() > 0 && iteration_ % solver_.test_interval() == 0 && iteration_ > first) TestAll();
  LogInfo("Optimization Done.");
}

void LayerwiseSolver::TestAll() {
  for (size_t i = 0; i < tests_.size(); ++i) TestOne(i);
}

void LayerwiseSolver::TestOne(size_t index) {
  if (!TestsNet(solver_, static_cast<int>(index))) return;
  LogInfo(StrCat("Iteration ", iteration_, ", Testing net (#", index, ")"));
  LayerwiseNet& net = *tests_[index];
  const int batches = solver_.test_iter(static_cast<int>(index));
  const bool is_detection = solver_.eval_type() == "detection";
  std::map<int, DetectionScores> detections;
  std::vector<double> sums;
  for (int i = 0; i < batches; ++i) {
    ForwardAll(net);
    size_t next = 0;
    for (const int output : net.blobs().outputs) {
      const std::span<const float> values = net.blobs().all[static_cast<size_t>(output)]->values();
      if (is_detection) {
        CheckDetections(net, output);
        detections[output].Add(values);
        continue;
      }
      for (const float value : values) {
        if (next == sums.size()) sums.push_back(0);
        sums[next++] += static_cast<double>(value);
      }
    }
    if (pulse_) pulse_();
  }
  if (is_detection) {
    ShowDetections(net, detections);
  } else {
    ShowMeans(net, sums, batches);
  }
}

// As SSD's solver: every output is rows of five numbers.
void LayerwiseSolver::CheckDetections(const LayerwiseNet& net, int output) {
  const Shape& shape = net.blobs().all[static_cast<size_t>(output)]->shape();
  if (shape.rank() > 0 && shape[shape.rank() - 1] == 5) return;
  throw Error(ErrorKind::kConfig,
              StrCat("eval_type is detection, and output \"", net.blobs().names[static_cast<size_t>(output)],
                     "\" of the test net is ", shape.ToString(), ", no rows of a DetectionEvaluate layer"));
}

void LayerwiseSolver::ShowDetections(const LayerwiseNet& net, const std::map<int, DetectionScores>& detections) const {
  const PrecisionRule rule = PrecisionRuleNamed(solver_.ap_version());
  size_t next = 0;
  for (const int output : net.blobs().outputs) {
    const DetectionScores& scores = detections.at(output);
    if (solver_.show_per_class_result()) {
      for (const auto& [label, precision] : scores.AveragePrecisions(rule)) {
        LogInfo(StrCat("class", label, ": ", precision));
      }
    }
    LogInfo(StrCat("    Test net output #", next++, ": ", net.blobs().names[static_cast<size_t>(output)], " = ",
                   scores.Mean(rule)));
  }
}

void LayerwiseSolver::ShowMeans(const LayerwiseNet& net, const std::vector<double>& sums, int batches) const {
  size_t next = 0;
  for (const int output : net.blobs().outputs) {
    const auto id = static_cast<size_t>(output);
    const double weight = net.blobs().loss_weights[id];
    for (int64_t k = 0; k < net.blobs().all[id]->count(); ++k, ++next) {
      if (next >= static_cast<size_t>(kMaxShown)) return;
      const double mean = sums[next] / std::max(1, batches);
      LogInfo(StrCat("    Test net output #", next, ": ", net.blobs().names[id], " = ", mean,
                     weight == 0 ? std::string() : StrCat(" (* ", weight, " = ", weight * mean, " loss)")));
    }
  }
}

void LayerwiseSolver::Snapshot() {
  BindUpdate();
  const std::string path = StrCat(solver_.snapshot_prefix(), "_iter_", iteration_);
  const std::string model = path + ".caffemodel";
  LogInfo(StrCat("Snapshotting to ", model));
  SaveWeights(*net_, model);
  CaffeState state;
  state.iteration = iteration_;
  state.learned_net = model;
  state.current_step = CaffeCurrentStep(solver_, iteration_);
  const std::vector<NetBlob> blobs = net_->net_blobs();
  state.history = HistoryFromStore(solver_, blobs, bound_->store);
  WriteCaffeState(path + ".solverstate", state);
}

void LayerwiseSolver::Restore(const std::string& path) {
  BindUpdate();
  const CaffeState state = ReadCaffeState(path);
  const std::vector<NetBlob> blobs = net_->net_blobs();
  if (!state.learned_net.empty()) {
    std::filesystem::path weights = state.learned_net;
    // The state's folder may have been moved, and its weights with it.
    const std::filesystem::path beside = std::filesystem::path(path).parent_path() / weights.filename();
    if (!std::filesystem::exists(weights) && std::filesystem::exists(beside)) weights = beside;
    CopyWeights(weights.string(), *net_);
  }
  HistoryToStore(solver_, blobs, state.history, bound_->store);
  iteration_ = state.iteration;
}

}  // namespace moka
