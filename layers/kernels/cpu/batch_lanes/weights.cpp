// Row "batch_lanes" of the weights' gradient: dw(k,c,tap) = sum over images and positions of dy(k) x(c, tap), in memory
// whose innermost dimension is a block of images. A tile of output channels x taps stays in registers over a band of
// rows, the images of a block each in a lane of their own; bands are added in memory and the lanes last. Every sum is
// made by one thread in one order.
#include <algorithm>
#include <array>
#include <memory>

#include "core/text.h"
#include "core/threads/parallel.h"
#include "graph/kernel.h"
#include "graph/op.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cpu/batch_lanes/problem.h"

namespace moka {
namespace {

using batch_lanes::Axis;
using batch_lanes::Correlation;
using batch_lanes::Functions;
using batch_lanes::PartsOf;
using batch_lanes::Reachable;

constexpr int64_t kBandBytes = 24 << 10;  // of a tile's dy: stays in the first-level cache
// Reads of a band that pay for a copy of it: planes a power of two apart push each other out of the cache.
constexpr int64_t kFewestReads = 16;
constexpr int64_t kChannelsTogether = 10;  // that read a band of dy after each other

class BatchLanesWeights final : public BoundKernel {
 public:
  BatchLanesWeights(const batch_lanes::Problem& p, bool has_bias)
      : p_(p),
        has_bias_(has_bias),
        functions_(*batch_lanes::FunctionsOf(p.lanes)),
        rows_(p.AxisOf(0, false)),
        columns_(p.AxisOf(1, false)),
        threads_(ThreadCount()) {
    tiles_ = PartsOf(p.group_outputs(), functions_.outputs);
    const int64_t widest = PartsOf(p.group_outputs(), tiles_);
    const int64_t parts = PartsOf(columns_.taps, functions_.most_positions(widest));
    for (int64_t part = 0; part < parts; ++part) {
      const auto runs = batch_lanes::RunsOf(columns_, columns_.taps * part / parts, columns_.taps * (part + 1) / parts);
      runs_.insert(runs_.end(), runs.begin(), runs.end());
    }
    const int64_t row = widest * columns_.outputs * p.lanes;
    band_ = std::clamp<int64_t>(kBandBytes / (row * int64_t{sizeof(float)}), 1, rows_.outputs);
    parts_ = PartsOf(p.group_inputs(), kChannelsTogether);
    channels_ = PartsOf(p.group_inputs(), parts_);
    gathers_ = channels_ * rows_.taps >= kFewestReads;
    gathered_ = gathers_ ? band_ * row : 0;
    channel_sums_ = rows_.taps * columns_.taps * widest * p.lanes;
    implementation_ = StrCat("direct:", p.lanes == 16 ? "avx512" : "avx2");
  }

  int64_t scratch_bytes() const override {
    return threads_ * (gathered_ + channels_ * channel_sums_) * int64_t{sizeof(float)};
  }
  std::string_view implementation() const override { return implementation_; }

  // A unit is one row of taps of a tile of output channels and a few input channels.
  void Run() override {
    const int64_t units = p_.groups * tiles_ * parts_ * rows_.taps;
    const int64_t slots = std::min(threads_, units);
    ParallelFor(slots, 1, [&](int64_t first, int64_t last, int) {
      for (int64_t slot = first; slot < last; ++slot) {
        const int64_t end = units * (slot + 1) / slots;
        int64_t next = 0;
        for (int64_t unit = units * slot / slots; unit < end; unit = next) {
          next = std::min(end, (unit / rows_.taps + 1) * rows_.taps);
          RunUnits(unit, next, scratch<float>() + slot * (gathered_ + channels_ * channel_sums_));
        }
      }
    });
  }

 private:
  int64_t in_plane() const { return rows_.inputs * columns_.inputs * p_.lanes; }
  int64_t out_plane() const { return rows_.outputs * columns_.outputs * p_.lanes; }

  // The share of work in rows of taps of one tile and the same input channels.
  struct Share {
    int64_t first_channel;  // of x
    int64_t channels;
    int64_t first_output;
    int64_t outputs;
    int64_t first_tap;
    int64_t taps;
    float* gathered;
    float* sums;  // [channel][row tap][column tap][output][L]

    int64_t group_channel;  // first_channel within the group
  };

  // Units are numbered with the row of taps fastest, so that a slot's neighbouring units share their dy.
  Share ShareOf(int64_t unit, int64_t end, float* memory) const {
    const int64_t part = unit / rows_.taps % parts_;
    const int64_t tile = unit / rows_.taps / parts_ % tiles_;
    const int64_t group = unit / rows_.taps / parts_ / tiles_;
    Share s{};
    s.group_channel = p_.group_inputs() * part / parts_;
    s.channels = p_.group_inputs() * (part + 1) / parts_ - s.group_channel;
    s.first_channel = group * p_.group_inputs() + s.group_channel;
    s.first_output = group * p_.group_outputs() + p_.group_outputs() * tile / tiles_;
    s.outputs = group * p_.group_outputs() + p_.group_outputs() * (tile + 1) / tiles_ - s.first_output;
    s.first_tap = unit % rows_.taps;
    s.taps = end - unit;
    s.gathered = memory;
    s.sums = memory + gathered_;
    return s;
  }

