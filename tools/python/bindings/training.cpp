// moka.train: a whole training by the compiled trainer, the one `moka train` runs.
#include "tools/python/bindings/bindings.h"

#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "optim/checkpoint/net_weights.h"
#include "optim/checkpoint/weights_file.h"
#include "optim/run/trainer.h"
#include "proto/nets/solver_file.h"

namespace py = pybind11;

namespace moka::python {
namespace {

using Path = std::filesystem::path;

// Keeps the last test's means, and lets Ctrl-C through.
class Watcher : public TrainObserver {
 public:
  void OnIteration(const TrainProgress&) override { CheckInterrupt(); }
  void OnTestBatch(int, int64_t, int64_t) override { CheckInterrupt(); }
  void OnTest(const TestReport& test) override {
    if (tests.size() <= static_cast<size_t>(test.net)) tests.resize(static_cast<size_t>(test.net) + 1);
    tests[static_cast<size_t>(test.net)] = test.outputs;
  }
  std::vector<std::vector<OutputValue>> tests;
};

struct Outcome {
  TrainResult result;
  std::vector<std::vector<OutputValue>> tests;
};

Outcome Run(const Path& file, const std::vector<std::string>& solver_overrides,
            const std::vector<std::string>& net_overrides, const std::vector<std::string>& weights,
            const std::optional<Path>& save) {
  if (save) CheckWeightsFile(*save);  // not when hours have gone by
  SolverParameter solver = ReadSolver(file, {.overrides = solver_overrides});
  const SolverNets nets = ReadSolverNets(solver, {.overrides = net_overrides});
  Watcher watcher;
  TrainerOptions options;
  options.weights = weights;
  options.observer = &watcher;
  options.take_signals = false;
  options.compile.on_pulse = CheckInterrupt;
  Trainer trainer(solver, nets, std::move(options));
  Outcome outcome{trainer.Run(), {}};
  outcome.tests = watcher.tests;
  if (save) {
    WriteWeightsFile(*save, trainer.train_net().param(), WeightsOf(trainer.train_net().blobs(), trainer.store()));
  }
  return outcome;
}

py::dict Train(const Path& file, const std::vector<std::string>& solver_overrides,
               const std::vector<std::string>& net_overrides, const std::vector<std::string>& weights,
               const std::optional<Path>& save) {
  Outcome outcome;
  {
    const Unlocked unlocked;
    outcome = Run(file, solver_overrides, net_overrides, weights, save);
  }
  py::list tests;
  for (const auto& outputs : outcome.tests) {
    py::dict means;
    for (const OutputValue& output : outputs) means[py::str(output.name)] = output.value;
    tests.append(means);
  }
  py::dict result;
  result["end"] = std::string(Describe(outcome.result.end));
  result["iteration"] = outcome.result.iteration;
  result["loss"] = outcome.result.loss;
  result["best"] = outcome.result.best;
  result["best_iteration"] = outcome.result.best_iteration;
  result["best_metric"] = outcome.result.best_metric;
  result["tests"] = tests;
  return result;
}

}  // namespace

void BindTraining(py::module_& m) {
  m.def("train", &Train, py::arg("solver_file"), py::arg("solver_overrides"), py::arg("net_overrides"),
        py::arg("weights"), py::arg("save") = py::none());
}

}  // namespace moka::python
