// The weights' gradient of a convolution over channels-last images of bfloat16, by tiles of pairs (gemm.h): dw[k,r,s,c]
// sums dy[p,k] x[p at r,s; c] over all positions p of all images, so pairs are of positions. Rows of k and panels of c
// are packed for some hundred positions at a time. The work is cut into items (a part of the positions, a row of the
// kernel, a region of k and one of c) by the shape alone, and parts are added in order: no bit depends on threads.
#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "core/half_spans.h"
#include "core/text.h"
#include "core/threads/parallel.h"
#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cpu/matmul/gemm.h"
#include "layers/kernels/cpu/work_queue.h"
#include "layers/ops/geometry.h"

namespace moka {
namespace {

constexpr int64_t kFloat = sizeof(float);
constexpr int64_t kPositions = 512;    // packed at once
constexpr int64_t kStep = 32;          // of them interleaved at once: 16 words, what AMX takes
constexpr int64_t kMostOutputs = 256;  // of an item
constexpr int64_t kMostInputs = 256;   // likewise, of one tap; half of it of several
constexpr int64_t kWantedItems = 24;
constexpr int64_t kFewestInputs = 16;
constexpr int64_t kBiasParts = 16;    // of the positions, by which a bias's gradient is summed
constexpr int64_t kRowsInFloat = 32;  // of them, before their sum goes into double

int64_t Ceil(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Returns an item's inputs: more of one tap, as fewer items then pack the same rows of k again.
int64_t MostInputs(int64_t taps, const gemm::Tiles& tiles) {
  return std::max<int64_t>(kMostInputs / std::min<int64_t>(taps, 2) / tiles.columns, 1) * tiles.columns;
}

// Sizes, and how the work is cut.
struct WeightsPlan {
  int64_t images, inputs, height, width;  // of x
  int64_t outputs, rows, columns;         // of dy
  int64_t taps_down, taps_across;
  Ints stride, pad, dilation;
  const gemm::Tiles* tiles;
  int64_t output_regions, input_regions, parts;

  int64_t positions() const { return images * rows * columns; }
  int64_t most_inputs() const { return MostInputs(taps_across, *tiles); }
  int64_t taps() const { return taps_down * taps_across; }
  int64_t regions() const { return taps_down * output_regions * input_regions; }
  int64_t row_floats() const { return Ceil(inputs, tiles->columns) * tiles->columns; }
  int64_t part_floats() const { return taps() * outputs * row_floats(); }
  int64_t OutputBegin(int64_t region) const { return outputs * region / output_regions; }
  // Whole panels.
  int64_t InputBegin(int64_t region) const {
    return Ceil(inputs, tiles->columns) * region / input_regions * tiles->columns;
  }
  int64_t InputEnd(int64_t region) const { return std::min(inputs, InputBegin(region + 1)); }
  // Whole steps.
  int64_t PartBegin(int64_t part) const {
    return std::min(positions(), Ceil(positions(), kStep) * part / parts * kStep);
  }
  // A thread's scratch: rows of k, panels of c for each tap of a kernel's row, and a step's words.
  int64_t packed_rows() const { return kPositions / 2 * kMostOutputs; }
  int64_t packed_panels() const { return kPositions / 2 * taps_across * most_inputs(); }
  int64_t step_words() const { return kStep / 2 * kMostOutputs; }
  int64_t thread_floats() const { return packed_rows() + packed_panels() + step_words(); }
};

WeightsPlan MakeWeightsPlan(const KernelQuery& query) {
  const Shape& x = query.inputs[0].shape;
  const Shape& dy = query.inputs[1].shape;
  const Shape& dw = query.outputs[0].shape;
  const Geometry geometry = ConvolutionGeometry(query.node.op->name, query.node.attributes, dw);
  WeightsPlan plan{.images = x[0],
                   .inputs = x[1],
                   .height = x[2],
                   .width = x[3],
                   .outputs = dy[1],
                   .rows = dy[2],
                   .columns = dy[3],
                   .taps_down = dw[2],
                   .taps_across = dw[3],
                   .stride = geometry.stride,
                   .pad = geometry.pad_begin,
                   .dilation = geometry.dilation,
                   .tiles = gemm::PairTiles(kStep),
                   .output_regions = Ceil(dy[1], kMostOutputs),
                   .input_regions = Ceil(x[1], MostInputs(dw[3], *gemm::PairTiles(kStep))),
                   .parts = 1};
  const int64_t most = std::max<int64_t>(1, plan.positions() / (4 * kPositions));
  plan.parts = std::clamp<int64_t>(Ceil(kWantedItems, plan.regions()), 1, most);
  return plan;
}

class PairsWeights final : public BoundKernel {
 public:
  PairsWeights(const WeightsPlan& plan, std::span<const TensorType> results)
      : p_(plan),
        workers_(static_cast<int>(std::min<int64_t>(ThreadCount(), plan.parts * plan.regions()))),
        results_(results.begin(), results.end()),
        implementation_(plan.tiles->name) {}
  std::string_view implementation() const override { return implementation_; }
  int64_t scratch_bytes() const override {
    const int64_t bias_bytes = HasBias() ? kBiasParts * p_.outputs * static_cast<int64_t>(sizeof(double)) : 0;
    return (p_.parts * p_.part_floats() + workers_ * p_.thread_floats()) * kFloat + bias_bytes;
  }

  void Run() override {
    WorkQueue queue(p_.parts * p_.regions(), 1, workers_);
    ParallelFor(workers_, 1, [&](int64_t worker, int64_t, int) {
      float* const own = scratch<float>() + p_.parts * p_.part_floats() + worker * p_.thread_floats();
      for (int64_t begin = 0, end = 0; queue.Take(begin, end);) Sum(begin / p_.regions(), begin % p_.regions(), own);
    });
    ParallelFor(p_.outputs * p_.taps(), 1 + (1 << 14) / p_.inputs, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) Write(row);
    });
    if (!HasBias()) return;
    ParallelFor(kBiasParts, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t part = begin; part < end; ++part) SumBias(part);
    });
    WriteBias();
  }

 private:
  // The outputs, inputs and row of taps that an item packs and multiplies.
  struct Item {
    int64_t tap_row, output, outputs, input, inputs;
    int64_t panels(int64_t columns) const { return Ceil(inputs, columns); }
  };
  using Pixels = std::array<const uint16_t*, kPositions>;

  // In padding, and where there are no more positions. As long as what is read from any value of an item on.
  static const uint16_t* Zeros() {
    alignas(64) static constexpr std::array<uint16_t, 2 * std::max(kMostOutputs, kMostInputs)> zeros{};
    return zeros.data();
  }
  float* SumsAt(int64_t part, int64_t tap, int64_t output) const {
    return scratch<float>() + part * p_.part_floats() + (tap * p_.outputs + output) * p_.row_floats();
  }

  void Sum(int64_t part, int64_t region, float* own) const {
    const int64_t k = region / p_.input_regions % p_.output_regions;
    const int64_t c = region % p_.input_regions;
    const Item item{region / p_.input_regions / p_.output_regions, p_.OutputBegin(k),
                    p_.OutputBegin(k + 1) - p_.OutputBegin(k), p_.InputBegin(c), p_.InputEnd(c) - p_.InputBegin(c)};
    const int64_t end = p_.PartBegin(part + 1);
    const gemm::TileScope scope(*p_.tiles);
    for (int64_t begin = p_.PartBegin(part); begin < end; begin += kPositions) {
      const int64_t count = std::min(kPositions, end - begin);
      PackOutputs(item, begin, count, own);
      float* const panels = own + p_.packed_rows();
      const int64_t depth = Ceil(count, kStep) * kStep / 2;
      for (int64_t s = 0; s < p_.taps_across; ++s) {
        float* const of_tap = panels + s * item.panels(p_.tiles->columns) * p_.tiles->columns * depth;
        PackInputs(item, s, begin, count, of_tap);
        Multiply(item, part, item.tap_row * p_.taps_across + s, depth, begin > p_.PartBegin(part), own, of_tap);
      }
    }
  }

  // All but the last are whole.
  int64_t TileCount(const Item& item) const { return Ceil(item.outputs, p_.tiles->rows); }
  int64_t TileBegin(const Item& item, int64_t tile) const {
    return std::min<int64_t>(item.outputs, tile * p_.tiles->rows);
  }

  // Tiles [depth][rows of the tile] one behind the other.
  void PackOutputs(const Item& item, int64_t begin, int64_t count, float* to) const {
    const auto* const dy = in<uint16_t>(1) + begin * p_.outputs + item.output;
    float* const words = to + p_.packed_rows() + p_.packed_panels();
    const int64_t depth = Ceil(count, kStep) * kStep / 2;
    Pixels pixels;
    for (int64_t i = 0; i < 2 * depth; ++i) pixels[static_cast<size_t>(i)] = i < count ? dy + i * p_.outputs : Zeros();
    for (int64_t step = 0; step < 2 * depth; step += kStep) {
      p_.tiles->interleave({pixels.data() + step, kStep / 2, 0, item.outputs, words, item.outputs});
      for (int64_t tile = 0; tile < TileCount(item); ++tile) {
        const int64_t first = TileBegin(item, tile);
        const int64_t rows = TileBegin(item, tile + 1) - first;
        p_.tiles->pack_rows({words + first, 1, item.outputs}, rows, kStep / 2, to + first * depth + step / 2 * rows);
      }
    }
  }

  // The item's inputs of the pixels that a tap meets at the positions from `begin` on.
  void PixelsOf(const Item& item, int64_t tap, int64_t begin, int64_t count, Pixels& pixels) const {
    int64_t column = begin % p_.columns;
    int64_t row = begin / p_.columns % p_.rows;
    int64_t image = begin / p_.columns / p_.rows;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t y = row * p_.stride[0] - p_.pad[0] + item.tap_row * p_.dilation[0];
      const int64_t x = column * p_.stride[1] - p_.pad[1] + tap * p_.dilation[1];
      const bool is_inside = y >= 0 && y < p_.height && x >= 0 && x < p_.width;
      const int64_t pixel = (image * p_.height + y) * p_.width + x;
      pixels[static_cast<size_t>(i)] = is_inside ? in<uint16_t>(0) + pixel * p_.inputs + item.input : Zeros();
      if (++column < p_.columns) continue;
      column = 0;
      if (++row < p_.rows) continue;
      row = 0;
      ++image;
    }
    std::fill(pixels.begin() + count, pixels.end(), Zeros());
  }

  // Panels [depth][columns].
  void PackInputs(const Item& item, int64_t tap, int64_t begin, int64_t count, float* to) const {
    Pixels pixels;
    PixelsOf(item, tap, begin, count, pixels);
    const int64_t width = p_.tiles->columns;
    const int64_t depth = Ceil(count, kStep) * kStep / 2;
    for (int64_t panel = 0; panel < item.panels(width); ++panel, to += depth * width) {
      const int64_t first = panel * width;
      p_.tiles->interleave({pixels.data(), depth, first, std::min(width, item.inputs - first), to, width});
    }
  }

  void Multiply(const Item& item, int64_t part, int64_t tap, int64_t depth, bool adds, const float* rows,
                const float* panels) const {
    const int64_t width = p_.tiles->columns;
    for (int64_t tile = 0; tile < TileCount(item); ++tile) {
      const int64_t first = TileBegin(item, tile);
      for (int64_t panel = 0; panel < item.panels(width); ++panel) {
        p_.tiles->run({.depth = depth,
                       .a = rows + first * depth,
                       .b = panels + panel * width * depth,
                       .c = SumsAt(part, tap, item.output + first) + item.input + panel * width,
                       .c_stride = p_.row_floats(),
                       .adds = adds},
                      static_cast<int>(TileBegin(item, tile + 1) - first));
      }
    }
  }

  // Row k, r, s of dw: its parts in order.
  void Write(int64_t row) const {
    float* const sums = SumsAt(0, row % p_.taps(), row / p_.taps());
    for (int64_t part = 1; part < p_.parts; ++part) {
      const float* const more = sums + part * p_.part_floats();
      for (int64_t c = 0; c < p_.inputs; ++c) sums[c] += more[c];
    }
    WriteResult(0, sums, row * p_.inputs, p_.inputs);
  }

  void WriteResult(size_t result, const float* values, int64_t at, int64_t n) const {
    if (results_[result].dtype == DType::kFloat32) {
      std::copy_n(values, n, out<float>(result) + at);
    } else {
      Narrow(results_[result].dtype, values, n, out<uint16_t>(result) + at);
    }
  }

  bool HasBias() const { return results_.size() > 1; }
  double* BiasSums(int64_t part) const {
    const int64_t begin = (p_.parts * p_.part_floats() + workers_ * p_.thread_floats()) * kFloat;
    return scratch<double>(begin) + part * p_.outputs;
  }

  // The sums of dy over a part of the positions, in blocks of outputs that stay in registers and the first level.
  void SumBias(int64_t part) const {
    const int64_t end = p_.positions() * (part + 1) / kBiasParts;
    constexpr int64_t kBlock = 64;
    for (int64_t k = 0; k < p_.outputs; k += kBlock) {
      const int64_t n = std::min(kBlock, p_.outputs - k);
      std::array<double, kBlock> total{};
      for (int64_t row = p_.positions() * part / kBiasParts; row < end;) {
        std::array<float, kBlock> few{};
        for (const int64_t stop = std::min(end, row + kRowsInFloat); row < stop; ++row) {
          std::array<float, kBlock> values;
          Widen(DType::kBFloat16, in<uint16_t>(1) + row * p_.outputs + k, n, values.data());
          for (size_t i = 0; i < static_cast<size_t>(n); ++i) few[i] += values[i];
        }
        for (size_t i = 0; i < static_cast<size_t>(n); ++i) total[i] += double{few[i]};
      }
      std::copy_n(total.begin(), n, BiasSums(part) + k);
    }
  }

  void WriteBias() const {
    for (int64_t k = 0; k < p_.outputs; ++k) {
      double total = 0;
      for (int64_t part = 0; part < kBiasParts; ++part) total += BiasSums(part)[k];
      const auto rounded = static_cast<float>(total);
      WriteResult(1, &rounded, k, 1);
    }
  }

  const WeightsPlan p_;
  const int workers_;
  const std::vector<TensorType> results_;
  const std::string implementation_;
};

