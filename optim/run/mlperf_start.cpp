// The ranks' words about their caches are gathered, as data that are warm on one host are warm.
#include "optim/run/mlperf_start.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/text.h"
#include "core/wall_clock.h"
#include "proto/text/places.h"

namespace moka {
namespace {

constexpr const char* kFile = "mllog.txt";

MlperfLog LogOf(const RunFolder& run) {
  return {[&run](std::string_view line) { run.AppendLine(kFile, line); },
          [] { return static_cast<int64_t>(std::llround(SecondsSince1970() * 1000)); }};
}

// Samples that the net's first batch normalisation sees, of a rank's batch; 0: there is none. As sync_ranks says: 0 is
// all ranks.
int64_t NormSpan(const NetParameter& net, int64_t batch, int64_t ranks) {
  const auto is_norm = [](const LayerParameter& layer) { return TraitsOf(layer).counts_batches; };
  const auto norm = std::ranges::find_if(net.layer(), is_norm);
  if (norm == net.layer().end()) return 0;
  const int64_t asked = norm->batch_norm_param().sync_ranks();
  return batch * (asked == 0 || ranks == 1 ? ranks : asked);
}

}  // namespace

ColdData StartCold(const SolverParameter& solver, const SolverNets& nets, const TrainerOptions& options) {
  CheckMlperf(solver);
  if (!solver.has_mlperf() || options.resume) return {};
  if (!options.caffe_snapshot.empty()) {
    throw Error(ErrorKind::kUsage, PlaceOf(solver, "mlperf"),
                "MLPerf's log is of a whole training, and this one goes on from a .solverstate",
                "leave out mlperf, or start from weights");
  }
  if (options.looks_only) return {};
  ColdData cold = DropDataPages(nets, options.base_folder);
  const bool has_ranks = options.world != nullptr && options.world->size() > 1;
  if (has_ranks) {
    for (const std::string& why : options.world->AllGather(cold.why)) {
      if (cold.why.empty()) cold.why = why;
    }
    cold.is_cold = cold.why.empty();
  }
  if (cold.is_cold) return cold;
  const std::string text = StrCat("the data are not cold at the start: ", cold.why);
  if (solver.mlperf().division() == "closed") {
    throw Error(ErrorKind::kUnavailable, PlaceOf(solver, "mlperf.division"),
                StrCat("MLPerf's closed division wants cache_clear, and ", text),
                "lay the data on a disk where no other process has them open, as a user who may write them");
  }
  if (!has_ranks || options.world->is_first())
    LogWarning(StrCat(PlaceOf(solver, "mlperf").ToString(), ": ", text, "; cache_clear is logged as false"));
  return cold;
}

std::string AccuracyOf(const SolverParameter& solver, const std::string& best_metric, TrainNet& train,
                       const std::vector<std::unique_ptr<TestNet>>& tests) {
  if (!solver.has_mlperf()) return {};
  if (train.feed().epoch_size() <= 0) {
    throw Error(ErrorKind::kConfig, PlaceOf(solver, "mlperf"),
                "MLPerf's log counts epochs, and the train data has no end");
  }
  if (!solver.test_initialization() && solver.test_interval() > solver.max_iter()) {
    throw Error(ErrorKind::kConfig, PlaceOf(solver, "mlperf"),
                StrCat("MLPerf's log needs eval_accuracy, and this training ends after ", solver.max_iter(),
                       " iterations, before its first test"),
                "give a test_interval of at most that");
  }
  const std::string& metric = solver.mlperf().metric();
  if (metric.empty()) return solver.has_target_metric() ? solver.target_metric() : best_metric;
  const std::vector<std::string> names = tests.at(0)->MetricNames();
  if (std::ranges::find(names, metric) != names.end()) return metric;
  const std::string near = DidYouMean(metric, names);
  throw Error(ErrorKind::kConfig, PlaceOf(solver, "mlperf.metric"),
              StrCat("mlperf.metric \"", Printable(metric), "\" is no output of the test net"),
              near.empty() ? StrCat("it has ", Join(names, ", ")) : near);
}

MlperfFacts FactsOf(const SolverParameter& solver, TrainNet& train, const TestNet& test, int64_t ranks) {
  const int64_t tested = solver.test_iter(0) * test.feed().batch_size();
  const int64_t records = test.feed().epoch_size();
  return {.seed = 0,
          .train_samples = train.feed().epoch_size(),
          .eval_samples = records > 0 ? std::min(tested, records) : tested,
          .batch = 0,
          .norm_span = NormSpan(train.param(), train.feed().batch_size(), ranks)};
}

MlperfRun OpenMlperf(const RunFolder& run, const SolverParameter& solver, const MlperfRun::Course& course,
                     const ColdData& cold) {
  run.CheckStanding();
  WriteFileAtomically(run.path() / kFile, "");
  WriteMlperfHead(LogOf(run), solver, course.facts, cold);
  return {LogOf(run), course};
}

MlperfRun ResumeMlperf(const RunFolder& run, const MlperfRun::Course& course, const TrainerState& state) {
  const std::filesystem::path file = run.path() / kFile;
  std::error_code code;
  ResumedMlperfLog log;
  if (std::filesystem::is_regular_file(file, code))
    log = ResumeMlperfLog(ReadLinesFile(file), state.iteration, !state.is_test_due);
  if (!log.has_started) {
    LogWarning(StrCat(file.string(), " has no run_start: this session writes no log of MLPerf's"));
    return {};
  }
  run.CheckStanding();
  WriteFileAtomically(file, log.text);
  MlperfRun resumed(LogOf(run), course, log.open_since);
  resumed.GoOn(state.iteration, state.clock_s);
  return resumed;
}

}  // namespace moka
