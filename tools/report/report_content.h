// All that a run's report says, as numbers and texts: report.json and report.html are made of the same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "optim/evaluators/class_scores.h"
#include "optim/evaluators/intervals.h"
#include "optim/run/run_charts.h"

namespace moka {

// A number of the whole test.
struct ReportMetric {
  std::string name;
  double value = 0;
  std::optional<ShareInterval> interval = {};  // of a share of independent samples
};

// One class, as far as it is known: a number that is not, or would be a share of nothing, is none.
struct ReportClass {
  int64_t number = 0;
  std::string name = {};  // empty: it has none
  std::optional<ClassCounts> counts = {};
  std::optional<int64_t> objects = {};  // of a test of detections
  std::optional<double> average_precision = {};
  std::optional<double> overlap = {};  // intersection over union
};

// Precision over recall, RankedCurve::kSteps + 1 values.
struct ReportCurve {
  std::string name;
  std::optional<int64_t> number = {};  // of the class; none: the mean over classes
  double average_precision = 0;
  std::vector<double> precisions = {};
};

struct ReportMistake {
  ScoredSample sample;
  std::string record = {};   // its name in the data; empty: not known
  std::string picture = {};  // an image file; empty: none
  std::string media = {};    // "image/png"
  int64_t side = 0;          // the longer one, in pixels
};

// The test that a report is of.
struct ReportPass {
  int64_t samples = 0;
  int64_t batch = 0;
  double seconds = 0;
  std::string unit = "pictures";  // of what was counted in the confusion matrix: "pixels"
};

struct ReportContent {
  std::string run = {};                 // its name
  std::string net = {};                 // the net's name
  std::string task = {};                // "classification", "detection", "segmentation"; empty: curves alone
  std::string weights = {};             // their file in the run's folder; empty: it has none
  std::optional<ReportPass> pass = {};  // none: nothing was tested for the report
  std::vector<ReportMetric> metrics = {};
  std::vector<RunChart> charts = {};
  std::vector<ReportClass> classes = {};
  std::vector<ConfusionCell> confusion = {};  // by label and prediction
  int64_t cells_left_out = 0;                 // the rarest of very many
  std::vector<ReportCurve> curves = {};       // the mean first, then the worst classes
  int64_t curve_samples = 0;
  std::optional<Reliability> reliability = {};
  std::vector<ReportMistake> mistakes = {};  // the worst first
  int64_t mistakes_in_all = 0;
  std::vector<std::pair<std::string, std::string>> facts = {};  // how to repeat it, by what they are
  std::vector<std::string> notes = {};
};

// "3 cat", or the number alone.
std::string ClassText(const ReportContent& content, int64_t number);

}  // namespace moka
