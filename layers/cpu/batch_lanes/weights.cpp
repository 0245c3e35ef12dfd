// Row "batch_lanes" of the weights' gradient: dw(k,c,tap) = sum over images and positions of dy(k) x(c, tap), in memory
// whose innermost dimension is a block of images. A tile of output channels x taps stays in registers over a band of
// rows, the images of a block each in a lane of their own; bands are added in memory and the lanes last. Every sum is
// made by one thread in one order.
#include <algorithm>
#include <memory>

#include "core/parallel.h"
#include "core/text.h"
#include "graph/op.h"
#include "layers/cpu/batch_lanes/problem.h"
#include "layers/cpu/bound_kernel.h"
#include "layers/cpu/kernels.h"

namespace moka {
namespace {

using batch_lanes::Axis;
using batch_lanes::Correlation;
using batch_lanes::Functions;
using batch_lanes::PartsOf;
using batch_lanes::Reachable;

constexpr int64_t kBandBytes = 20 << 10;  // of a tile's dy: read again for each row of taps from the first-level cache

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
    band_ = std::max<int64_t>(1, kBandBytes / (widest * columns_.outputs * p.lanes * int64_t{sizeof(float)}));
    sums_ = rows_.taps * columns_.taps * widest * p.lanes;
    implementation_ = StrCat("direct:", p.lanes == 16 ? "avx512" : "avx2");
  }

  int64_t scratch_bytes() const override { return threads_ * sums_ * int64_t{sizeof(float)}; }
  std::string_view implementation() const override { return implementation_; }

  // A unit is one row of taps of a tile of output channels and one input channel.
  void Run() override {
    const int64_t units = p_.groups * tiles_ * p_.group_inputs() * rows_.taps;
    const int64_t slots = std::min(threads_, units);
    ParallelFor(slots, 1, [&](int64_t first, int64_t last, int) {
      for (int64_t slot = first; slot < last; ++slot) {
        const int64_t end = units * (slot + 1) / slots;
        int64_t next = 0;
        for (int64_t unit = units * slot / slots; unit < end; unit = next) {
          next = std::min(end, (unit / rows_.taps + 1) * rows_.taps);
          RunPair(unit / rows_.taps, unit % rows_.taps, next - unit, scratch<float>() + slot * sums_);
        }
      }
    });
  }

 private:
  int64_t in_plane() const { return rows_.inputs * columns_.inputs * p_.lanes; }
  int64_t out_plane() const { return rows_.outputs * columns_.outputs * p_.lanes; }

  // Rows of taps [first_tap, first_tap + taps) of the pair of a tile and a channel.
  void RunPair(int64_t pair, int64_t first_tap, int64_t taps, float* sums) const {
    const int64_t channel = pair % p_.group_inputs();
    const int64_t tile = pair / p_.group_inputs() % tiles_;
    const int64_t group = pair / p_.group_inputs() / tiles_;
    const int64_t output = group * p_.group_outputs() + p_.group_outputs() * tile / tiles_;
    const int64_t outputs = group * p_.group_outputs() + p_.group_outputs() * (tile + 1) / tiles_ - output;
    const int64_t row_sums = columns_.taps * outputs * p_.lanes;
    std::fill_n(sums, taps * row_sums, 0.0F);
    for (int64_t block = 0; block < p_.blocks(); ++block) {
      const float* x = in<float>(0) + (block * p_.x.shape[1] + group * p_.group_inputs() + channel) * in_plane();
      const float* dy = in<float>(1) + (block * p_.y.shape[1] + output) * out_plane();
      for (int64_t y = 0; y < rows_.outputs; y += band_) {
        for (int64_t tap = 0; tap < taps; ++tap) {
          AddBand(x, dy, first_tap + tap, y, std::min(rows_.outputs, y + band_), outputs, sums + tap * row_sums);
        }
      }
    }
    auto* dw = out<float>(0);
    for (int64_t tap = 0; tap < taps * columns_.taps; ++tap) {
      for (int64_t o = 0; o < outputs; ++o) {
        const int64_t filter = (output + o) * p_.group_inputs() + channel;
        dw[(filter * rows_.taps + first_tap) * columns_.taps + tap] =
            functions_.sum(sums + (tap * outputs + o) * p_.lanes, 1);
      }
    }
    if (has_bias_ && channel == 0 && first_tap == 0) WriteBias(output, outputs);
  }

  // Adds output rows [begin, end) at one row of taps.
  void AddBand(const float* x, const float* dy, int64_t tap, int64_t begin, int64_t end, int64_t outputs,
               float* sums) const {
    while (begin < end && rows_.InputOf(begin, tap) < 0) ++begin;
    while (begin < end && rows_.InputOf(end - 1, tap) < 0) --end;
    if (begin == end) return;
    x += rows_.InputOf(begin, tap) * columns_.inputs * p_.lanes;
    dy += begin * columns_.outputs * p_.lanes;
    Correlation c;
    c.x_row = rows_.stride * columns_.inputs * p_.lanes;
    c.dy_row = columns_.outputs * p_.lanes;
    c.dy_output = out_plane();
    c.rows = end - begin;
    c.outputs = outputs;
    for (const Reachable& run : runs_) {
      c.x = x + run.input * p_.lanes;
      c.x_step = run.input_step * p_.lanes;
      c.x_tap = run.input_tap * p_.lanes;
      c.dy = dy + run.output * p_.lanes;
      c.sums = sums + run.first_tap * outputs * p_.lanes;
      c.positions = run.count;
      c.taps = run.taps;
      functions_.correlate(c);
    }
  }

  void WriteBias(int64_t output, int64_t outputs) const {
    auto* db = out<float>(1);
    for (int64_t o = output; o < output + outputs; ++o) {
      double total = 0;
      for (int64_t block = 0; block < p_.blocks(); ++block) {
        const float* dy = in<float>(1) + (block * p_.y.shape[1] + o) * out_plane();
        total += double{functions_.sum(dy, rows_.outputs * columns_.outputs)};
      }
      db[o] = static_cast<float>(total);
    }
  }

  batch_lanes::Problem p_;
  bool has_bias_;
  const Functions& functions_;
  Axis rows_;
  Axis columns_;
  std::vector<Reachable> runs_;
  int64_t threads_;
  int64_t tiles_ = 0;  // of a group's outputs
  int64_t band_ = 0;   // output rows
  int64_t sums_ = 0;   // floats of one thread
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
          .make = Make};
}

}  // namespace moka
