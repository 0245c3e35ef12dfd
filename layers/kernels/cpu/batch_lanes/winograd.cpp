// Row "batch_lanes_winograd" of convolution: windows of five columns and stride 1 over blocks of images. At each of the
// eight points of a row of tiles the products are a convolution of one column, which the direct kernel's registers sum.
#include <algorithm>
#include <array>
#include <limits>
#include <memory>

#include "core/text.h"
#include "core/threads/parallel.h"
#include "graph/kernel.h"
#include "graph/op.h"
#include "layers/kernels/cpu/batch_lanes/problem.h"
#include "layers/kernels/cpu/batch_lanes/transforms.h"

namespace moka {
namespace {

using batch_lanes::kPoints;
using batch_lanes::kTapsWide;
using batch_lanes::kTileWidth;
using batch_lanes::PartsOf;
using batch_lanes::Product;

constexpr int64_t kBandPositions = 16;  // of a tile of outputs whose products wait for their transform

// u[point*u_stride] for the weights w[0..5) of one row of a window: w(a) / N at each point a, where N is the product of
// its distances to the others.
void TransformRow(const float* w, float* u, int64_t u_stride) {
  u[0] = -w[0];
  const auto pair = [&](int64_t p, float a, float n) {
    const float square = a * a;
    const float even = (w[0] + square * (w[2] + square * w[4])) * n;
    const float odd = a * (w[1] + square * w[3]) * n;
    u[p * u_stride] = even + odd;
    u[(p + 1) * u_stride] = even - odd;
  };
  pair(1, 1.0F, -1.0F / 4.5F);
  pair(3, 2.0F, 1.0F / 90.0F);
  pair(5, 0.5F, 1.0F / 1.40625F);
  u[7 * u_stride] = w[4];
}

// F(4,5) along rows: 8 products in place of 20 for four results (Lavin and Gray, arXiv 1509.09308, section 4.1).
class WinogradRows final : public Kernel {
 public:
  WinogradRows(const batch_lanes::Problem& p, bool has_bias, bool is_relu)
      : p_(p),
        functions_(*batch_lanes::FunctionsOf(p.lanes)),
        transforms_(p.lanes == 16 ? batch_lanes::Avx512Transforms() : batch_lanes::Avx2Transforms()),
        has_bias_(has_bias),
        floor_(is_relu ? 0.0F : -std::numeric_limits<float>::infinity()),
        channels_(p.x.shape[1]),
        outputs_(p.y.shape[1]),
        height_(p.y.shape[2]),
        width_(p.y.shape[3]),
        taps_(p.w.shape[2]),
        in_rows_(height_ + taps_ - 1),
        columns_(PartsOf(width_, kTileWidth)),
        parts_(PartsOf(outputs_, functions_.outputs)),
        band_(std::clamp<int64_t>(kBandPositions / columns_, 1, height_)),
        threads_(ThreadCount()),
        implementation_(StrCat("f4x5:", p.lanes == 16 ? "avx512" : "avx2")) {}

  void Bind(const KernelArgs& args) override {
    x_ = args.inputs[0].as<const float>().data();
    w_ = args.inputs[1].as<const float>().data();
    y_ = args.outputs[0].as<float>().data();
    if (has_bias_) bias_ = args.inputs[2].as<const float>().data();
    lanes_ = static_cast<float*>(static_cast<void*>(args.scratch));
    v_ = lanes_ + 2 * p_.lanes;
    m_ = v_ + kPoints * point_floats() * p_.blocks();
    u_ = m_ + threads_ * kPoints * product_floats();
  }

  int64_t scratch_bytes() const override {
    const int64_t floats = 2 * p_.lanes + kPoints * (point_floats() * p_.blocks() + threads_ * product_floats()) +
                           kPoints * weight_floats();
    return floats * int64_t{sizeof(float)};
  }
  std::string_view implementation() const override { return implementation_; }

  void Run() override {
    batch_lanes::FillLaneMasks(p_, lanes_);
    // First all planes of x and all tiles of outputs are transformed.
    const int64_t planes = p_.blocks() * channels_;
    ParallelFor(planes + parts_, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        // In turns, so that every thread has its share of both.
        const int64_t part = (i + 1) * parts_ / (planes + parts_);
        if (part > i * parts_ / (planes + parts_)) {
          TransformWeights(part - 1);
        } else {
          batch_lanes::TransformPlane(p_, transforms_, i - part, x_, v_);
        }
      }
    });
    const int64_t bands = PartsOf(height_, band_);
    const int64_t units = p_.blocks() * parts_ * bands;
    const int64_t slots = std::min(threads_, units);
    ParallelFor(slots, 1, [&](int64_t first, int64_t last, int) {
      for (int64_t slot = first; slot < last; ++slot) {
        for (int64_t unit = units * slot / slots; unit < units * (slot + 1) / slots; ++unit) {
          RunBand(unit / bands / parts_, unit / bands % parts_, unit % bands * band_,
                  m_ + slot * kPoints * product_floats());
        }
      }
    });
  }