  // dy of a band is gathered once and read by all channels and taps of the share. Lanes are images, so a sum over
  // images is as many partial sums as there are lanes until WriteWeights adds them at the very end.
  void RunUnits(int64_t unit, int64_t end, float* memory) const {
    const Share s = ShareOf(unit, end, memory);
    const int64_t tap_sums = columns_.taps * s.outputs * p_.lanes;
    std::fill_n(s.sums, s.channels * s.taps * tap_sums, 0.0F);
    for (int64_t block = 0; block < p_.blocks(); ++block) {
      const float* x = in<float>(0) + (block * p_.x.shape[1] + s.first_channel) * in_plane();
      const float* dy = in<float>(1) + (block * p_.y.shape[1] + s.first_output) * out_plane();
      for (int64_t y = 0; y < rows_.outputs; y += band_) {
        const int64_t y_end = std::min(rows_.outputs, y + band_);
        const int64_t row = columns_.outputs * p_.lanes;
        Gradients gradients{dy + y * row, p_.lanes, out_plane()};
        if (gathers_) {
          functions_.gather(gradients.dy, out_plane(), s.outputs, (y_end - y) * columns_.outputs, s.gathered);
          gradients = {s.gathered, s.outputs * p_.lanes, p_.lanes};
        }
        for (int64_t i = 0; i < s.channels * s.taps; ++i) {
          AddBand(x + i / s.taps * in_plane(), gradients, s.first_tap + i % s.taps, y, y_end, s.outputs,
                  s.sums + i * tap_sums);
        }
      }
    }
    WriteWeights(s);
    if (has_bias_ && s.group_channel == 0 && s.first_tap == 0) WriteBias(s.first_output, s.outputs);
  }

  // A band of dy, and from one position and one output to the next.
  struct Gradients {
    const float* dy;
    int64_t step;
    int64_t output;
  };

  // Adds output rows [begin, end) at one row of taps.
  // Output rows whose input row lies in the padding are cut off at both ends of the band.
  void AddBand(const float* x, const Gradients& gradients, int64_t tap, int64_t begin, int64_t end, int64_t outputs,
               float* sums) const {
    const int64_t band = begin;
    while (begin < end && rows_.InputOf(begin, tap) < 0) ++begin;
    while (begin < end && rows_.InputOf(end - 1, tap) < 0) --end;
    if (begin == end) return;
    x += rows_.InputOf(begin, tap) * columns_.inputs * p_.lanes;
    Correlation c;
    c.x_row = rows_.stride * columns_.inputs * p_.lanes;
    c.dy_step = gradients.step;
    c.dy_row = columns_.outputs * gradients.step;
    c.dy_output = gradients.output;
    c.rows = end - begin;
    c.outputs = outputs;
    const float* dy = gradients.dy + (begin - band) * c.dy_row;
    for (const struct Reachable& run : runs_) {
      c.x = x + run.input * p_.lanes;
      c.x_step = run.input_step * p_.lanes;
      c.x_tap = run.input_tap * p_.lanes;
      c.dy = dy + run.output * c.dy_step;
      c.sums = sums + run.first_tap * outputs * p_.lanes;
      c.positions = run.count;
      c.taps = run.taps;
      functions_.correlate(c);
    }
  }

  // Lanes are added, and [channel][tap][output] is turned into the weights' own order.
  void WriteWeights(const Share& s) const {
    const int64_t window = s.taps * columns_.taps;
    functions_.sum(s.sums, s.channels * window * s.outputs, 1, s.sums);
    const float* sums = s.sums;
    for (int64_t channel = 0; channel < s.channels; ++channel) {
      float* dw = out<float>(0) + s.first_tap * columns_.taps;
      dw += (s.first_output * p_.group_inputs() + s.group_channel + channel) * rows_.taps * columns_.taps;
      const int64_t filter = p_.group_inputs() * rows_.taps * columns_.taps;
      for (int64_t tap = 0; tap < window; ++tap) {
        for (int64_t o = 0; o < s.outputs; ++o) dw[o * filter + tap] = *sums++;
      }
    }
  }

  // Done by the thread that has a tile's first channels and taps: once for each output.
  void WriteBias(int64_t output, int64_t outputs) const {
    auto* db = out<float>(1) + output;
    std::fill_n(db, outputs, 0.0F);
    for (int64_t block = 0; block < p_.blocks(); ++block) {
      const float* dy = in<float>(1) + (block * p_.y.shape[1] + output) * out_plane();
      std::array<float, batch_lanes::kMostOutputs> sums{};
      functions_.sum(dy, outputs, rows_.outputs * columns_.outputs, sums.data());
      for (int64_t o = 0; o < outputs; ++o) db[o] += sums[static_cast<size_t>(o)];
    }
  }

  batch_lanes::Problem p_;
  bool has_bias_;
  const Functions& functions_;
  Axis rows_;
  Axis columns_;
  std::vector<Reachable> runs_;
  int64_t threads_;
  int64_t tiles_ = 0;         // of a group's outputs
  int64_t parts_ = 0;         // of a group's input channels
  int64_t channels_ = 0;      // of the largest part
  int64_t band_ = 0;          // output rows
  bool gathers_ = false;      // bands of dy
  int64_t gathered_ = 0;      // floats of one thread
  int64_t channel_sums_ = 0;  // floats of one channel and thread
  std::string implementation_;
};

std::unique_ptr<Kernel> Make(const KernelQuery& query) {
  return std::make_unique<BatchLanesWeights>(batch_lanes::ReadProblem(query), query.outputs.size() > 1);
}

}  // namespace

KernelDef BatchLanesConvolutionBackwardWeights() {
  return {.name = "batch_lanes",
          .op = "convolution_backward_weights",
          .refuse = batch_lanes::Refuse,
          .propose = batch_lanes::Propose,
          .make = Make,
          .turn = 4};
}

}  // namespace moka
