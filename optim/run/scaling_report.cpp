// Every rank's times are gathered at the end of an epoch, and the first rank writes the joined row.
#include "optim/run/scaling_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "comm/transport/clocks.h"
#include "comm/transport/rank_values.h"
#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "core/text_table.h"

namespace moka {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kLatePart = 0.05;  // of a step: what a rank may be behind the others without a word
constexpr int64_t kFewestIterations = 5;
constexpr double kSureErrors = 4;  // standard errors of its lateness
constexpr size_t kMostRows = 64;   // of a table in the log; scaling.jsonl has all ranks

double Milliseconds(double seconds) { return std::round(seconds * 1e9) / 1e6; }

std::string RanksText(int64_t ranks) { return StrCat(ranks, ranks == 1 ? " rank" : " ranks"); }

std::vector<std::string> RowOf(const std::string& name, const StepParts& s) {
  return {name,
          MillisecondsText(s.step_s, 2),
          MillisecondsText(s.compute_s(), 2),
          MillisecondsText(s.input_s, 2),
          MillisecondsText(s.transfer_s(), 2),
          MillisecondsText(s.wait_s, 2)};
}

Json JsonOf(const StepParts& s) {
  return {{"step_ms", Milliseconds(s.step_s)},
          {"compute_ms", Milliseconds(s.compute_s())},
          {"input_ms", Milliseconds(s.input_s)},
          {"exposed_ms", Milliseconds(s.exposed_s)},
          {"wait_ms", Milliseconds(s.wait_s)}};
}

Json JsonOf(const ScalingSummary& summary, int64_t iteration, double epoch) {
  Json json = {{"iter", iteration},
               {"epoch", epoch},
               {"iterations", summary.iterations},
               {"ranks", summary.batch.ranks},
               {"rank_batch", summary.rank_batch()},
               {"batch", summary.batch.of_all()},
               {"mean", JsonOf(summary.mean())},
               {"efficiency", summary.efficiency()}};
  if (const std::optional<ScalingBaseline>& baseline = summary.baseline) {
    json["baseline"] = {{"name", baseline->name},
                        {"ranks", baseline->ranks},
                        {"rank_batch", baseline->rank_batch},
                        {"step_ms", Milliseconds(baseline->step_s)},
                        {"efficiency", summary.efficiency_against()}};
  }
  if (summary.batch.ranks == 1) return json;
  const ArrivalReport& arrivals = summary.arrivals;
  json["arrivals"] = {{"iterations", arrivals.iterations},
                      {"clock_error_ms", Milliseconds(arrivals.clock_error_s)},
                      {"latest_rank", arrivals.latest},
                      {"is_slow", summary.has_slow_rank()}};
  for (size_t r = 0; r < summary.ranks.size(); ++r) {
    Json rank = {{"name", summary.names[r]}};
    rank.update(JsonOf(summary.ranks[r]));
    const RankArrivals& late = arrivals.ranks[r];
    rank["behind_median_ms"] = Milliseconds(late.behind_median_s);
    rank["last_part"] = late.last_part;
    rank["late_ms"] = Json::array();
    rank["late_p90_ms"] = Json::array();
    for (const Lateness& bucket : late.buckets) {
      rank["late_ms"].push_back(Milliseconds(bucket.mean_s));
      rank["late_p90_ms"].push_back(Milliseconds(bucket.p90_s));
    }
    json["per_rank"].push_back(std::move(rank));
  }
  return json;
}

Metrics MetricsOf(const ScalingSummary& summary) {
  const StepParts mean = summary.mean();
  Metrics metrics = {{"step_ms", Milliseconds(mean.step_s)},   {"compute_ms", Milliseconds(mean.compute_s())},
                     {"input_ms", Milliseconds(mean.input_s)}, {"transfer_ms", Milliseconds(mean.transfer_s())},
                     {"wait_ms", Milliseconds(mean.wait_s)},   {"efficiency", summary.efficiency()}};
  if (summary.arrivals.latest >= 0) {
    const RankArrivals& late = summary.arrivals.ranks[static_cast<size_t>(summary.arrivals.latest)];
    metrics.emplace_back("latest_rank", summary.arrivals.latest);
    metrics.emplace_back("latest_ms", Milliseconds(late.behind_median_s));
  }
  return metrics;
}

}  // namespace

