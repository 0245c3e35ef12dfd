// One function a form (Caffe's log line, metrics.jsonl, results.csv), all from the same values of an iteration.
#include "optim/run/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>

#include "core/log.h"
#include "core/text.h"
#include "optim/run/plot.h"
#include "optim/run/run_charts.h"

namespace moka {
namespace {

constexpr const char* kMetricsFile = "metrics.jsonl";

}  // namespace

std::string General(double value) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%g", value);
  return text.data();
}

Metrics MetricsOf(const std::vector<OutputValue>& outputs) {
  std::map<std::string, int> count;
  for (const OutputValue& output : outputs) ++count[output.name];
  std::map<std::string, int> next;
  Metrics metrics;
  for (const OutputValue& output : outputs) {
    const bool is_single = count[output.name] == 1;
    metrics.emplace_back(is_single ? output.name : StrCat(output.name, "[", next[output.name]++, "]"), output.value);
  }
  return metrics;
}

std::string TrainLine(int64_t iteration, double per_s, double seconds, int64_t every, double loss) {
  return StrCat("Iteration ", iteration, " (", General(per_s), " iter/s, ", General(seconds), "s/", every,
                " iters), loss = ", General(loss));
}

std::string OutputLine(bool is_test, size_t index, const OutputValue& output) {
  std::string line = StrCat(is_test ? "    Test" : "    Train", " net output #", index, ": ", output.name, " = ",
                            General(output.value));
  if (output.loss_weight != 0) {
    line += StrCat(" (* ", General(output.loss_weight), " = ", General(output.loss_weight * output.value), " loss)");
  }
  return line;
}

std::vector<std::string> ClassLines(const OutputValue& output) {
  std::vector<std::string> lines;
  for (const auto& [label, precision] : output.classes) {
    lines.push_back(StrCat("class", label, ": ", General(precision)));
  }
  return lines;
}

// The losses that the loss is the sum of, where there are several, by their names.
void AddParts(const std::vector<OutputValue>& outputs, Metrics& metrics) {
  std::vector<OutputValue> parts = outputs;
  std::erase_if(parts, [](const OutputValue& output) { return output.loss_weight == 0; });
  if (parts.size() < 2) return;
  for (const OutputValue& part : parts) {
    const bool is_taken = std::ranges::any_of(metrics, [&](const auto& metric) { return metric.first == part.name; });
    if (!is_taken) metrics.emplace_back(part.name, part.value);
  }
}

// The scale only once it is known.
void AddNoise(const GradientNoise& noise, Metrics& metrics) {
  if (noise.measured == 0) return;
  if (const std::optional<double> scale = noise.scale()) metrics.emplace_back("gradient_noise_scale", *scale);
  metrics.emplace_back("gradient_square", noise.gradient_square());
  metrics.emplace_back("gradient_variance", noise.gradient_variance());
}

TrainReport::TrainReport(const RunFolder* run, int64_t resumed_at, bool keeps_tests) : run_(run) {
  if (run_ == nullptr) return;
  if (resumed_at >= 0) run_->Rewind(resumed_at, keeps_tests);
  event_file_.Try([&] { events_ = std::make_unique<EventWriter>(run_->path() / "events", resumed_at); });
  if (resumed_at > 0) RepeatTests(resumed_at);
}

void TrainReport::AddEvents(std::string_view split, int64_t iteration, const Metrics& metrics) {
  if (events_ == nullptr) return;
  event_file_.Try([&] {
    for (const auto& [name, value] : metrics) events_->AddScalar(StrCat(split, "/", name), iteration, value);
  });
}

// TensorBoard drops earlier files' points from the iteration on that the run goes on from; the test of that iteration
// is in the checkpoint and will not be made again.
void TrainReport::RepeatTests(int64_t iteration) {
  std::error_code code;
  if (!std::filesystem::exists(run_->path() / kMetricsFile, code)) return;
  for (const MetricLine& line : ReadMetrics(run_->path())) {
    if (line.iteration != iteration || line.split == "train") continue;
    AddEvents(line.split, iteration, line.metrics);
  }
}

void TrainReport::Train(const Display& display) {
  const TrainProgress& progress = display.progress;
  const double per_s = display.seconds > 0 ? static_cast<double>(display.since_last) / display.seconds : 0;
  LogToFile(TrainLine(display.iteration, per_s, display.seconds, display.every, progress.loss));
  for (size_t i = 0; i < display.outputs.size(); ++i) LogToFile(OutputLine(false, i, display.outputs[i]));
  LogToFile(StrCat("Iteration ", display.iteration, ", lr = ", General(progress.lr)));
  if (display.noise.measured > 0) {
    LogToFile(StrCat("Iteration ", display.iteration, ", gradient noise scale = ", display.noise.Describe()));
  }
  if (run_ == nullptr) return;
  Metrics metrics = {{"loss", progress.loss},
                     {"lr", progress.lr},
                     {"images_per_s", progress.images_per_s},
                     {"input_wait_ms", display.input_wait_ms}};
  if (display.loss_scale) metrics.emplace_back("loss_scale", *display.loss_scale);
  AddNoise(display.noise, metrics);
  AddParts(display.outputs, metrics);
  Add("train", {.iteration = display.iteration, .epoch = progress.epoch, .clock_s = progress.clock_s}, metrics);
}

void TrainReport::Add(std::string_view split, const RunPoint& point, const Metrics& metrics) {
  if (run_ == nullptr) return;
  run_->AppendMetrics(point, split, metrics);
  AddEvents(split, point.iteration, metrics);
}

void TrainReport::TestBegins(int net, int64_t iteration) {
  LogToFile(StrCat("Iteration ", iteration, ", Testing net (#", net, ")"));
}

void TrainReport::Test(const TestReport& test, const RunPoint& point, const TestLines& lines) {
  if (lines.with_loss) LogToFile(StrCat("Test loss: ", General(lines.loss)));
  for (size_t i = 0; i < test.outputs.size(); ++i) {
    if (lines.with_classes) {
      for (const std::string& line : ClassLines(test.outputs[i])) LogToFile(line);
    }
    LogToFile(OutputLine(true, i, test.outputs[i]));
  }
  if (run_ == nullptr) return;
  const std::string split = test.net == 0 ? "test" : StrCat("test", test.net);
  const Metrics metrics = MetricsOf(test.outputs);
  run_->AppendMetrics(point, split, metrics);
  if (test.net == 0) results_.Try([&] { run_->AppendResult(test.iteration, point.epoch, metrics); });
  AddEvents(split, test.iteration, metrics);
}

void TrainReport::Plot() {
  if (run_ != nullptr) plots_.Try([&] { DrawPlots(); });
}

void TrainReport::DrawPlots() const {
  for (const RunChart& chart : ChartsOfRun(run_->path())) {
    WritePlot(run_->path() / "plots", chart.name, chart.options, chart.series);
  }
}

}  // namespace moka
