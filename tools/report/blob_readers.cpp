// Classes are judged sample by sample, pixels are counted, detections are kept with their scores.
#include "tools/report/blob_readers.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <set>
#include <utility>

#include "core/text.h"
#include "data/inspect/preview.h"
#include "tools/report/pixel_confusion.h"
#include "tools/report/record_names.h"
#include "tools/report/worst_mistakes.h"

namespace moka {
namespace {

constexpr int64_t kMostCells = 100'000;  // of a confusion matrix in a report
constexpr size_t kWorstMistakes = 48;
constexpr size_t kWorstCurves = 6;
constexpr int64_t kPictureBytes = int64_t{3} << 19;  // 1.5 MiB of files are 2 MiB as Base64

// The cells of the largest counts, in their order.
std::vector<ConfusionCell> Largest(std::vector<ConfusionCell> cells, int64_t& left_out) {
  left_out = std::max<int64_t>(0, std::ssize(cells) - kMostCells);
  if (left_out == 0) return cells;
  std::ranges::stable_sort(cells, std::greater<>(), &ConfusionCell::count);
  cells.resize(kMostCells);
  std::ranges::sort(cells, {}, [](const ConfusionCell& cell) { return std::pair(cell.label, cell.predicted); });
  return cells;
}

// Sets the classes, numbered from 0 on, and their counts.
void SetCounts(const std::vector<ConfusionCell>& cells, int64_t classes, ReportContent& content) {
  const std::vector<ClassCounts> counts = CountsOf(cells, classes);
  content.classes.resize(counts.size());
  for (size_t c = 0; c < counts.size(); ++c) {
    content.classes[c].number = static_cast<int64_t>(c);
    content.classes[c].counts = counts[c];
  }
}

// Sets the mean of the curves of all classes, and those of the worst.
void SetCurves(std::vector<ReportCurve> all, ReportContent& content) {
  if (all.empty()) return;
  ReportCurve mean{.name = "mean over classes"};
  mean.precisions.resize(RankedCurve::kSteps + 1);
  const auto count = static_cast<double>(all.size());
  for (const ReportCurve& curve : all) {
    mean.average_precision += curve.average_precision;
    for (size_t i = 0; i < mean.precisions.size(); ++i) mean.precisions[i] += curve.precisions[i];
  }
  mean.average_precision /= count;
  for (double& precision : mean.precisions) precision /= count;
  std::ranges::stable_sort(all, {}, &ReportCurve::average_precision);
  all.resize(std::min(all.size(), kWorstCurves));
  content.curves = {std::move(mean)};
  std::ranges::move(all, std::back_inserter(content.curves));
}

// The picture of an item of a data layer's top [N,C,H,W]. With a mean image, or where somebody else has scaled the
// values, the darkest becomes black and the brightest white.
Image PictureOfItem(const LayerParameter& layer, const Tensor& data, int64_t item) {
  const Shape sample{data.shape()[1], data.shape()[2], data.shape()[3]};
  const auto count = static_cast<size_t>(sample.Count());
  const std::span<const float> values = data.as<const float>().subspan(static_cast<size_t>(item) * count, count);
  const auto [low, high] = std::ranges::minmax(values);
  const TransformationParameter& way = layer.transform_param();
  const bool is_scaled = !layer.has_transform_param() && (low < 0 || high <= 1 || high > 255);
  if ((!is_scaled && !way.has_mean_file()) || !(high > low)) return PictureOfSample(way, sample, values);
  std::vector<float> stretched(values.begin(), values.end());
  for (float& value : stretched) value = (value - low) * (255 / (high - low));
  return PictureOfSample({}, sample, stretched);
}

// The class that a label names; none for one that counts nowhere.
std::optional<int64_t> LabelOf(float given, int64_t classes, const std::set<int64_t>& ignored) {
  if (!(given >= 0 && given < static_cast<float>(classes))) return std::nullopt;
  const auto label = static_cast<int64_t>(given);
  return ignored.contains(label) ? std::nullopt : std::optional(label);
}

// The shares of a net's Accuracy layers get an interval; where there is none, the share is counted here.
void SetShares(const TestNet& net, const ClassScores& scores, ReportContent& content) {
  const std::vector<std::string> tops = AccuracyTops(net.param());
  const int64_t samples = std::ssize(scores.samples());
  const auto all = static_cast<double>(std::max<int64_t>(samples, 1));
  bool has_share = false;
  for (ReportMetric& metric : content.metrics) {
    if (std::ranges::find(tops, metric.name) == tops.end() || !(metric.value >= 0 && metric.value <= 1)) continue;
    has_share = true;
    metric.interval = WilsonInterval(std::llround(metric.value * static_cast<double>(samples)), samples);
  }
  const auto add = [&](const char* name, int64_t hits) {
    content.metrics.push_back(
        {.name = name, .value = static_cast<double>(hits) / all, .interval = WilsonInterval(hits, samples)});
  };
  if (!has_share) add("accuracy", scores.hits());
  if (scores.classes() > 10 && tops.size() < 2) add("top-5 accuracy", scores.hits_of_five());
}

class ClassReader final : public BlobReader {
 public:
  ClassReader(const ReadBlobs& read, int64_t classes, int64_t samples)
      : blobs_(*read.scores), data_(read.data), scores_(classes, read.scores->kind, samples) {}

