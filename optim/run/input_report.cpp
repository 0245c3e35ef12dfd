// Sums what iterations waited since the last epoch, without tests and checkpoints, in which nothing waits for input.
#include "optim/run/input_report.h"

#include "core/log.h"
#include "core/text.h"

namespace moka {
namespace {

// The device's time is that of iterations: tests and checkpoints between them are not waited for.
PipelineStatistics Within(PipelineStatistics statistics, double seconds) {
  statistics.total_micros = static_cast<int64_t>(seconds * 1e6);
  return statistics;
}

std::string LineOf(const std::string& layer, const PipelineStatistics& s) {
  const std::string rates = StageRates(s);
  const std::string alone = StrCat(" (each stage alone on ", s.threads, s.threads == 1 ? " thread: " : " threads: ");
  return StrCat("input \"", layer, "\": ", InputSentence(s), rates.empty() ? "" : StrCat(alone, rates, ")"));
}

Metrics MetricsOf(const PipelineStatistics& s) {
  const auto part = [&](int64_t micros) {
    return s.worker_micros() > 0 ? static_cast<double>(micros) / static_cast<double>(s.worker_micros()) : 0.0;
  };
  return {{"wait", s.wait_part()},
          {"wait_ms", s.wait_ms_per_batch()},
          {"read", part(s.read_micros)},
          {"decode", part(s.decode_micros)},
          {"transform", part(s.transform_micros)},
          {"idle", part(s.idle_micros)},
          {"threads", static_cast<double>(s.threads)},
          {"bad_records", static_cast<double>(s.bad_records)},
          {"cached_samples", static_cast<double>(s.cached_samples)}};
}

}  // namespace

double InputReport::TakeWaitMs(const Feed& feed) {
  double waited_ms = 0;
  for (const FeedStatistics& layer : feed.statistics()) {
    waited_ms += static_cast<double>(layer.statistics.wait_micros) * 1e-3;
  }
  const double since = waited_ms - waited_ms_;
  waited_ms_ = waited_ms;
  return since;
}

void InputReport::Epoch(const Feed& feed, const RunFolder* run, const RunPoint& point, double seconds) {
  std::vector<FeedStatistics> now = feed.statistics();
  for (size_t i = 0; i < now.size(); ++i) {
    const PipelineStatistics before = i < at_epoch_.size() ? at_epoch_[i].statistics : PipelineStatistics{};
    const PipelineStatistics s = Within(now[i].statistics.Since(before), seconds);
    if (s.threads == 0) continue;
    if (s.batches > 0) LogToFile(LineOf(now[i].layer, s));
    if (run == nullptr) continue;
    Metrics metrics = MetricsOf(s);
    if (now.size() > 1) {
      for (auto& [name, value] : metrics) name = StrCat(now[i].layer, "/", name);
    }
    run->AppendMetrics(point, "input", metrics);
  }
  at_epoch_ = std::move(now);
}

void InputReport::End(const Feed& feed, double seconds) {
  for (const FeedStatistics& layer : feed.statistics()) {
    const PipelineStatistics s = Within(layer.statistics, seconds);
    if (s.threads > 0 && s.batches > 0) LogInfo(LineOf(layer.layer, s));
  }
}

}  // namespace moka
