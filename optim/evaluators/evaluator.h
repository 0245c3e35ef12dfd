// Evaluators of test outputs whose batches do not average: counts and ranked rows that make one number at the end. A
// row by layer type; other outputs are means.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "optim/evaluators/average_precision.h"
#include "optim/output_value.h"
#include "proto/moka.pb.h"

namespace moka {

// One thread; owns what the batches of a test have added up to.
class Evaluator {
 public:
  Evaluator() = default;
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;
  virtual ~Evaluator() = default;

  virtual void Reset() = 0;
  // Takes the values that the layer's first top held after a batch.
  virtual void Add(std::span<const float> values) = 0;
  // At least one, the first of which ranks a run; `top` is the name of the layer's first top, which names of others
  // begin with ("miou", "miou/pixel_accuracy").
  virtual std::vector<OutputValue> Values(const std::string& top) const = 0;
};

struct EvaluatorOptions {
  bool detections = false;  // of DetectionEvaluate layers, which Caffe's nets have for other uses too
  PrecisionRule rule = PrecisionRule::kIntegral;
};

// The evaluator of a layer type: a function `EvaluatorRow NAME()` in the evaluator's file.
struct EvaluatorRow {
  std::string_view type;  // of the layer
  // Null where the options ask for nothing of it.
  std::unique_ptr<Evaluator> (*make)(const LayerParameter& layer, const EvaluatorOptions& options);
};
// The rows of this build in no order that matters (tools/cmake/moka_rows.cmake).
std::vector<EvaluatorRow> EvaluatorRows();

// Null for layers whose tops are means.
std::unique_ptr<Evaluator> MakeEvaluator(const LayerParameter& layer, const EvaluatorOptions& options);
// Whether a layer type has one.
bool HasEvaluator(std::string_view type);

}  // namespace moka
