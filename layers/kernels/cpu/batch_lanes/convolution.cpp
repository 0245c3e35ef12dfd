// Rows "batch_lanes" of convolution and of its gradient with respect to x: direct sums over memory whose innermost
// dimension is a block of images. Registers are full whatever the number of channels, which blocks of channels are
// not: for the first layers of networks and for narrow ones. A tile of output channels x positions stays in registers
// while all channels and taps that its positions share are summed.
#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "core/text.h"
#include "core/threads/parallel.h"
#include "graph/kernel.h"
#include "graph/op.h"
#include "layers/kernels/cpu/batch_lanes/problem.h"

namespace moka {
namespace {

using batch_lanes::Axis;
using batch_lanes::Functions;
using batch_lanes::Product;
using batch_lanes::Reachable;
using batch_lanes::Taps;

// A row's inputs are read once for each of its runs; this much of them stays in the second-level cache meanwhile.
constexpr int64_t kCachedBytes = 256 << 10;
constexpr int64_t kFewestSteps = 24;  // of a tile, before its sums go to memory and come back

// Forward and gradient differ in their axes (axis.cpp) and in how weights are read; the sums are the same.
class BatchLanesKernel final : public Kernel {
 public:
  BatchLanesKernel(const batch_lanes::Problem& p, bool is_gradient, bool has_bias, bool is_relu)
      : p_(p),
        is_gradient_(is_gradient),
        has_bias_(has_bias),
        functions_(*batch_lanes::FunctionsOf(p.lanes)),
        columns_(p.AxisOf(1, is_gradient)),
        runs_(batch_lanes::RunsOf(columns_, 0, columns_.taps)),
        floor_(is_relu ? 0.0F : -std::numeric_limits<float>::infinity()) {
    const Axis rows = p.AxisOf(0, is_gradient);
    height_ = rows.outputs;
    in_height_ = rows.inputs;
    window_ = rows.taps * columns_.taps;
    channels_ = is_gradient ? p.group_outputs() : p.group_inputs();
    outputs_ = is_gradient ? p.group_inputs() : p.group_outputs();
    tiles_ = batch_lanes::PartsOf(outputs_, functions_.outputs);
    int64_t most_rows = 1;
    for (int64_t y = 0; y < height_; ++y) {
      row_taps_.push_back(batch_lanes::TapsOf(rows, y));
      most_rows = std::max(most_rows, row_taps_.back().count);
    }
    is_one_run_ = runs_.size() == 1 && runs_[0].count == columns_.outputs;
    passes_channels_ = channels_;
    // Columns at the borders lack taps, so a row falls into runs of positions with equal taps. Where there are several
    // runs, channels are taken in passes, so that the rows of x which the runs share stay in the second level.
    if (!is_one_run_) {
      const int64_t fitting = kCachedBytes / (most_rows * columns_.inputs * p.lanes * int64_t{sizeof(float)});
      passes_channels_ = std::clamp(std::max(fitting, kFewestSteps / most_rows), int64_t{1}, channels_);
    }
    implementation_ = StrCat("direct:", p.lanes == 16 ? "avx512" : "avx2");
  }

  void Bind(const KernelArgs& args) override {
    x_ = args.inputs[0].as<const float>().data();
    w_ = args.inputs[1].as<const float>().data();
    y_ = args.outputs[0].as<float>().data();
    if (has_bias_) plain_bias_ = args.inputs[2].as<const float>();
    lanes_ = static_cast<float*>(static_cast<void*>(args.scratch));
    packed_ = lanes_ + 2 * p_.lanes;
    bias_ = packed_ + p_.w.shape.Count();
  }

  int64_t scratch_bytes() const override {
    return (2 * p_.lanes + p_.w.shape.Count() + p_.groups * outputs_) * int64_t{sizeof(float)};
  }
  std::string_view implementation() const override { return implementation_; }

