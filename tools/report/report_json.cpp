// One function a part of the report; the keys are docs/report.md's.
#include "tools/report/report_json.h"

#include "core/json_whole.h"

namespace moka {

using Json = nlohmann::ordered_json;

namespace {

Json MetricsJson(const ReportContent& content) {
  Json metrics = Json::object();
  for (const ReportMetric& metric : content.metrics) {
    Json& json = metrics[metric.name];
    json["value"] = NumberOrNull<Json>(metric.value);
    if (!metric.interval) continue;
    json["low"] = metric.interval->low;
    json["high"] = metric.interval->high;
  }
  return metrics;
}

Json ClassesJson(const ReportContent& content) {
  Json classes = Json::array();
  for (const ReportClass& one : content.classes) {
    Json json = {{"class", one.number}};
    if (!one.name.empty()) json["name"] = one.name;
    if (one.counts) {
      json["support"] = one.counts->support;
      json["predicted"] = one.counts->predicted;
      json["right"] = one.counts->right;
      json["precision"] = NumberOrNull<Json>(one.counts->precision());
      json["recall"] = NumberOrNull<Json>(one.counts->recall());
      json["f1"] = NumberOrNull<Json>(one.counts->f1());
    }
    if (one.objects) json["objects"] = *one.objects;
    if (one.average_precision) json["average_precision"] = NumberOrNull<Json>(one.average_precision);
    if (one.overlap) json["iou"] = NumberOrNull<Json>(one.overlap);
    classes.push_back(std::move(json));
  }
  return classes;
}

Json ConfusionJson(const ReportContent& content) {
  Json cells = Json::array();
  for (const ConfusionCell& cell : content.confusion) cells.push_back({cell.label, cell.predicted, cell.count});
  return {{"columns", {"label", "predicted", "count"}}, {"cells", cells}, {"cells_left_out", content.cells_left_out}};
}

Json CurvesJson(const ReportContent& content) {
  Json curves = Json::array();
  for (const ReportCurve& curve : content.curves) {
    Json precisions = Json::array();
    for (const double precision : curve.precisions) precisions.push_back(NumberOrNull<Json>(precision));
    curves.push_back({{"class", curve.number ? Json(*curve.number) : Json()},
                      {"name", curve.name},
                      {"average_precision", NumberOrNull<Json>(curve.average_precision)},
                      {"precision_at_recall", precisions}});
  }
  return {{"samples", content.curve_samples}, {"recall_step", 1.0 / RankedCurve::kSteps}, {"classes", curves}};
}

Json CalibrationJson(const Reliability& reliability) {
  Json bins = Json::array();
  for (size_t i = 0; i < Reliability::kBins; ++i) {
    const Reliability::Bin& bin = reliability.bins().at(i);
    bins.push_back({{"above", static_cast<double>(i) / Reliability::kBins},
                    {"to", static_cast<double>(i + 1) / Reliability::kBins},
                    {"samples", bin.samples},
                    {"confidence", bin.samples > 0 ? Json(bin.confidence()) : Json()},
                    {"accuracy", bin.samples > 0 ? Json(bin.accuracy()) : Json()}});
  }
  return {{"expected_calibration_error", reliability.expected_error()},
          {"largest_error", reliability.largest_error()},
          {"mean_confidence", reliability.mean_confidence()},
          {"bins", bins}};
}

Json MistakesJson(const ReportContent& content) {
  Json worst = Json::array();
  for (const ReportMistake& mistake : content.mistakes) {
    worst.push_back({{"sample", mistake.sample.number},
                     {"record", mistake.record},
                     {"label", mistake.sample.label},
                     {"predicted", mistake.sample.predicted},
                     {"confidence", NumberOrNull<Json>(static_cast<double>(mistake.sample.confidence))},
                     {"loss", NumberOrNull<Json>(static_cast<double>(mistake.sample.loss))}});
  }
  return {{"in_all", content.mistakes_in_all}, {"worst", worst}};
}

Json ChartsJson(const ReportContent& content) {
  Json charts = Json::object();
  for (const RunChart& chart : content.charts) {
    for (const PlotSeries& series : chart.series) {
      Json points = Json::array();
      for (const auto& [x, y] : series.points) points.push_back({NumberOrNull<Json>(x), NumberOrNull<Json>(y)});
      charts[chart.name][series.name] = std::move(points);
    }
  }
  return charts;
}

}  // namespace

Json ReportJson(const ReportContent& content) {
  Json json = {{"run", content.run}, {"net", content.net}};
  json["task"] = content.task.empty() ? Json() : Json(content.task);
  json["weights"] = content.weights;
  if (content.pass) {
    json["samples"] = content.pass->samples;
    json["batch"] = content.pass->batch;
    json["seconds"] = content.pass->seconds;
  }
  json["metrics"] = MetricsJson(content);
  if (!content.classes.empty()) json["classes"] = ClassesJson(content);
  if (!content.confusion.empty()) {
    json["confusion"] = ConfusionJson(content);
    json["confusion"]["unit"] = content.pass ? content.pass->unit : std::string();
  }
  if (!content.curves.empty()) json["precision_recall"] = CurvesJson(content);
  if (content.reliability) json["calibration"] = CalibrationJson(*content.reliability);
  if (content.mistakes_in_all > 0) json["mistakes"] = MistakesJson(content);
  json["curves"] = ChartsJson(content);
  for (const auto& [name, text] : content.facts) json["repeat"][name] = text;
  if (!content.notes.empty()) json["notes"] = content.notes;
  return json;
}

}  // namespace moka