StepParts ScalingSummary::mean() const {
  StepParts mean;
  const auto count = static_cast<double>(ranks.size());
  for (const StepParts& rank : ranks) {
    mean.step_s += rank.step_s / count;
    mean.input_s += rank.input_s / count;
    mean.exposed_s += rank.exposed_s / count;
    mean.wait_s += rank.wait_s / count;
  }
  return mean;
}

double ScalingSummary::efficiency() const {
  const StepParts m = mean();
  return m.step_s > 0 ? (m.step_s - m.exposed_s) / m.step_s : 1;
}

double ScalingSummary::efficiency_against() const {
  Require(baseline.has_value(), "efficiency is against a baseline");
  const double here = static_cast<double>(rank_batch()) / mean().step_s;
  return here / (static_cast<double>(baseline->rank_batch) / baseline->step_s);
}

bool ScalingSummary::has_slow_rank() const {
  if (arrivals.latest < 0) return false;
  const RankArrivals& late = arrivals.ranks[static_cast<size_t>(arrivals.latest)];
  if (arrivals.iterations < kFewestIterations || late.behind_mean_s < kSureErrors * late.error_s) return false;
  return late.behind_median_s > std::max(kLatePart * mean().step_s, arrivals.clock_error_s);
}

std::vector<std::string> Sentences(const ScalingSummary& summary) {
  const StepParts mean = summary.mean();
  std::vector<std::string> lines;
  const int64_t ranks = summary.batch.ranks;
  lines.push_back(
      fmt::format("efficiency {:.1f} %: a step without communication and waiting for ranks, {} ms, over the "
                  "step, {} ms; {}, {} samples each in both (weak scaling, these ranks their own baseline)",
                  100 * summary.efficiency(), MillisecondsText(mean.step_s - mean.exposed_s, 2),
                  MillisecondsText(mean.step_s, 2), RanksText(ranks), summary.rank_batch()));
  if (const std::optional<ScalingBaseline>& b = summary.baseline) {
    const bool is_weak = b->rank_batch == summary.rank_batch();
    const bool is_strong = b->rank_batch * b->ranks == summary.batch.of_all();
    const std::string_view kind = is_weak ? "weak " : is_strong ? "strong " : "";
    lines.push_back(fmt::format(
        "{}efficiency {:.1f} % against {} of {}: {} samples each in {} ms here, {} in {} ms there{}", kind,
        100 * summary.efficiency_against(), RanksText(b->ranks), b->name, summary.rank_batch(),
        MillisecondsText(mean.step_s, 2), b->rank_batch, MillisecondsText(b->step_s, 2),
        kind.empty() ? "; neither a rank's batch nor the whole batch is the same, so it is no scaling of one problem"
                     : ""));
  } else {
    lines.push_back(fmt::format("strong efficiency is not known: --baseline takes a run of one rank with batch {}",
                                summary.batch.of_all()));
  }
  if (summary.arrivals.latest < 0) return lines;
  const auto latest = static_cast<size_t>(summary.arrivals.latest);
  const RankArrivals& late = summary.arrivals.ranks[latest];
  if (summary.has_slow_rank()) {
    lines.push_back(
        fmt::format("{} is slow: {} ms behind the median of the ranks, the last in {:.0f} % of iterations; "
                    "on average a rank waits {} ms of a step for others",
                    summary.names[latest], MillisecondsText(late.behind_median_s, 2), 100 * late.last_part,
                    MillisecondsText(mean.wait_s, 2)));
  } else {
    lines.push_back(fmt::format(
        "no rank is slow throughout: the latest, {}, is {} ms behind the median of the ranks on average, the last in "
        "{:.0f} % of iterations",
        summary.names[latest], MillisecondsText(late.behind_median_s, 2), 100 * late.last_part));
  }
  return lines;
}

std::string ScalingTable(const ScalingSummary& summary) {
  const ArrivalReport& arrivals = summary.arrivals;
  std::vector<std::vector<std::string>> table = {
      {"rank", "step", "compute", "input", "transfer", "wait", "late", "(90 %)", "last in"}};
  for (size_t r = 0; r < std::min(summary.ranks.size(), kMostRows); ++r) {
    table.push_back(RowOf(summary.names[r], summary.ranks[r]));
    if (arrivals.latest < 0) continue;
    const RankArrivals& late = arrivals.ranks[r];
    table.back().push_back(MillisecondsText(late.buckets.back().mean_s, 2));
    table.back().push_back(StrCat("(", MillisecondsText(late.buckets.back().p90_s, 2), ")"));
    table.back().push_back(fmt::format("{:.0f} %", 100 * late.last_part));
  }
  table.push_back(RowOf("mean", summary.mean()));
  std::string text = TextTable(table, "l");
  if (arrivals.latest >= 0 && arrivals.ranks[0].buckets.size() > 1) {
    text += fmt::format(
        "late at each bucket (ms behind the first rank, mean and 90 %, {} iterations, clocks within {} "
        "ms):\n",
        arrivals.iterations, MillisecondsText(arrivals.clock_error_s));
    text += ArrivalTable(arrivals);
  }
  return text;
}