  void Run() override {
    batch_lanes::FillLaneMasks(p_, lanes_);
    std::fill_n(bias_, p_.groups * outputs_, 0.0F);
    std::ranges::copy(plain_bias_, bias_);
    ParallelFor(p_.groups * tiles_, 1, [this](int64_t begin, int64_t end, int) {
      for (int64_t tile = begin; tile < end; ++tile) PackTile(tile / tiles_, tile % tiles_);
    });
    ParallelFor(p_.blocks() * p_.groups * tiles_ * height_, 1, [this](int64_t begin, int64_t end, int) {
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t tile = unit / height_;
        RunRow(tile / tiles_ / p_.groups, tile / tiles_ % p_.groups, tile % tiles_, unit % height_);
      }
    });
  }

 private:
  int64_t TileBegin(int64_t tile) const { return outputs_ * tile / tiles_; }
  float* PackedTile(int64_t group, int64_t tile) const {
    return packed_ + (group * outputs_ + TileBegin(tile)) * channels_ * window_;
  }

  // A tile's weights as [channel][row tap][column tap][output].
  // They lie in the order in which the products read them, so that a step's weights lie beside each other.
  void PackTile(int64_t group, int64_t tile) const {
    const int64_t begin = TileBegin(tile);
    const int64_t end = TileBegin(tile + 1);
    float* to = PackedTile(group, tile);
    // Plain weights are [groups][outputs of y][inputs of x][window].
    const float* from = w_ + group * outputs_ * channels_ * window_;
    const int64_t output_stride = is_gradient_ ? window_ : channels_ * window_;
    const int64_t channel_stride = is_gradient_ ? outputs_ * window_ : window_;
    for (int64_t channel = 0; channel < channels_; ++channel) {
      for (int64_t tap = 0; tap < window_; ++tap) {
        const float* w = from + channel * channel_stride + tap;
        for (int64_t o = begin; o < end; ++o) *to++ = w[o * output_stride];
      }
    }
  }

  // Row `row` of a tile of output channels of one block of images.
  void RunRow(int64_t block, int64_t group, int64_t tile, int64_t row) const {
    const Taps& taps = row_taps_[static_cast<size_t>(row)];
    const int64_t first = TileBegin(tile);
    const int64_t in_plane = in_height_ * columns_.inputs * p_.lanes;
    const int64_t out_plane = height_ * columns_.outputs * p_.lanes;
    Product p;
    p.outputs = TileBegin(tile + 1) - first;
    p.x_channel = in_plane;
    p.x_row = taps.input_step * columns_.inputs * p_.lanes;
    p.w_channel = window_ * p.outputs;
    p.w_row = taps.step * columns_.taps * p.outputs;
    p.rows = taps.count;
    p.y_output = out_plane;
    p.lanes = lanes_ + (block + 1 == p_.blocks() ? p_.lanes : 0);
    p.floor = is_one_run_ ? floor_ : -std::numeric_limits<float>::infinity();
    const float* x =
        x_ + ((block * p_.groups + group) * channels_) * in_plane + taps.input * columns_.inputs * p_.lanes;
    const float* w = PackedTile(group, tile) + taps.first * columns_.taps * p.outputs;
    const int64_t at = (block * p_.groups + group) * outputs_ + first;
    float* y = y_ + at * out_plane + row * columns_.outputs * p_.lanes;
    const float* bias = bias_ + group * outputs_ + first;
    StartRest(p, y, bias);
    for (int64_t channel = 0; channel < channels_; channel += passes_channels_) {
      p.channels = std::min(passes_channels_, channels_ - channel);
      for (size_t r = 0; r < runs_.size(); ++r) {
        p.bias = channel == 0 && r == 0 ? bias : nullptr;
        RunTiles(runs_[r], p, x + channel * p.x_channel, w + channel * p.w_channel, y);
      }
    }
    if (!is_one_run_ && floor_ == 0.0F) Rectify(p, y);
  }

