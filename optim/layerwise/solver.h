// Caffe's solver over a net that runs layer by layer: each step can be taken apart (forward, backward, look at or
// change gradients, apply_update). The update itself is the compiled graph of optim/optimizers/update.h, as in
// trainings.
//
// After an update a parameter's diff holds what was subtracted from it, as in Caffe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "optim/evaluators/average_precision.h"
#include "optim/layerwise/net.h"
#include "optim/optimizers/lr_policy.h"
#include "optim/optimizers/update.h"
#include "proto/nets/solver_file.h"

namespace moka {

class LayerwiseSolver {
 public:
  // Test nets share the train net's parameters. Errors: kConfig for the solver's fields, those of LayerwiseNet.
  LayerwiseSolver(SolverParameter solver, const SolverNets& nets, LayerwiseOptions options);
  LayerwiseSolver(const LayerwiseSolver&) = delete;
  LayerwiseSolver& operator=(const LayerwiseSolver&) = delete;

  SolverParameter& param() { return solver_; }
  const std::shared_ptr<LayerwiseNet>& net() const { return net_; }
  const std::vector<std::shared_ptr<LayerwiseNet>>& test_nets() const { return tests_; }
  int64_t iteration() const { return iteration_; }
  // Returns the rate of the coming update.
  double rate() const { return LearningRate(solver_, iteration_, plateau_.step); }

  // Iterations with tests, lines of the log and snapshots where the solver asks for them.
  void Step(int64_t iterations);
  // From where it is (or from a .solverstate) to max_iter, with a last snapshot and test.
  void Solve(const std::string& resume = {});
  // One update from the gradients the parameters hold; the iteration stays.
  void ApplyUpdate();
  // Writes PREFIX_iter_N.caffemodel and .solverstate. Errors: kCantCreate, kIo.
  void Snapshot();
  // Errors: those of ReadCaffeState, LoadWeights and HistoryToStore.
  void Restore(const std::string& path);

  struct Callback {
    std::function<void()> on_start;            // of an iteration, before its forward pass
    std::function<void()> on_gradients_ready;  // before its update
  };
  void AddCallback(Callback callback) { callbacks_.push_back(std::move(callback)); }
  // Asked between iterations; what it throws ends the step (an interrupt).
  void SetPulse(std::function<void()> pulse) { pulse_ = std::move(pulse); }

 private:
  void BindUpdate();
  void TestAll();
  void TestOne(size_t index);
  static void CheckDetections(const LayerwiseNet& net, int output);
  void ShowDetections(const LayerwiseNet& net, const std::map<int, DetectionScores>& detections) const;
  void ShowMeans(const LayerwiseNet& net, const std::vector<double>& sums, int batches) const;
  void Iterate();
  void Smooth(double loss);
  void Display() const;

  SolverParameter solver_;
  std::shared_ptr<LayerwiseNet> net_;
  std::vector<std::shared_ptr<LayerwiseNet>> tests_;
  std::shared_ptr<SharedParameters> bound_;  // what the update was compiled for
  std::vector<NetBlob> trained_;
  Updates updates_;
  std::unique_ptr<Program> update_;
  std::vector<Callback> callbacks_;
  std::function<void()> pulse_;
  int64_t iteration_ = 0;
  PlateauState plateau_;
  std::deque<double> losses_;
  double smoothed_loss_ = 0;
};

}  // namespace moka