 private:
  // Floats of one point: a block of images, the products of a band, all weights.
  int64_t point_floats() const { return channels_ * in_rows_ * columns_ * p_.lanes; }
  int64_t product_floats() const { return functions_.outputs * band_ * columns_ * p_.lanes; }
  int64_t weight_floats() const { return outputs_ * channels_ * taps_; }

  // u[point][tile of outputs][channel][row tap][output].
  // Weights of a tile of outputs are interleaved, as the direct kernel's products read them.
  void TransformWeights(int64_t part) const {
    const int64_t begin = outputs_ * part / parts_;
    const int64_t end = outputs_ * (part + 1) / parts_;
    float* u = u_ + begin * channels_ * taps_;
    for (int64_t i = 0; i < channels_ * taps_; ++i) {
      for (int64_t o = begin; o < end; ++o) {
        TransformRow(w_ + (o * channels_ * taps_ + i) * kTapsWide, u++, weight_floats());
      }
    }
  }

  // At each of the eight points a product of transformed rows and weights, a tile of outputs x positions in registers;
  // then the output transform of the band, while its products are in the nearer caches.
  void RunBand(int64_t block, int64_t part, int64_t first_row, float* m) const {
    const int64_t rows = std::min(band_, height_ - first_row);
    const int64_t first = outputs_ * part / parts_;
    Product p;
    p.outputs = outputs_ * (part + 1) / parts_ - first;
    p.x_step = p.y_step = p_.lanes;
    p.x_tap = columns_ * p_.lanes;
    p.x_channel = in_rows_ * p.x_tap;
    p.w_tap = p.outputs;
    p.w_channel = taps_ * p.outputs;
    p.channels = channels_;
    p.rows = 1;
    p.taps = taps_;
    p.y_output = rows * p.x_tap;
    p.bias = zeros_.data();
    p.lanes = lanes_;
    p.floor = -std::numeric_limits<float>::infinity();
    const int64_t positions = rows * columns_;
    const int64_t tiles = PartsOf(positions, functions_.most_positions(p.outputs));
    for (int64_t point = 0; point < kPoints; ++point) {
      const float* v = v_ + (block * kPoints + point) * point_floats() + first_row * p.x_tap;
      p.w = u_ + point * weight_floats() + first * channels_ * taps_;
      for (int64_t tile = 0; tile < tiles; ++tile) {
        const int64_t begin = positions * tile / tiles;
        p.positions = positions * (tile + 1) / tiles - begin;
        p.x = v + begin * p_.lanes;
        p.y = m + point * product_floats() + begin * p_.lanes;
        functions_.multiply(p);
      }
    }
    const float* lanes = lanes_ + (block + 1 == p_.blocks() ? p_.lanes : 0);
    for (int64_t o = 0; o < p.outputs; ++o) {
      float* y = y_ + ((block * outputs_ + first + o) * height_ + first_row) * width_ * p_.lanes;
      for (int64_t row = 0; row < rows; ++row) {
        transforms_.output(m + o * p.y_output + row * p.x_tap, product_floats(), width_,
                           has_bias_ ? bias_[first + o] : 0.0F, lanes, floor_, y + row * width_ * p_.lanes);
      }
    }
  }

  batch_lanes::Problem p_;
  const batch_lanes::Functions& functions_;
  const batch_lanes::Transforms& transforms_;
  bool has_bias_;
  float floor_;
  int64_t channels_;
  int64_t outputs_;
  int64_t height_;
  int64_t width_;
  int64_t taps_;     // rows of the window
  int64_t in_rows_;  // rows that are read, padding included
  int64_t columns_;  // tiles of a row
  int64_t parts_;    // of the output channels
  int64_t band_;     // rows
  int64_t threads_;
  std::string implementation_;
  std::array<float, batch_lanes::kMostOutputs> zeros_{};
  const float* x_ = nullptr;
  const float* w_ = nullptr;
  const float* bias_ = nullptr;
  float* y_ = nullptr;
  float* lanes_ = nullptr;
  float* v_ = nullptr;
  float* m_ = nullptr;
  float* u_ = nullptr;
};

std::unique_ptr<Kernel> Make(const KernelQuery& query) {
  const bool is_relu = query.node.attributes.String("activation") == "relu";
  return std::make_unique<WinogradRows>(batch_lanes::ReadProblem(query), query.inputs.size() > 2, is_relu);
}

}  // namespace

KernelDef BatchLanesWinograd() {
  return {.name = "batch_lanes_winograd",
          .op = "convolution",
          .refuse = batch_lanes::RefuseRows,
          .propose = batch_lanes::ProposeRows,
          .make = Make,
          .turn = 5};
}

}  // namespace moka
