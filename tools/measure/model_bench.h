// Whole steps of a compiled net against the clock: what `moka bench model` measures and how it is written down.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/program.h"
#include "tools/measure/ceilings.h"
#include "tools/measure/timed_net.h"

namespace moka {

// Milliseconds of whole steps (no clock between kernels).
std::vector<double> RunSteps(const TimedNet& net, int64_t steps);

// The share of a step that no kernel accounts for, median of a few runs with a clock between kernels.
double ShareOutsideKernels(const TimedNet& net, int64_t steps);

// Bytes of this process, from /proc/self/status (0 where there is none): its peak resident memory ("VmHWM") and what
// is resident ("VmRSS").
int64_t ProcessBytes(std::string_view field);
// Makes the peak start again from what is resident now, where the system can.
void ResetPeakMemory();

// The result of one measurement.
struct BenchResult {
  std::string model;
  bool is_training = false;
  int64_t items = 0;  // a step: images, or target tokens
  int threads = 0;
  std::vector<double> step_ms;
  double parse_ms = 0;
  double outside_share = 0;
  int64_t peak_bytes = 0;  // of the whole process
  Ceilings ceilings{};     // zero: not measured

  double median_ms() const;
  double items_per_second() const;
};

// All of it as one JSON object, a key a fact.
std::string BenchJson(const BenchResult& result, const TimedNet& net);
// A few lines for a person.
std::string BenchText(const BenchResult& result, const TimedNet& net);

// Header and row of timm's benchmark tables: milliseconds, millions of parameters, GMACs and millions of activations
// an image, rounded as there (huggingface/pytorch-image-models, benchmark.py).
std::string TimmHeader(bool is_training);
std::string TimmRow(const BenchResult& result, const TimedNet& net);

}  // namespace moka
