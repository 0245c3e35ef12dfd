// Post-training calibration for 8-bit inference: ranges of what convolutions read and write over some batches, and
// the file they are kept in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "graph/parameter_store.h"
#include "graph/program.h"
#include "graph/quantization.h"
#include "layers/net/layer.h"

namespace moka {

// Counts of magnitudes in equal bins up to a largest one that grows by doubling.
class MagnitudeHistogram {
 public:
  static constexpr size_t kBins = 2048;

  void Add(std::span<const float> values);
  double low() const { return low_; }
  // The magnitude up to which `levels` integer steps should reach: the one with the least squared error, of rounding
  // (step^2/12 each, where step = magnitude/levels) and of what lies beyond and is cut off. 0 without values above 0.
  double BestLimit(int levels) const;

 private:
  std::vector<int64_t> counts_;
  double top_ = 0;  // where the last bin ends
  double low_ = 0;  // smallest value, at most 0
};

// Looks at the outputs of a program compiled with observes_convolutions, batch after batch.
class Calibration {
 public:
  // Whether there is anything to look at: a convolution that could run on integers.
  static bool HasRanges(const Program& program);
  void Observe(const Program& program);
  Quantization Finish() const;

 private:
  struct Ranges {
    MagnitudeHistogram input;
    MagnitudeHistogram output;
    std::vector<double> weights;  // largest magnitude of each output channel
  };
  std::map<std::string, Ranges> layers_;
};

// Notes which weights the ranges are of.
void NoteWeights(const std::vector<NetBlob>& blobs, const ParameterStore& store, Quantization& quantization);
// LoadTrainedWeights for a program of these options. Errors: its; kConfig naming the file of --int8 if that was
// measured with other weights or of another net.
void LoadWeightsFor(const CompileOptions& compile, const std::string& files, const std::vector<NetBlob>& blobs,
                    ParameterStore& store);

// JSON: {"convolutions": {LAYER: {"input": [low, high], "output": [low, high], "weights": [..], "checksum": N}}}, the
// last of them not in files of earlier days. Errors: kNoInput, kConfig naming the file and what is wrong in it;
// kCantCreate.
Quantization ReadQuantization(const std::filesystem::path& file);
void WriteQuantization(const Quantization& quantization, const std::filesystem::path& file);

}  // namespace moka