  void Read(const TestNet& net, int64_t first, int64_t count) override {
    const Tensor scores = net.watched(blobs_.scores);
    const std::span<const float> labels = net.watched(blobs_.labels).as<const float>();
    const auto classes = static_cast<size_t>(scores_.classes());
    for (int64_t i = 0; i < count; ++i) {
      const std::optional<int64_t> label = LabelOf(labels[static_cast<size_t>(i)], scores_.classes(), blobs_.ignored);
      if (!label) continue;
      const std::span<const float> own = scores.as<const float>().subspan(static_cast<size_t>(i) * classes, classes);
      const ScoredSample& sample = scores_.Add(first + i, *label, own);
      mistakes_.Add(sample, [&] { return PictureOf(net, i, scores.shape()[0]); });
    }
  }

  void Finish(const TestNet& net, const std::vector<OutputValue>& /*results*/, ReportContent& content) override {
    content.task = "classification";
    content.pass->samples = std::ssize(scores_.samples());
    SetShares(net, scores_, content);
    const std::vector<ConfusionCell> cells = scores_.Confusion();
    SetCounts(cells, scores_.classes(), content);
    content.confusion = Largest(cells, content.cells_left_out);
    SetRanks(content);
    if (scores_.has_probabilities()) {
      content.reliability = scores_.reliability();
      content.metrics.push_back({.name = "calibration error", .value = scores_.reliability().expected_error()});
    }
    content.mistakes_in_all = mistakes_.in_all();
    content.mistakes = mistakes_.Take(kPictureBytes);
    if (data_ != nullptr) NameRecords(*data_, net.feed().pipeline(data_->name()), content.mistakes);
  }

 private:
  Image PictureOf(const TestNet& net, int64_t item, int64_t items) const {
    if (data_ == nullptr) return {};
    const Tensor data = net.watched(data_->top(0));
    const Shape& shape = data.shape();
    const bool is_picture = shape.rank() == 4 && shape[0] == items && (shape[1] == 1 || shape[1] == 3);
    return is_picture && shape[2] > 1 && shape[3] > 1 ? PictureOfItem(*data_, data, item) : Image{};
  }

  // Curves, and what is a mean over the classes that have samples.
  void SetRanks(ReportContent& content) const {
    std::vector<std::optional<RankedCurve>> curves = scores_.Curves();
    std::vector<ReportCurve> all;
    double f1 = 0;
    int64_t seen = 0;
    for (size_t c = 0; c < curves.size(); ++c) {
      const ClassCounts& counts = *content.classes[c].counts;
      seen += counts.support > 0 ? 1 : 0;
      f1 += counts.support > 0 ? counts.f1().value_or(0) : 0;
      if (!curves[c]) continue;
      content.classes[c].average_precision = curves[c]->average_precision;
      ReportCurve curve{.name = {}, .number = static_cast<int64_t>(c)};
      curve.average_precision = curves[c]->average_precision;
      curve.precisions = std::move(curves[c]->precisions);
      all.push_back(std::move(curve));
    }
    content.curve_samples = scores_.curve_samples();
    SetCurves(std::move(all), content);
    if (seen == 0) return;
    content.metrics.push_back({.name = "mean F1", .value = f1 / static_cast<double>(seen)});
    content.metrics.push_back({.name = "mean average precision", .value = content.curves.at(0).average_precision});
  }