  // The positions of one run in tiles.
  void RunTiles(const Reachable& run, Product p, const float* x, const float* w, float* y) const {
    p.x_step = run.input_step * p_.lanes;
    p.x_tap = run.input_tap * p_.lanes;
    p.w_tap = run.tap_step * p.outputs;
    p.taps = run.taps;
    if (run.taps == 1) {  // rows of taps are the inner loop
      std::swap(p.rows, p.taps);
      p.x_tap = p.x_row;
      p.w_tap = p.w_row;
    }
    p.y_step = run.output_step * p_.lanes;
    p.w = w + run.first_tap * p.outputs;
    const int64_t parts = batch_lanes::PartsOf(run.count, functions_.most_positions(p.outputs));
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t begin = run.count * part / parts;
      p.positions = run.count * (part + 1) / parts - begin;
      p.x = x + run.input * p_.lanes + begin * p.x_step;
      p.y = y + run.output * p_.lanes + begin * p.y_step;
      functions_.multiply(p);
    }
  }

  // The first run begins with the bias; the positions it does not have begin here.
  void StartRest(const Product& p, float* y, const float* bias) const {
    if (is_one_run_) return;
    const Reachable none;
    const Reachable& run = runs_.empty() ? none : runs_[0];
    for (int64_t o = 0; o < p.outputs; ++o) {
      for (int64_t i = 0; i < columns_.outputs; ++i) {
        const int64_t from_run = i - run.output;
        if (from_run >= 0 && from_run % run.output_step == 0 && from_run / run.output_step < run.count) continue;
        float* to = y + o * p.y_output + i * p_.lanes;
        for (int64_t lane = 0; lane < p_.lanes; ++lane) to[lane] = bias[o] * p.lanes[lane] + 0.0F;
      }
    }
  }

  // With several runs a sum is complete only after the last of them, so the ReLU comes at the end.
  void Rectify(const Product& p, float* y) const {
    for (int64_t o = 0; o < p.outputs; ++o) {
      float* row = y + o * p.y_output;
      for (int64_t i = 0; i < columns_.outputs * p_.lanes; ++i) row[i] = row[i] < 0.0F ? 0.0F : row[i];
    }
  }

  batch_lanes::Problem p_;
  bool is_gradient_;
  bool has_bias_;
  const Functions& functions_;
  Axis columns_;
  std::vector<Reachable> runs_;
  std::vector<Taps> row_taps_;  // of every output row
  float floor_;
  int64_t height_ = 0;
  int64_t in_height_ = 0;
  int64_t window_ = 0;
  int64_t channels_ = 0;  // of a group, that are summed
  int64_t outputs_ = 0;   // of a group
  int64_t tiles_ = 0;     // of a group's outputs
  int64_t passes_channels_ = 0;
  bool is_one_run_ = false;
  std::string implementation_;
  const float* x_ = nullptr;
  const float* w_ = nullptr;
  float* y_ = nullptr;
  std::span<const float> plain_bias_;
  float* lanes_ = nullptr;
  float* packed_ = nullptr;
  float* bias_ = nullptr;
};

std::unique_ptr<Kernel> MakeForward(const KernelQuery& query) {
  const bool is_relu = query.node.attributes.String("activation") == "relu";
  return std::make_unique<BatchLanesKernel>(batch_lanes::ReadProblem(query), false, query.inputs.size() > 2, is_relu);
}

std::unique_ptr<Kernel> MakeGradient(const KernelQuery& query) {
  return std::make_unique<BatchLanesKernel>(batch_lanes::ReadProblem(query), true, false, false);
}

}  // namespace

KernelDef BatchLanesConvolution() {
  return {.name = "batch_lanes",
          .op = "convolution",
          .refuse = batch_lanes::Refuse,
          .propose = batch_lanes::Propose,
          .make = MakeForward,
          .turn = 4};
}

KernelDef BatchLanesConvolutionBackwardData() {
  return {.name = "batch_lanes",
          .op = "convolution_backward_data",
          .refuse = batch_lanes::Refuse,
          .propose = batch_lanes::Propose,
          .make = MakeGradient,
          .turn = 4};
}

}  // namespace moka