ScalingReport::ScalingReport(Communicator* world, GradientExchange* exchange, const Feed& feed,
                             const BatchPolicy& batch, std::optional<ScalingBaseline> baseline)
    : world_(world), exchange_(exchange), feed_(feed), batch_(batch), baseline_(std::move(baseline)) {}

double ScalingReport::InputSeconds() const {
  double seconds = 0;
  for (const FeedStatistics& layer : feed_.statistics()) {
    seconds += static_cast<double>(layer.statistics.wait_micros) * 1e-6;
  }
  return seconds;
}

void ScalingReport::Start(int64_t iteration, double train_s) {
  started_at_ = iteration;
  started_s_ = train_s;
  input_s_ = InputSeconds();
  if (world_ == nullptr) return;
  clock_ = MeasureClock(*world_);
  exchange_->arrivals().Clear();
  exposed_s_ = exchange_->Times().all_exposed_s;
}

ScalingSummary ScalingReport::Summarize(int64_t iterations, double train_s) {
  ScalingSummary summary{.iterations = iterations, .batch = batch_, .baseline = baseline_};
  const auto count = static_cast<double>(iterations);
  StepParts mine{.step_s = (train_s - started_s_) / count, .input_s = (InputSeconds() - input_s_) / count};
  if (world_ == nullptr) {
    summary.names = {"rank 0"};
    summary.ranks = {mine};
    summary.arrivals.ranks.resize(1);
    return summary;
  }
  mine.exposed_s = (exchange_->Times().all_exposed_s - exposed_s_) / count;
  summary.arrivals = GatherArrivals(*world_, exchange_->arrivals(), clock_, MeasureClock(*world_));
  const std::vector<std::string> all =
      world_->AllGather({reinterpret_cast<const char*>(&mine), sizeof mine});  // the same program on every rank
  for (int r = 0; r < world_->size(); ++r) {
    StepParts& rank = summary.ranks.emplace_back();
    TakeValues(*world_, r, all[static_cast<size_t>(r)], std::span(&rank, 1));
    if (summary.arrivals.iterations > 0) {  // GPUs keep none
      rank.exposed_s = summary.arrivals.ranks[static_cast<size_t>(r)].exposed_s;
      rank.wait_s = summary.arrivals.ranks[static_cast<size_t>(r)].wait_s;
    }
    summary.names.push_back(world_->NameOf(r));
  }
  return summary;
}

void ScalingReport::Make(const RunPoint& point, double train_s, const RunFolder* run, TrainReport& report,
                         bool is_last) {
  const int64_t iteration = point.iteration;
  const int64_t iterations = iteration - started_at_;
  if (iterations <= 0) return;
  const ScalingSummary summary = Summarize(iterations, train_s);
  Start(iteration, train_s);
  if (run != nullptr)
    run->AppendLine(kScalingFile,
                    JsonOf(summary, iteration, point.epoch).dump(-1, ' ', false, Json::error_handler_t::replace));
  if (batch_.ranks == 1 && !baseline_) return;
  sentences_ = Sentences(summary);
  report.Add("scaling", point, MetricsOf(summary));
  LogToFile(fmt::format("scaling of the last {} iterations, to iteration {}: {}, {} samples each, {} in all; ms",
                        iterations, iteration, RanksText(batch_.ranks), summary.rank_batch(), batch_.of_all()));
  for (const std::string& line : Split(ScalingTable(summary), '\n')) {
    if (!line.empty()) LogToFile(line);
  }
  if (is_last) return;
  for (const std::string& line : sentences_) LogToFile(line);
}

void ScalingReport::Report(const RunPoint& point, double train_s, const RunFolder* run, TrainReport& report) {
  Make(point, train_s, run, report, false);
}

void ScalingReport::End(const RunPoint& point, double train_s, const RunFolder* run, TrainReport& report) {
  Make(point, train_s, run, report, true);
  for (const std::string& line : sentences_) LogInfo(line);
}

}  // namespace moka