std::string RefuseShapes(const KernelQuery& query) {
  const Shape& dw = query.outputs[0].shape;
  if (query.inputs[0].dtype != DType::kBFloat16) {
    return StrCat("it multiplies bfloat16, not ", NameOf(query.inputs[0].dtype));
  }
  if (gemm::PairTiles(kStep) == nullptr) return "the processor does not multiply pairs of bfloat16";
  if (dw.rank() != 4) return StrCat("only images, found weights ", dw.ToString());
  if (query.node.attributes.Int("groups") != 1) return "the convolution has groups";
  if (dw[1] < kFewestInputs || dw[0] < kFewestInputs) return StrCat("few channels: ", dw.ToString());
  if (query.inputs[0].shape.Count() == 0 || query.inputs[1].shape.Count() == 0) return "no images";
  for (const TensorType& result : query.outputs) {
    if (result.dtype != DType::kBFloat16 && result.dtype != DType::kFloat32)
      return "a gradient is " + result.ToString();
  }
  return {};
}

// One tap's dw lies alike plain and channels last.
bool LiesChannelsLast(const TensorType& type) {
  return type.layout == ChannelsLast(4) || (type.layout.is_plain() && type.shape.Count(2, 4) == 1);
}

std::string Refuse(const KernelQuery& query) {
  if (std::string reason = RefuseShapes(query); !reason.empty()) return reason;
  for (const TensorType& type : {query.inputs[0], query.inputs[1], query.outputs[0]}) {
    if (!LiesChannelsLast(type)) return StrCat("only channels last, found ", type.ToString());
  }
  if (query.outputs.size() > 1 && !query.outputs[1].layout.is_plain()) return "the bias's gradient is not plain";
  return {};
}

}  // namespace

KernelDef PairsConvolutionBackwardWeights() {
  return {.name = "pairs",
          .op = "convolution_backward_weights",
          .refuse = Refuse,
          .propose = [](const KernelQuery& query) -> std::optional<LayoutProposal> {
            if (!RefuseShapes(query).empty()) return {};
            LayoutProposal proposal{{ChannelsLast(4), ChannelsLast(4)}, std::vector<Layout>(query.outputs.size())};
            proposal.outputs[0] = ChannelsLast(4);
            return proposal;
          },
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            return std::make_unique<PairsWeights>(MakeWeightsPlan(query), query.outputs);
          },
          .turn = 2};
}

}  // namespace moka
