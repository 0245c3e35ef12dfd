// Gradients in few bytes. A compressor makes a payload of one gradient on one rank and adds what payloads stand for to
// a sum; a biased one keeps what it did not send and adds it to the next gradient (error feedback: Seide et al., "1-bit
// stochastic gradient descent", Interspeech 2014; Karimireddy et al., "Error feedback fixes SignSGD", ICML 2019), so
// that what is sent and what is kept always add up to the gradients. A gradient that is not finite makes a payload that
// is not, and leaves the states as they were.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"

namespace moka {

struct CompressionOptions {
  std::string method = "none";
  double density = 0.001;   // dgc: part of the elements that is sent
  int64_t warmup_iter = 0;  // dgc: iterations over which the density falls to it
  double momentum = 0;      // dgc: of the optimiser, which the compressor applies in its place
  int rank = 4;             // powersgd
  int levels = 127;         // qsgd
  double clip = 2.5;        // terngrad: standard deviations; 0: none
  int64_t start_iter = 0;   // iterations before it are not compressed
  int64_t min_elements = 1024;
  uint64_t seed = 0;  // of the run
};

// Where a compressor stands: the gradient's number among all, this rank among all.
struct CompressorPlace {
  uint32_t tensor = 0;
  int rank = 0;
  int ranks = 1;
};

// The memory that a compressor keeps from one iteration to the next; part of checkpoints.
struct CompressorState {
  std::string_view name;
  std::span<float> values;
};

class GradientCompressor {
 public:
  virtual ~GradientCompressor() = default;

  // Floats of the payload in a round of iteration `step` (from 0, the first compressed); the same on all ranks.
  virtual int64_t PayloadFloats(int round, int64_t step) const = 0;
  // input: this rank's gradient in round 0; then the payloads of the round before, summed over the ranks.
  virtual void Encode(int round, int64_t step, std::span<const float> input, std::span<float> payload) = 0;
  // Adds what a payload of the last round stands for to the sum over all ranks: once for each rank's payload, in the
  // order of ranks, or once for their sum (CompressionMethod::sums).
  virtual void AddDecoded(int64_t step, std::span<const float> payload, std::span<float> sum) = 0;
  virtual std::vector<CompressorState> States() { return {}; }
};

// An option that a method does not take, and why; no option where nothing is wrong.
struct CompressionFault {
  std::string_view option;  // as CompressionOptions calls it
  std::string text;
};

struct CompressionMethod {
  std::string_view name;
  std::string_view doc;
  int rounds = 1;
  // Payloads are summed by an all-reduce (they are linear in the gradient); otherwise all ranks gather them.
  bool sums = false;
  // Requires: check said nothing. Floats of all rounds' payloads once the warm-up is over.
  int64_t (*payload)(const CompressionOptions&, const Shape&) = nullptr;
  CompressionFault (*check)(const CompressionOptions&) = nullptr;
  std::unique_ptr<GradientCompressor> (*make)(const CompressionOptions&, const Shape&,
                                              const CompressorPlace&) = nullptr;
};

// All, by name.
std::span<const CompressionMethod> CompressionMethods();
// The first option of a method that is out of range. Requires: the method is known.
CompressionFault FaultOf(const CompressionOptions& options);
// Errors: kConfig for an unknown method, with the nearest, and for options out of range.
const CompressionMethod& FindCompression(const CompressionOptions& options);

// The methods' rows, each in the file of its name.
CompressionMethod Dgc();
CompressionMethod PowerSgd();
CompressionMethod Qsgd();
CompressionMethod SignSgd();
CompressionMethod TernGrad();

// dgc: the part of the elements sent in iteration `step`.
double DgcDensity(const CompressionOptions& options, int64_t step);

}  // namespace moka
