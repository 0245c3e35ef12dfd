// Convolutions of one tap over channels-last images of bfloat16, and their gradients of x, by tiles of pairs (gemm.h):
// matrix products y [pixels, columns] = a [pixels, depth] b [depth, columns]. b's panels are packed first, by all
// threads; then threads take some tiles of pixels at a time, pack them and multiply, a block of the depth after the
// other, so that a tile's block stays in the first level of cache.
#include <algorithm>
#include <array>
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
constexpr int64_t kDepth = 256;  // words multiplied at once
constexpr int64_t kGroup = 4;    // tiles of pixels that share a panel's block
constexpr int64_t kFewestColumns = 16;

int64_t Ceil(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct PointwisePlan {
  int64_t pixels;
  int64_t depth;    // values
  int64_t columns;  // of y
  const gemm::Tiles* tiles;
  bool is_gradient;  // b is w, else w^T
  bool has_bias, has_summand, relu;

  int64_t words() const { return depth / 2; }
  int64_t panels() const { return Ceil(columns, tiles->columns); }
  int64_t panel_floats() const { return words() * tiles->columns; }
  int64_t tile_count() const { return Ceil(pixels, tiles->rows); }
  int64_t TileBegin(int64_t tile) const { return std::min(pixels, tile * tiles->rows); }  // all but the last are whole
  // A thread's scratch: packed tiles of a group, and their sums.
  int64_t packed_floats() const { return kGroup * tiles->rows * words(); }
  int64_t sums_floats() const { return kGroup * tiles->rows * panels() * tiles->columns; }
};

PointwisePlan MakePointwisePlan(const KernelQuery& query) {
  const bool is_gradient = query.node.op->name == "convolution_backward_data";
  const Shape& y = query.outputs[0].shape;
  const Shape& a = query.inputs[0].shape;
  const bool has_summand = !is_gradient && query.node.attributes.Bool("sum");
  return {.pixels = y[0] * y[2] * y[3],
          .depth = a[1],
          .columns = y[1],
          .tiles = gemm::PairTiles(a[1]),
          .is_gradient = is_gradient,
          .has_bias = query.inputs.size() == (has_summand ? 4U : 3U),
          .has_summand = has_summand,
          .relu = !is_gradient && query.node.attributes.String("activation") == "relu"};
}

class PairsPointwise final : public BoundKernel {
 public:
  PairsPointwise(const PointwisePlan& plan, DType bias)
      : p_(plan),
        workers_(static_cast<int>(std::min<int64_t>(ThreadCount(), Ceil(plan.tile_count(), kGroup)))),
        bias_(bias),
        implementation_(plan.tiles->name) {}
  std::string_view implementation() const override { return implementation_; }
  int64_t scratch_bytes() const override {
    return (SharedFloats() + workers_ * (p_.packed_floats() + p_.sums_floats())) * kFloat;
  }

  void Run() override {
    if (p_.has_bias && bias_ != DType::kFloat32) Widen(bias_, in<void>(2), p_.columns, Bias());
    ParallelFor(p_.panels(), 1 + (1 << 14) / p_.panel_floats(), [this](int64_t begin, int64_t end, int) {
      for (int64_t panel = begin; panel < end; ++panel) PackPanel(panel);
    });
    WorkQueue queue(Ceil(p_.tile_count(), kGroup), 16, workers_);
    ParallelFor(workers_, 1, [&](int64_t worker, int64_t, int) {
      float* const own = scratch<float>() + SharedFloats() + worker * (p_.packed_floats() + p_.sums_floats());
      const gemm::TileScope scope(*p_.tiles);
      for (int64_t begin = 0, end = 0; queue.Take(begin, end);) {
        for (int64_t group = begin; group < end; ++group) {
          MultiplyGroup(group * kGroup, std::min(p_.tile_count(), (group + 1) * kGroup), own);
        }
      }
    });
  }

 private:
  // The panels, and a bias of another type as floats.
  int64_t BiasFloats() const { return p_.has_bias && bias_ != DType::kFloat32 ? Ceil(p_.columns, 16) * 16 : 0; }
  int64_t SharedFloats() const { return p_.panels() * p_.panel_floats() + BiasFloats(); }
  float* Panel(int64_t panel) const { return scratch<float>() + panel * p_.panel_floats(); }
  float* Bias() const { return Panel(p_.panels()); }

  // A panel of w^T is words of w's rows, since these are the depth; one of w pairs its rows.
  void PackPanel(int64_t panel) const {
    const int64_t width = p_.tiles->columns;
    const int64_t first = panel * width;
    const int64_t n = std::min(width, p_.columns - first);
    if (!p_.is_gradient) {
      const auto* const words = in<float>(1) + first * p_.words();
      return p_.tiles->pack_panels({words, 1, p_.words()}, p_.words(), n, Panel(panel));
    }
    gemm::PackPairs(*p_.tiles, in<uint16_t>(1) + first, p_.columns, p_.depth, n, Panel(panel));
  }

  void MultiplyGroup(int64_t begin, int64_t end, float* own) const {
    const int64_t first = p_.TileBegin(begin);
    const int64_t width = p_.tiles->columns;
    float* const sums = own + p_.packed_floats();
    for (int64_t k = 0; k < p_.words(); k += kDepth) {
      const int64_t depth = std::min(kDepth, p_.words() - k);
      for (int64_t panel = 0; panel < p_.panels(); ++panel) {
        for (int64_t tile = begin; tile < end; ++tile) {
          const int64_t row = p_.TileBegin(tile);
          const int64_t rows = p_.TileBegin(tile + 1) - row;
          float* const packed = own + (row - first) * p_.words() + rows * k;
          if (panel == 0) {
            p_.tiles->pack_rows({in<float>(0) + row * p_.words() + k, p_.words(), 1}, rows, depth, packed);
          }
          float* const c = sums + (row - first) * p_.panels() * width + panel * rows * width;
          p_.tiles->run(
              {.depth = depth, .a = packed, .b = Panel(panel) + k * width, .c = c, .c_stride = width, .adds = k > 0},
              static_cast<int>(rows));
          if (k + depth == p_.words()) FinishTile(panel * width, row, rows, c);
        }
      }
    }
  }

  void FinishTile(int64_t column, int64_t row, int64_t rows, const float* sums) const {
    const int64_t at = row * p_.columns + column;
    const float* bias = nullptr;
    if (p_.has_bias) bias = (bias_ == DType::kFloat32 ? in<float>(2) : Bias()) + column;
    p_.tiles->finish({.sums = sums,
                      .sums_stride = p_.tiles->columns,
                      .rows = rows,
                      .n = std::min<int64_t>(p_.tiles->columns, p_.columns - column),
                      .to = out<uint16_t>(0) + at,
                      .stride = p_.columns,
                      .bias = bias,
                      .summand = p_.has_summand ? in<uint16_t>(input_count() - 1) + at : nullptr,
                      .relu = p_.relu});
  }

  const PointwisePlan p_;
  const int workers_;
  const DType bias_;  // of the bias, if there is one
  const std::string implementation_;
};

std::string RefuseShapes(const KernelQuery& query) {
  const Shape& w = query.inputs[1].shape;
  for (const TensorType& type : {query.inputs[0], query.inputs[1], query.outputs[0]}) {
    if (type.dtype != DType::kBFloat16) return StrCat("it multiplies bfloat16, not ", NameOf(type.dtype));
  }
  if (w.rank() != 4 || w.Count(2, 4) != 1) return StrCat("only windows of one tap, found weights ", w.ToString());
  const Geometry geometry = ConvolutionGeometry(query.node.op->name, query.node.attributes, w);
  if (geometry.stride != Ints{1, 1}) return "only stride 1";
  if (geometry.pad_begin != Ints{0, 0} || geometry.pad_end != Ints{0, 0}) return "only without padding";
  if (query.node.attributes.Int("groups") != 1) return "the convolution has groups";
  if (query.outputs[0].shape[1] < kFewestColumns) return StrCat("few channels: ", w.ToString());
  if (query.inputs[0].shape.Count() == 0) return "no images";
  if (gemm::PairTiles(query.inputs[0].shape[1]) == nullptr) {
    return StrCat("the processor does not multiply pairs of bfloat16, or not ", query.inputs[0].shape[1], " of them");
  }
  return {};
}

// Images lie channels last; weights of one tap lie alike plain and channels last. A bias is plain.
bool LiesAsWanted(const TensorType& type) {
  if (type.shape.rank() != 4) return type.layout.is_plain();
  return type.layout == ChannelsLast(4) || (type.layout.is_plain() && type.shape.Count(2, 4) == 1);
}

std::string Refuse(const KernelQuery& query) {
  if (std::string reason = RefuseShapes(query); !reason.empty()) return reason;
  for (const TensorType& type : query.inputs) {
    if (!LiesAsWanted(type)) return StrCat("only channels last, found ", type.ToString());
  }
  if (!LiesAsWanted(query.outputs[0])) return StrCat("only channels last, found ", query.outputs[0].ToString());
  return {};
}

std::optional<LayoutProposal> Propose(const KernelQuery& query) {
  if (!RefuseShapes(query).empty()) return {};
  LayoutProposal proposal{std::vector<Layout>(query.inputs.size()), {ChannelsLast(4)}};
  for (size_t i = 0; i < query.inputs.size(); ++i) {
    if (i != 1 && query.inputs[i].shape.rank() == 4) proposal.inputs[i] = ChannelsLast(4);
  }
  return proposal;
}

std::unique_ptr<Kernel> Make(const KernelQuery& query) {
  const PointwisePlan plan = MakePointwisePlan(query);
  return std::make_unique<PairsPointwise>(plan, plan.has_bias ? query.inputs[2].dtype : DType::kFloat32);
}

KernelDef Row(const char* op) {
  return {.name = "pairs", .op = op, .refuse = Refuse, .propose = Propose, .make = Make, .turn = 2};
}

}  // namespace

KernelDef PairsConvolution() { return Row("convolution"); }
KernelDef PairsConvolutionBackwardData() { return Row("convolution_backward_data"); }

}  // namespace moka
