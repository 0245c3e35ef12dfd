// Row "batch_lanes_winograd" of the weights' gradient: windows of five columns and stride 1 over blocks of images. The
// five taps of a row are the outputs of a correlation of x with tiles of four elements of dy: F(5,4) at the points of
// winograd.h. At each point the taps of a column are summed over all tiles, rows and images by the direct kernel's
// registers; the lanes are added last.
#include <algorithm>
#include <array>
#include <memory>

#include "core/text.h"
#include "core/threads/parallel.h"
#include "graph/kernel.h"
#include "graph/op.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cpu/batch_lanes/problem.h"
#include "layers/kernels/cpu/batch_lanes/transforms.h"

namespace moka {
namespace {

using batch_lanes::kPoints;
using batch_lanes::kTapsWide;
using batch_lanes::kTileWidth;
using batch_lanes::PartsOf;

constexpr int64_t kChannelsTogether = 10;  // that read the same dy after each other

// F(5,4): 8 products in place of 20 for the five taps of a row from four elements of dy. The sum over tiles, rows and
// images is taken at the points, before the inverse transform, which is linear.
class WinogradRowsWeights final : public BoundKernel {
 public:
  WinogradRowsWeights(const batch_lanes::Problem& p, bool has_bias)
      : p_(p),
        functions_(*batch_lanes::FunctionsOf(p.lanes)),
        transforms_(p.lanes == 16 ? batch_lanes::Avx512Transforms() : batch_lanes::Avx2Transforms()),
        has_bias_(has_bias),
        channels_(p.x.shape[1]),
        outputs_(p.y.shape[1]),
        height_(p.y.shape[2]),
        width_(p.y.shape[3]),
        taps_(p.w.shape[2]),
        in_rows_(height_ + taps_ - 1),
        columns_(PartsOf(width_, kTileWidth)),
        parts_(PartsOf(outputs_, functions_.outputs)),
        channel_parts_(PartsOf(channels_, kChannelsTogether)),
        threads_(ThreadCount()),
        implementation_(StrCat("f5x4:", p.lanes == 16 ? "avx512" : "avx2")) {}

  int64_t scratch_bytes() const override {
    const int64_t floats = p_.blocks() * kPoints * (x_point() + dy_point()) + threads_ * (sums() + kPoints * results());
    return floats * int64_t{sizeof(float)};
  }
  std::string_view implementation() const override { return implementation_; }

  void Run() override {
    ParallelFor(p_.blocks() * channels_, 1, [this](int64_t begin, int64_t end, int) {
      for (int64_t plane = begin; plane < end; ++plane) {
        batch_lanes::TransformPlane(p_, transforms_, plane, in<float>(0), x());
      }
    });
    ParallelFor(p_.blocks() * outputs_, 1, [this](int64_t begin, int64_t end, int) {
      for (int64_t plane = begin; plane < end; ++plane) TransformDy(plane);
    });
    const int64_t units = parts_ * channel_parts_;
    const int64_t slots = std::min(threads_, units);
    ParallelFor(slots, 1, [&](int64_t first, int64_t last, int) {
      for (int64_t slot = first; slot < last; ++slot) {
        float* memory = dy() + p_.blocks() * kPoints * dy_point() + slot * (sums() + kPoints * results());
        for (int64_t unit = units * slot / slots; unit < units * (slot + 1) / slots; ++unit) {
          RunUnit(unit / channel_parts_, unit % channel_parts_, memory, memory + sums());
        }
      }
    });
  }

 private:
  // Floats of one point of a block of images.
  int64_t x_point() const { return channels_ * in_rows_ * columns_ * p_.lanes; }
  int64_t dy_point() const { return outputs_ * height_ * columns_ * p_.lanes; }
  // Floats of a thread: one channel's sums at one point, and the sums of their lanes for all channels of a part.
  int64_t sums() const { return taps_ * functions_.outputs * p_.lanes; }
  int64_t results() const {
    return RoundUp(PartsOf(channels_, channel_parts_) * taps_ * functions_.outputs, p_.lanes).value();
  }
  float* x() const { return scratch<float>(); }
  float* dy() const { return x() + p_.blocks() * kPoints * x_point(); }
  int64_t PartBegin(int64_t part) const { return outputs_ * part / parts_; }

  // [block][point][part of outputs][row][tile][output][L].
  void TransformDy(int64_t plane) const {
    const int64_t output = plane % outputs_;
    int64_t part = output * parts_ / outputs_;
    while (PartBegin(part) > output) --part;
    while (PartBegin(part + 1) <= output) ++part;
    const int64_t begin = PartBegin(part);
    const int64_t step = (PartBegin(part + 1) - begin) * p_.lanes;
    float* to = dy() + plane / outputs_ * kPoints * dy_point() + begin * height_ * columns_ * p_.lanes +
                (output - begin) * p_.lanes;
    for (int64_t row = 0; row < height_; ++row) {
      const float* from = in<float>(1) + (plane * height_ + row) * width_ * p_.lanes;
      transforms_.gradient(from, width_, to + row * columns_ * step, step, dy_point());
    }
  }

