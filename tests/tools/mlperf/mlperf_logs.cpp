// Time passes by a second an iteration and a minute a test.
#include "tests/tools/mlperf/mlperf_logs.h"

#include "core/text.h"
#include "proto/nets/solver_file.h"

namespace moka {

std::string DrawnMlperfLog(const SolverParameter& solver, const MlperfFacts& facts,
                           const std::function<double(double epochs)>& accuracy) {
  constexpr int64_t kSecond = 1000;
  constexpr int64_t kMinute = 60 * kSecond;
  CheckMlperf(solver);
  std::string text;
  int64_t now_ms = 1'796'000'000'000;
  const MlperfLog log([&](std::string_view line) { text += StrCat(line, "\n"); }, [&] { return now_ms; });
  ColdData cold{.is_cold = true, .files = 2, .bytes = 1'000'000, .why = {}, .at_ms = now_ms};
  now_ms += 10 * kMinute;
  WriteMlperfHead(log, solver, facts, cold);
  MlperfRun run(log, {.facts = facts, .test_interval = solver.test_interval(), .max_iter = solver.max_iter()});
  run.Begin();
  bool is_reached = false;
  for (int64_t done = 0; done < solver.max_iter() && !is_reached;) {
    run.Train(done);
    now_ms += kSecond;
    run.Trained(++done);
    if (done % solver.test_interval() != 0) continue;
    run.StartTest(done);
    now_ms += kMinute;
    const double value = accuracy(static_cast<double>(done * facts.batch) / static_cast<double>(facts.train_samples));
    run.Test(done, value);
    run.EndTest(done);
    is_reached = solver.has_target_metric() && value >= double{solver.target_value()};
    if (is_reached) run.End(done, true);
  }
  run.End(solver.max_iter(), !solver.has_target_metric());
  return text;
}

SolverParameter WithMlperf(SolverParameter solver, const std::string& benchmark, const std::string& division) {
  MlperfParameter& mlperf = *solver.mutable_mlperf();
  mlperf.set_benchmark(benchmark);
  mlperf.set_division(division);
  mlperf.set_submission_org("nobody");
  mlperf.set_platform("a \"drawn\" system");
  return solver;
}

MlperfFacts ImageNetFacts(int64_t batch) {
  return {.seed = 7, .train_samples = 1281167, .eval_samples = 50000, .batch = batch, .norm_span = 32};
}

MlperfFacts CocoFacts(int64_t batch) {
  return {.seed = 7, .train_samples = 1170301, .eval_samples = 24781, .batch = batch, .norm_span = 0};
}

SolverParameter ResNetRecipe(const std::string& name) {
  SolverParameter solver = ReadSolver(StrCat(MOKA_SOURCE_DIR, "/models/resnet50/solver_", name, ".prototxt"));
  solver.set_target_metric("accuracy");
  solver.set_target_value(0.759F);
  return solver;
}

SolverParameter SsdRecipe() {
  return SolverFromText(
      "test_iter: 100 test_interval: 4572 test_initialization: false type: \"Adam\" base_lr: 0.0001 lr_policy: "
      "\"fixed\" weight_decay: 0 momentum: 0.9 momentum2: 0.999 warmup_iter: 4572 warmup_start_lr: 1e-7 max_iter: "
      "36576 "
      "target_metric: \"map\" target_value: 0.34",
      "ssd.prototxt");
}

}  // namespace moka
