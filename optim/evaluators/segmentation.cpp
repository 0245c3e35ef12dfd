// Counts of hits, labels and predictions a class are summed over all batches before any is divided, as a mean of
// batches' ratios would be another number.
#include "optim/evaluators/evaluator.h"

namespace moka {
namespace {

// The pixels of a test, counted for one class.
struct ClassPixels {
  double right = 0;
  double labelled = 0;
  double predicted = 0;
  double either() const { return labelled + predicted - right; }
};

class SegmentationEvaluator final : public Evaluator {
 public:
  void Reset() override { pixels_.clear(); }

  // Rows [3,C]: right, labelled, predicted, rounded to float32 where a batch has more than 2^24 pixels of a class.
  void Add(std::span<const float> values) override {
    const size_t classes = values.size() / 3;
    pixels_.resize(classes);
    for (size_t c = 0; c < classes; ++c) {
      pixels_[c].right += double{values[c]};
      pixels_[c].labelled += double{values[classes + c]};
      pixels_[c].predicted += double{values[2 * classes + c]};
    }
  }

  std::vector<OutputValue> Values(const std::string& top) const override {
    OutputValue overlap{.name = top};
    OutputValue recall{.name = top + "/mean_accuracy"};
    OutputValue dice{.name = top + "/dice"};
    double right = 0;
    double labelled = 0;
    for (size_t c = 0; c < pixels_.size(); ++c) {
      const ClassPixels& p = pixels_[c];
      const auto label = static_cast<int64_t>(c);
      right += p.right;
      labelled += p.labelled;
      if (p.either() > 0) {
        overlap.classes[label] = p.right / p.either();
        dice.classes[label] = 2 * p.right / (p.labelled + p.predicted);
      }
      if (p.labelled > 0) recall.classes[label] = p.right / p.labelled;
    }
    for (OutputValue* value : {&overlap, &recall, &dice}) SetMean(*value);
    const OutputValue accuracy{.name = top + "/pixel_accuracy", .value = labelled > 0 ? right / labelled : 0};
    return {overlap, accuracy, recall, dice};
  }

 private:
  // Sets the mean over the classes that there are; 0 if there are none.
  static void SetMean(OutputValue& value) {
    for (const auto& [label, part] : value.classes) value.value += part / static_cast<double>(value.classes.size());
  }

  std::vector<ClassPixels> pixels_;
};

}  // namespace

EvaluatorRow SegmentationEvaluatorRow() {
  return {"SegmentationEvaluate",
          [](const LayerParameter& /*layer*/, const EvaluatorOptions& /*options*/) -> std::unique_ptr<Evaluator> {
            return std::make_unique<SegmentationEvaluator>();
          }};
}

}  // namespace moka