  // A part of the outputs with a part of the channels.
  // For each point and channel: sums over all blocks and positions in registers, lanes added at once, so that only one
  // number a tap and output waits for the inverse transform.
  void RunUnit(int64_t part, int64_t channel_part, float* sums, float* results) const {
    const int64_t first = channels_ * channel_part / channel_parts_;
    const int64_t channels = channels_ * (channel_part + 1) / channel_parts_ - first;
    const int64_t begin = PartBegin(part);
    batch_lanes::Correlation c;
    c.outputs = PartBegin(part + 1) - begin;
    c.x_step = p_.lanes;
    c.x_tap = columns_ * p_.lanes;
    c.x_row = kPoints * x_point();
    c.dy_step = c.outputs * p_.lanes;
    c.dy_row = kPoints * dy_point();
    c.dy_output = p_.lanes;
    c.rows = p_.blocks();
    c.positions = height_ * columns_;
    const int64_t filter = taps_ * c.outputs;
    const int64_t tap_parts = PartsOf(taps_, functions_.most_positions(c.outputs));
    for (int64_t i = 0; i < kPoints * channels; ++i) {
      const int64_t point = i / channels;
      const float* v = x() + point * x_point() + (first + i % channels) * in_rows_ * c.x_tap;
      c.dy = dy() + point * dy_point() + begin * height_ * columns_ * p_.lanes;
      std::fill_n(sums, filter * p_.lanes, 0.0F);
      for (int64_t tap_part = 0; tap_part < tap_parts; ++tap_part) {
        const int64_t tap = taps_ * tap_part / tap_parts;
        c.taps = taps_ * (tap_part + 1) / tap_parts - tap;
        c.x = v + tap * c.x_tap;
        c.sums = sums + tap * c.outputs * p_.lanes;
        functions_.correlate(c);
      }
      functions_.sum(sums, filter, 1, results + i * filter);
    }
    for (int64_t i = 0; i < channels * filter; ++i) {
      const int64_t channel = first + i / filter;
      const int64_t output = begin + i % c.outputs;
      const int64_t tap = i % filter / c.outputs;
      WriteRow(results + i, channels * filter,
               out<float>(0) + ((output * channels_ + channel) * taps_ + tap) * kTapsWide);
    }
    if (has_bias_ && channel_part == 0) WriteBias(begin, c.outputs);
  }

  // The five taps of a row from its eight points.
  // Tap k takes the k-th power of each point (0, 1, -1, 2, -2, 1/2, -1/2, and infinity for the highest).
  static void WriteRow(const float* points, int64_t step, float* dw) {
    const auto at = [&](int64_t p) { return points[p * step]; };
    const float sum_1 = at(1) + at(2);
    const float sum_2 = at(3) + at(4);
    const float sum_half = at(5) + at(6);
    const float odd_1 = at(1) - at(2);
    const float odd_2 = at(3) - at(4);
    const float odd_half = at(5) - at(6);
    dw[0] = (at(0) + sum_1) + (sum_2 + sum_half);
    dw[1] = odd_1 + 2.0F * odd_2 + 0.5F * odd_half;
    dw[2] = sum_1 + 4.0F * sum_2 + 0.25F * sum_half;
    dw[3] = odd_1 + 8.0F * odd_2 + 0.125F * odd_half;
    dw[4] = sum_1 + 16.0F * sum_2 + 0.0625F * sum_half + at(7);
  }

  void WriteBias(int64_t output, int64_t outputs) const {
    auto* db = out<float>(1) + output;
    std::fill_n(db, outputs, 0.0F);
    const int64_t plane = height_ * width_;
    for (int64_t block = 0; block < p_.blocks(); ++block) {
      std::array<float, batch_lanes::kMostOutputs> totals{};
      functions_.sum(in<float>(1) + (block * outputs_ + output) * plane * p_.lanes, outputs, plane, totals.data());
      for (int64_t o = 0; o < outputs; ++o) db[o] += totals[static_cast<size_t>(o)];
    }
  }

  batch_lanes::Problem p_;
  const batch_lanes::Functions& functions_;
  const batch_lanes::Transforms& transforms_;
  bool has_bias_;
  int64_t channels_;
  int64_t outputs_;
  int64_t height_;   // of dy
  int64_t width_;    // of dy
  int64_t taps_;     // rows of the window
  int64_t in_rows_;  // rows of x that are read, padding included
  int64_t columns_;  // tiles of a row
  int64_t parts_;    // of the output channels
  int64_t channel_parts_;
  int64_t threads_;
  std::string implementation_;
};

std::unique_ptr<Kernel> Make(const KernelQuery& query) {
  return std::make_unique<WinogradRowsWeights>(batch_lanes::ReadProblem(query), query.outputs.size() > 1);
}

}  // namespace

KernelDef BatchLanesWinogradBackwardWeights() {
  return {.name = "batch_lanes_winograd",
          .op = "convolution_backward_weights",
          .refuse = batch_lanes::RefuseRows,
          .propose = batch_lanes::ProposeRows,
          .make = Make,
          .turn = 5};
}

}  // namespace moka
