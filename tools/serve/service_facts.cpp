// Statistics and metrics. Metrics have Triton's names where it has some, so that its dashboards show them, and others
// in seconds and bytes.
#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "tools/serve/openapi.h"
#include "tools/serve/process_facts.h"
#include "tools/serve/service.h"
#include "tools/serve/service_answers.h"

namespace moka {
namespace {

using Json = nlohmann::ordered_json;

Json JsonOf(const DurationCount& count) { return {{"count", count.count}, {"ns", count.ns}}; }

Json StatisticsOf(const ModelStatistics& model) {
  const CountedModel& counted = model.counted;
  Json batches = Json::array();
  for (const auto& [rows, of_rows] : counted.batches) {
    const int64_t runs = of_rows.runs;
    batches.push_back({{"batch_size", rows},
                       {"compute_input", JsonOf(DurationCount{runs, of_rows.input_ns})},
                       {"compute_infer", JsonOf(DurationCount{runs, of_rows.infer_ns})},
                       {"compute_output", JsonOf(DurationCount{runs, of_rows.output_ns})}});
  }
  const DurationCount none;
  const double alone =
      counted.runs > 0 ? 100.0 * static_cast<double>(counted.alone) / static_cast<double>(counted.runs) : 0;
  return {{"name", model.name},
          {"version", model.version},
          {"last_inference", counted.last_ms},
          {"inference_count", counted.rows},
          {"execution_count", counted.runs},
          {"inference_stats",
           {{"success", JsonOf(counted.success)},
            {"fail", JsonOf(counted.fail)},
            {"queue", JsonOf(counted.queue)},
            {"compute_input", JsonOf(counted.input)},
            {"compute_infer", JsonOf(counted.infer)},
            {"compute_output", JsonOf(counted.output)},
            {"cache_hit", JsonOf(none)},
            {"cache_miss", JsonOf(none)}}},
          {"batch_stats", batches},
          {"memory_usage", counted.memory_bytes},
          {"batching", fmt::format("of {} runs {:.0f} % had one request, since no other waited", counted.runs, alone)}};
}

// A metric's lines, one a model.
class MetricsText {
 public:
  void Begin(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    text_ += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
  }
  template <class Value>
  void Add(std::string_view labels, Value value, std::string_view ending = "") {
    text_ += fmt::format("{}{}{} {}\n", name_, ending, labels.empty() ? "" : fmt::format("{{{}}}", labels), value);
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string name_;
  std::string text_;
};

}  // namespace

HttpAnswer Service::StatisticsAnswer(const std::string& name, const std::string& version) const {
  const auto models = Statistics(name, version);
  if (const auto* failure = std::get_if<CallFailure>(&models)) return AnswerOf(*failure);
  Json list = Json::array();
  for (const ModelStatistics& model : std::get<std::vector<ModelStatistics>>(models))
    list.push_back(StatisticsOf(model));
  return {.body = DumpJson(Json{{"model_stats", list}})};
}

namespace {

struct CountedOfModel {
  std::string labels;
  CountedModel counted;
  int64_t waiting;
};

// A metric with a value for each model.
struct ModelMetric {
  std::string_view name;
  std::string_view type;
  std::string_view help;
  int64_t (*value)(const CountedOfModel& model);
};

constexpr int64_t kNsInUs = 1000;
constexpr std::array kModelMetrics = {
    ModelMetric{"nv_inference_request_success", "counter", "Requests that were answered.",
                [](const CountedOfModel& model) { return model.counted.success.count; }},
    ModelMetric{"nv_inference_count", "counter", "Rows that were run.",
                [](const CountedOfModel& model) { return model.counted.rows; }},
    ModelMetric{"nv_inference_exec_count", "counter", "Runs of the net.",
                [](const CountedOfModel& model) { return model.counted.runs; }},
    ModelMetric{"nv_inference_pending_request_count", "gauge", "Requests that wait.",
                [](const CountedOfModel& model) { return model.waiting; }},
    ModelMetric{"nv_inference_request_duration_us", "counter", "Time of answered requests.",
                [](const CountedOfModel& model) { return model.counted.success.ns / kNsInUs; }},
    ModelMetric{"nv_inference_queue_duration_us", "counter", "Time in the queue.",
                [](const CountedOfModel& model) { return model.counted.queue.ns / kNsInUs; }},
    ModelMetric{"nv_inference_compute_input_duration_us", "counter", "Time of filling inputs.",
                [](const CountedOfModel& model) { return model.counted.input.ns / kNsInUs; }},
    ModelMetric{"nv_inference_compute_infer_duration_us", "counter", "Time of running nets.",
                [](const CountedOfModel& model) { return model.counted.infer.ns / kNsInUs; }},
    ModelMetric{"nv_inference_compute_output_duration_us", "counter", "Time of taking outputs.",
                [](const CountedOfModel& model) { return model.counted.output.ns / kNsInUs; }},
    ModelMetric{"moka_model_memory_bytes", "gauge", "Memory of a model's weights and programs.",
                [](const CountedOfModel& model) { return model.counted.memory_bytes; }}};

void AddFailures(const std::vector<CountedOfModel>& models, MetricsText& text) {
  text.Begin("nv_inference_request_failure", "counter", "Requests that were not answered.");
  for (const CountedOfModel& model : models) {
    text.Add(StrCat(model.labels, ",reason=\"REJECTED\""), model.counted.rejected);
    text.Add(StrCat(model.labels, ",reason=\"CANCELED\""), model.counted.cancelled);
    text.Add(StrCat(model.labels, ",reason=\"OTHER\""), model.counted.fail.count - model.counted.cancelled);
  }
}

void AddSeconds(const std::vector<CountedOfModel>& models, MetricsText& text) {
  text.Begin("moka_request_seconds", "histogram", "Time from a request's arrival to its answer.");
  for (const CountedOfModel& model : models) {
    int64_t sum = 0;
    double bound = 0.0005;
    for (int i = 0; i < CountedModel::kBuckets; ++i, bound *= 2) {
      sum += model.counted.seconds[static_cast<size_t>(i)];
      text.Add(fmt::format("{},le=\"{}\"", model.labels, bound), sum, "_bucket");
    }
    text.Add(StrCat(model.labels, ",le=\"+Inf\""), model.counted.success.count, "_bucket");
    text.Add(model.labels, static_cast<double>(model.counted.success.ns) * 1e-9, "_sum");
    text.Add(model.labels, model.counted.success.count, "_count");
  }
}

void AddBatchRows(const std::vector<CountedOfModel>& models, MetricsText& text) {
  constexpr int64_t kMostRows = 4096;  // of a batch (--most-rows)
  text.Begin("moka_batch_rows", "histogram", "Rows of the batches that were run.");
  for (const CountedOfModel& model : models) {
    const auto runs_to = [&](int64_t most) {
      int64_t runs = 0;
      for (const auto& [rows, of_rows] : model.counted.batches) runs += rows <= most ? of_rows.runs : 0;
      return runs;
    };
    for (int64_t most = 1; most <= kMostRows; most *= 2)
      text.Add(fmt::format("{},le=\"{}\"", model.labels, most), runs_to(most), "_bucket");
    int64_t sum = 0;
    for (const auto& [rows, of_rows] : model.counted.batches) sum += rows * of_rows.runs;
    text.Add(StrCat(model.labels, ",le=\"+Inf\""), runs_to(INT64_MAX), "_bucket");
    text.Add(model.labels, sum, "_sum");
    text.Add(model.labels, runs_to(INT64_MAX), "_count");
  }
}

// The names that all clients of Prometheus give these.
void AddProcess(MetricsText& text) {
  const ProcessFacts facts = ProcessFactsNow();
  const auto add = [&](std::string_view name, std::string_view type, std::string_view help, auto value) {
    text.Begin(name, type, help);
    text.Add("", value);
  };
  add("process_cpu_seconds_total", "counter", "Time of all threads, in the kernel too.", facts.cpu_seconds);
  add("process_open_fds", "gauge", "Open file descriptors.", facts.open_files);
  add("process_max_fds", "gauge", "The most file descriptors that may be open.", facts.most_files);
  add("process_virtual_memory_bytes", "gauge", "Virtual memory.", facts.virtual_bytes);
  add("process_resident_memory_bytes", "gauge", "Resident memory.", facts.resident_bytes);
  add("process_start_time_seconds", "gauge", "When the process began, since 1970.",
      fmt::format("{:.2f}", facts.start_seconds));
  add("process_threads", "gauge", "Threads.", facts.threads);
}

}  // namespace

HttpAnswer Service::Metrics() const {
  std::vector<CountedOfModel> models;
  for (const auto& model : repository_.Ready()) {
    models.push_back({fmt::format("model=\"{}\",version=\"{}\"", model->name(), model->version()),
                      model->counts().Now(), queue_.waiting(*model)});
  }
  MetricsText text;
  for (const ModelMetric& metric : kModelMetrics) {
    text.Begin(metric.name, metric.type, metric.help);
    for (const CountedOfModel& model : models) text.Add(model.labels, metric.value(model));
  }
  AddFailures(models, text);
  AddSeconds(models, text);
  AddBatchRows(models, text);
  text.Begin("moka_queue_depth", "gauge", "Requests that wait, of all models.");
  text.Add("", queue_.waiting());
  const HttpServer* server = server_;
  const HttpCounts counts = server != nullptr ? server->counts() : HttpCounts();
  text.Begin("moka_connections", "gauge", "Open connections.");
  text.Add("", counts.connections);
  text.Begin("moka_http_requests_total", "counter", "Requests of any kind that were answered.");
  text.Add("", counts.requests);
  text.Begin("moka_connections_refused_total", "counter", "Connections beyond the limits.");
  text.Add("", counts.refused_connections);
  AddProcess(text);
  return {.body = text.Take(), .type = "text/plain; version=0.0.4"};
}

HttpAnswer Service::Page() const {
  return {.body = std::string(ServicePage()),
          .type = "text/html; charset=utf-8",
          .headers = {{"Content-Security-Policy", "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"}}};
}

}  // namespace moka
