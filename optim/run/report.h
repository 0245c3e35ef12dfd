// Where a training's numbers go: Caffe's lines to the log (parse_log.py and plotting scripts read them), metrics.jsonl,
// results.csv, TensorBoard events and plots of the run's folder.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "optim/gradient_noise.h"
#include "optim/run/by_product.h"
#include "optim/run/events.h"
#include "optim/run/run_folder.h"
#include "optim/run/trainer_options.h"

namespace moka {

class TrainReport {
 public:
  // `run` may be null: then only the log's lines are written. `resumed_at` < 0 for a new run. `keeps_tests`: the tests
  // of that iteration are not made again.
  TrainReport(const RunFolder* run, int64_t resumed_at, bool keeps_tests = true);

  // A display line: iteration `done` - 1 was just computed with rate `lr`; `seconds` passed over `iterations`.
  struct Display {
    int64_t iteration = 0;  // the one just computed, from 0
    int64_t every = 1;      // iterations between displays
    int64_t since_last = 0;
    double seconds = 0;
    TrainProgress progress;
    std::vector<OutputValue> outputs;
    double input_wait_ms = 0;               // of an iteration, on average
    std::optional<double> loss_scale = {};  // of the next iteration, where it changes while training
    GradientNoise noise = {};               // nothing measured where it is not asked for
  };
  void Train(const Display& display);
  // Metrics of another split, to metrics.jsonl and events.
  void Add(std::string_view split, const RunPoint& point, const Metrics& metrics);
  void TestBegins(int net, int64_t iteration);
  struct TestLines {
    bool with_loss = false;     // solver field test_compute_loss
    bool with_classes = false;  // show_per_class_result
    double loss = 0;
  };
  void Test(const TestReport& test, const RunPoint& point, const TestLines& lines);
  // loss.svg, accuracy.svg and lr.svg from metrics.jsonl.
  void Plot();

 private:
  void AddEvents(std::string_view split, int64_t iteration, const Metrics& metrics);
  void DrawPlots() const;
  // Writes the tests of the iteration that is resumed from into the new events file.
  void RepeatTests(int64_t iteration);

  const RunFolder* run_;
  std::unique_ptr<EventWriter> events_;  // null if its file could not be made
  ByProduct plots_{"plots"};
  ByProduct event_file_{"TensorBoard's events"};
  ByProduct results_{"results.csv"};
};

// Names for columns: outputs with several elements get "[i]".
Metrics MetricsOf(const std::vector<OutputValue>& outputs);

// "class3: 0.75" for each class of an output of detections, as SSD's solver prints them.
std::vector<std::string> ClassLines(const OutputValue& output);
// A number as an ostream prints a double by default, which readers of Caffe's log expect.
std::string General(double value);
// The lines as Caffe writes them, without glog's head.
std::string TrainLine(int64_t iteration, double per_s, double seconds, int64_t every, double loss);
std::string OutputLine(bool is_test, size_t index, const OutputValue& output);

}  // namespace moka