  ScoredBlobs blobs_;
  const LayerParameter* data_;
  ClassScores scores_;
  WorstMistakes mistakes_{kWorstMistakes};
};

class PixelReader final : public BlobReader {
 public:
  PixelReader(const ScoredBlobs& blobs, int64_t classes)
      : blobs_(blobs), classes_(classes), pixels_(classes, blobs.ignored) {}

  void Read(const TestNet& net, int64_t /*first*/, int64_t count) override {
    const Tensor scores = net.watched(blobs_.scores);
    const Shape shape = scores.shape().With(0, count);
    const auto pixels = static_cast<size_t>(count * shape.Count(2, shape.rank()));
    pixels_.Add(shape, scores.as<const float>().first(static_cast<size_t>(shape.Count())),
                net.watched(blobs_.labels).as<const float>().first(pixels));
  }

  void Finish(const TestNet& /*net*/, const std::vector<OutputValue>& /*results*/, ReportContent& content) override {
    content.task = "segmentation";
    content.pass->unit = "pixels";
    content.confusion = Largest(pixels_.Cells(), content.cells_left_out);
    SetCounts(pixels_.Cells(), classes_, content);
    for (ReportClass& one : content.classes) one.overlap = one.counts->overlap();
  }

 private:
  ScoredBlobs blobs_;
  int64_t classes_;
  PixelConfusion pixels_;
};

class DetectionReader final : public BlobReader {
 public:
  explicit DetectionReader(std::string top) : top_(std::move(top)) {}

  void Read(const TestNet& net, int64_t /*first*/, int64_t /*count*/) override {
    scores_.Add(net.watched(top_).as<const float>());
  }

  void Finish(const TestNet& /*net*/, const std::vector<OutputValue>& results, ReportContent& content) override {
    content.task = "detection";
    const auto own = std::ranges::find(results, top_, &OutputValue::name);
    std::vector<ReportCurve> all;
    for (const auto& [label, found] : scores_.classes()) {
      std::vector<RankedDetection> ranked = found.detections;
      ReportCurve curve{.name = {}, .number = label};
      const RankedCurve made = RankedCurveOf(ranked, found.objects);
      // By the run's rule where the evaluator gives it.
      const bool is_given = own != results.end() && own->classes.contains(label);
      curve.average_precision = is_given ? own->classes.at(label) : made.average_precision;
      curve.precisions = made.precisions;
      content.classes.push_back({.number = label, .objects = found.objects});
      content.classes.back().average_precision = curve.average_precision;
      content.curve_samples += found.objects;
      all.push_back(std::move(curve));
    }
    SetCurves(std::move(all), content);
  }

 private:
  std::string top_;
  DetectionScores scores_;
};

}  // namespace

std::vector<std::string> ReadBlobs::blobs() const {
  std::set<std::string> names;
  if (!detections.empty()) return {detections};
  if (!scores) return {};
  names = {scores->scores, scores->labels};
  if (data != nullptr) names.insert(data->top(0));
  return {names.begin(), names.end()};
}

std::unique_ptr<BlobReader> MakeBlobReader(const ReadBlobs& read, const TestNet& net, int64_t samples) {
  if (!read.detections.empty()) return std::make_unique<DetectionReader>(read.detections);
  if (!read.scores) return nullptr;
  const Shape shape = net.watched_shape(read.scores->scores);
  const Shape labels = net.watched_shape(read.scores->labels);
  if (shape.rank() < 2 || shape[1] < 2) return nullptr;
  const int64_t places = shape.Count(2, shape.rank());
  if (labels.Count() != shape[0] * places) return nullptr;
  if (places == 1) return std::make_unique<ClassReader>(read, shape[1], samples);
  if (shape[1] > PixelConfusion::kMostClasses) return nullptr;
  return std::make_unique<PixelReader>(*read.scores, shape[1]);
}

}  // namespace moka
