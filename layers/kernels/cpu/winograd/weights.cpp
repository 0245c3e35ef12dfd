// The weights' gradient of a 3x3 convolution with stride 1 by Winograd's algorithm: dw = G^T [sum over tiles of
// (B^T x B) . (A dy A^T)] G with tiles of 6x6 of x and 4x4 of dy (Lavin and Gray, "Fast Algorithms for Convolutional
// Neural Networks", 2016): a quarter of the multiplications, done as 36 matrix products [C x tiles] [tiles x K].
// A 4x4 convolution with stride 2 is one of 2x2 with stride 1 over the four phases of x (the parities of row and
// column), each of which owns every second tap: tiles of 5x5 of a phase, and 25 products of 4C rows.
//
// The sums over tiles (36*C*K floats, 38 MB for 512 x 512 channels) and the transformed tiles (2.25 times x) leave the
// caches, so four orders of work are used, each fixed by the shape and the number of threads:
//   private: few channels. A thread transforms a few of its own tiles at a time and adds them into its own sums.
//   parts:   few tiles too. A thread has a part of C x K and carries all tiles through all steps, a small block of sums
//            at a time: tiles that others transform as well cost less than others' sums, which come from their caches.
//   shared:  all threads transform a chunk of tiles, then each multiplies at some points of the transformed tile.
//   whole:   many channels on small planes. The tiles are one chunk; a thread multiplies a block of C x K at all
//            points and transforms it back at once, so that the sums never leave its cache.
// Every element of a sum has a fixed order of additions: over the tiles in registers, then over blocks of tiles, which
// keeps the rounding error of planes with many tiles small.
#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "core/half_spans.h"
#include "core/text.h"
#include "core/threads/parallel.h"
#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cpu/winograd/weights_plan.h"
#include "layers/ops/geometry.h"

namespace moka {
namespace {

using winograd::BlockOrder;
using winograd::GradientMode;
using winograd::GradientPlan;
using winograd::GradientProblem;
using winograd::kSegment;
using winograd::Product;
using winograd::TiledPlane;
using winograd::TileRange;
using winograd::TilesAt;
using winograd::WeightsLanes;
using winograd::WeightsLanesFor;
using winograd::WeightsLanesOf;

constexpr int64_t kTilesInRegisters = 64;  // summed before they are added to the sums in memory

std::optional<BlockOrder> OrderOf(const TensorType& dw, int64_t lanes) {
  const std::string name = dw.layout.Name(4);
  if (dw.layout.is_plain()) return BlockOrder::kPlain;
  if (name == StrCat("ABcd", lanes, "b", lanes, "a")) return BlockOrder::kOutputsInner;
  if (name == StrCat("ABcd", lanes, "a", lanes, "b")) return BlockOrder::kInputsInner;
  return {};
}

// Returns the taps of the products: of a window of 4 every phase has every second one.
int TapsOf(const Shape& dw) { return dw[3] == 3 ? 3 : 2; }

TiledPlane PlaneOf(const Shape& shape, int64_t lanes) {
  TiledPlane plane;
  plane.height = shape[2];
  plane.width = shape[3];
  plane.image_stride = CeilDiv(shape[1], lanes).value() * lanes * shape[2] * shape[3];
  return plane;
}

// Narrow tiles where segments are whole images that have whole tiles too; they are most of what padding costs.
void CutIntoTiles(const Shape& dy, GradientProblem& p) {
  const int64_t tiles = (CeilDiv(dy[2], winograd::kTile) * CeilDiv(dy[3], winograd::kTile)).value();
  const bool narrow = p.lanes->taps == 3 && kSegment % tiles == 0 && std::min(dy[2], dy[3]) >= int64_t{winograd::kTile};
  p.kinds = winograd::KindsOf(dy[2], dy[3], narrow);
  p.unit = narrow ? tiles : 1;
  p.tiles = dy[0] * tiles;
}

// Requires: Refuse said "".
GradientProblem ReadProblem(const KernelQuery& query) {
  const Shape& x = query.inputs[0].shape;
  const Shape& dy = query.inputs[1].shape;
  GradientProblem p;
  p.dw = query.outputs[0].shape;
  p.lanes = WeightsLanesOf(query.inputs[0], TapsOf(p.dw));
  p.phases = p.window() == 3 ? 1 : 4;
  p.order = *OrderOf(query.outputs[0], p.L());
  p.bias = query.outputs.size() > 1;
  p.groups = query.node.attributes.Int("groups");
  p.x = PlaneOf(x, p.L());
  p.dy = PlaneOf(dy, p.L());
  const Geometry geometry = ConvolutionGeometry(query.node.op->name, query.node.attributes, p.dw);
  p.x.pad_top = geometry.pad_begin[0];
  p.x.pad_left = geometry.pad_begin[1];
  p.x.step = geometry.stride[0];
  CutIntoTiles(dy, p);
  p.c_panels = CeilDiv(p.dw[1], p.L()).value() * p.phases;
  p.k_panels = CeilDiv(dy[1] / p.groups, p.L()).value();
  return p;
}

// Groups run one after another, each with all threads: their blocks lie apart.
class WinogradWeights final : public BoundKernel {
 public:
  WinogradWeights(const GradientProblem& problem, const GradientPlan& plan, std::span<const TensorType> outputs)
      : p_(problem),
        plan_(plan),
        output_types_(outputs.begin(), outputs.end()),
        dw_floats_(IsHalf(output_types_[0].dtype) ? output_types_[0].StoredCount() : 0),
        db_floats_(problem.bias && IsHalf(output_types_[1].dtype) ? output_types_[1].StoredCount() : 0),
        implementation_(StrCat("f", problem.lanes->taps, "x4:", problem.L() == 16 ? "avx512" : "avx2")) {}
  int64_t scratch_bytes() const override { return plan_.bytes + 2 * kLine + (dw_floats_ + db_floats_) * kFloat; }
  std::string_view implementation() const override { return implementation_; }

  void Run() override {
    for (group_ = 0; group_ < p_.groups; ++group_) {
      switch (plan_.mode) {
        case GradientMode::kPrivate: RunPrivate(); break;
        case GradientMode::kParts: RunParts(); break;
        case GradientMode::kShared: RunShared(); break;
        case GradientMode::kWhole: RunWhole(); break;
      }
      if (p_.bias) WriteBias();
    }
    RoundTo(0, dw_floats_);
    RoundTo(1, db_floats_);
  }

 private:
  static constexpr int64_t kLine = 64;
  static constexpr int64_t kFloat = sizeof(float);
  static constexpr int64_t kGrain = 8192;  // elements worth a thread

  // The sums of an output in float: the output itself, or scratch where it is half.
  float* ResultOf(size_t output) const {
    if ((output == 0 ? dw_floats_ : db_floats_) == 0) return out<float>(output);
    const int64_t begin = RoundUp(plan_.bytes, kLine).value();
    return scratch<float>(output == 0 ? begin : begin + RoundUp(dw_floats_ * kFloat, kLine).value());
  }
  void RoundTo(size_t output, int64_t floats) const {
    ParallelFor(floats, kGrain, [&](int64_t begin, int64_t end, int) {
      Narrow(output_types_[output].dtype, ResultOf(output) + begin, end - begin, out<uint16_t>(output) + begin);
    });
  }
  // Element `at` of x or dy.
  const void* Element(size_t input, int64_t at) const { return in<std::byte>(input) + at * p_.lanes->element_bytes; }

  float* v(int64_t copy) const { return scratch<float>(plan_.v + copy * plan_.copy_bytes); }
  float* m(int64_t copy) const { return scratch<float>(plan_.m + copy * plan_.copy_bytes); }
  float* u(int64_t copy) const { return scratch<float>(plan_.u + copy * plan_.copy_bytes); }
  float* sums() const { return scratch<float>(plan_.sums); }

  // Calls f(begin, end, slot) for a static split of [0, count) into at most plan_.threads slots.
  template <class F>
  void Split(int64_t count, F&& f) const {
    const int64_t slots = std::min(plan_.threads, count);
    ParallelFor(slots, 1, [&](int64_t first, int64_t last, int) {
      for (int64_t slot = first; slot < last; ++slot) f(count * slot / slots, count * (slot + 1) / slots, slot);
    });
  }

  // One segment of a panel (of c, then of k) to copy's v or m, which are of the tiles of `chunk`. with_sums: those of
  // dy for the bias are written, if there is one.
  // A phase of x begins one row or column later, which is a pad of one less.
  void Transform(int64_t panel, int64_t first, const TileRange& chunk, int64_t copy, bool with_sums) const {
    if (panel < p_.c_panels) {
      TiledPlane plane = p_.x;
      const int64_t block = (group_ * p_.c_panels + panel) / p_.phases;
      plane.data = Element(0, block * plane.height * plane.width * p_.L());
      plane.pad_top -= panel % p_.phases / 2;
      plane.pad_left -= panel % p_.phases % 2;
      float* to = v(copy) + panel * plan_.chunk * p_.L();
      TransformKinds(p_.lanes->transform_x, plane, first, chunk, to, plan_.v_stride, nullptr);
      return;
    }
    const int64_t k = panel - p_.c_panels;
    TiledPlane plane = p_.dy;
    plane.data = Element(1, (group_ * p_.k_panels + k) * plane.height * plane.width * p_.L());
    float* to = m(copy) + k * plan_.chunk * p_.L();
    if (!p_.bias || !with_sums) {
      TransformKinds(p_.lanes->transform_dy, plane, first, chunk, to, plan_.m_stride, nullptr);
      return;
    }
    float* sum = sums() + (first / kSegment * p_.k_panels + k) * p_.L();
    std::fill_n(sum, p_.L(), 0.0F);
    TransformKinds(p_.lanes->transform_and_sum_dy, plane, first, chunk, to, plan_.m_stride, sum);
  }

  // The segment's tiles of each kind to their places among the chunk's.
  void TransformKinds(WeightsLanes::Transform transform, TiledPlane& plane, int64_t first, const TileRange& chunk,
                      float* to, int64_t stride, float* sum) const {
    const int64_t last = std::min(p_.tiles, first + kSegment);
    int64_t before = 0;
    for (size_t k = 0; k < winograd::kKinds; ++k) {
      const int64_t share = p_.share(k);
      if (share == 0) continue;
      plane.kind = p_.kinds[k];
      const int64_t at = before + (first - chunk.begin) / p_.unit * share;
      transform(plane, first / p_.unit * share, last / p_.unit * share, to + at * p_.L(), stride, sum);
      before += chunk.size() / p_.unit * share;
    }
  }

  // All threads transform the chunk's tiles from `begin` on.
  void TransformChunk(int64_t begin, int64_t end) const {
    const int64_t panels = p_.c_panels + p_.k_panels;
    Split(CeilDiv(end - begin, kSegment).value() * panels, [&](int64_t first, int64_t last, int64_t) {
      for (int64_t i = first; i < last; ++i) {
        Transform(i % panels, begin + i / panels * kSegment, {begin, end}, 0, true);
      }
    });
  }

  // Adds copy's block from panels c, k at a point, of a chunk of so many tiles, to u, or begins with it.
  void Multiply(int64_t point, int64_t copy, int64_t c, int64_t k, int64_t tiles, float* u_block, int64_t u_row,
                bool accumulate) const {
    const TileRange range = TilesAt(p_, point, tiles);
    Product product;
    product.v = v(copy) + point * plan_.v_stride + (c * plan_.chunk + range.begin) * p_.L();
    product.m = m(copy) + point * plan_.m_stride + (k * plan_.chunk + range.begin) * p_.L();
    product.u = u_block + point * plan_.u_stride;
    product.v_stride = product.m_stride = plan_.chunk * p_.L();
    product.u_stride = u_row * p_.L() * p_.L();
    product.u_k_stride = p_.L() * p_.L();
    product.c_panels = std::min(plan_.c_block, p_.c_panels - c);
    product.k_panels = std::min(plan_.k_block, p_.k_panels - k);
    const int64_t parts = CeilDiv(range.size(), kTilesInRegisters).value();
    for (int64_t part = 0; part < parts; ++part) {
      product.tiles = range.size() * (part + 1) / parts - range.size() * part / parts;
      product.accumulate = accumulate || part > 0;
      p_.lanes->multiply(product);
      product.v += product.tiles * p_.L();
      product.m += product.tiles * p_.L();
    }
  }

  // The segments' sums in their order.
  void WriteBias() const {
    const int64_t outputs = p_.dw[0] / p_.groups;
    const int64_t row = p_.k_panels * p_.L();
    float* db = ResultOf(1) + group_ * outputs;
    for (int64_t k = 0; k < outputs; ++k) {
      double total = 0;
      for (int64_t segment = 0; segment < p_.segments(); ++segment) total += double{sums()[segment * row + k]};
      db[k] = static_cast<float>(total);
    }
  }

  // dw of one block from its sums.
  void WriteBlock(const float* from, int64_t copies, int64_t copy_stride, int64_t c, int64_t k, int64_t slot) const {
    const int64_t block = p_.L() * p_.L();
    const int64_t taps = p_.window() * p_.window();
    const int64_t phase = c % p_.phases;
    const int64_t step = p_.x.step;
    c /= p_.phases;
    const int64_t panel = group_ * p_.k_panels + k;
    float* dw = ResultOf(0);
    if (p_.order != BlockOrder::kPlain) dw += (panel * p_.c_panels / p_.phases + c) * taps * block;
    const int64_t first = phase / 2 * p_.window() + phase % 2;
    if (p_.order == BlockOrder::kOutputsInner) {
      p_.lanes->inverse(from, plan_.u_stride, copies, copy_stride, dw + first * block, step * p_.window() * block,
                        step * block);
      return;
    }
    const int64_t edge = p_.lanes->taps;
    float* rows = scratch<float>(plan_.rows) + slot * edge * edge * block;
    p_.lanes->inverse(from, plan_.u_stride, copies, copy_stride, rows, edge * block, block);
    for (int64_t i = 0; i < edge * edge; ++i, rows += block) {
      WriteTap(rows, first + step * (i / edge * p_.window() + i % edge), c, panel, dw);
    }
  }

  // One tap of a block [c][k]. dw: the block, or if it is plain, all.
  void WriteTap(const float* rows, int64_t tap, int64_t c, int64_t panel, float* dw) const {
    const int64_t lanes = p_.L();
    const int64_t taps = p_.window() * p_.window();
    if (p_.order == BlockOrder::kInputsInner) {
      for (int64_t a = 0; a < lanes; ++a) {
        for (int64_t b = 0; b < lanes; ++b) dw[(tap * lanes + a) * lanes + b] = rows[b * lanes + a];
      }
      return;
    }
    // A group of several blocks is whole blocks, so panels count its channels right.
    const int64_t c_end = std::min(lanes, p_.dw[1] - c * lanes);
    const int64_t k_end = std::min(lanes, p_.dw[0] - panel * lanes);
    for (int64_t a = 0; a < k_end; ++a) {
      float* to = dw + ((panel * lanes + a) * p_.dw[1] + c * lanes) * taps + tap;
      for (int64_t b = 0; b < c_end; ++b) to[b * taps] = rows[b * lanes + a];
    }
  }

  // Blocks of C x K are shared out: a block's copies are added, transformed back and written by one thread.
  void WriteSums(int64_t copies) const {
    Split(p_.c_panels * p_.k_panels, [&](int64_t first, int64_t last, int64_t slot) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t c = i / p_.k_panels;
        const int64_t k = i % p_.k_panels;
        WriteBlock(u(0) + (c * p_.k_panels + k) * p_.L() * p_.L(), copies, plan_.copy_bytes / int64_t{sizeof(float)}, c,
                   k, slot);
      }
    });
  }

  // Each slot owns its v, m and u. After the split, WriteSums adds the slots' sums in their order while it transforms
  // them back.
  void RunPrivate() const {
    const int64_t panels = p_.c_panels + p_.k_panels;
    Split(p_.segments(), [&](int64_t first, int64_t last, int64_t slot) {
      const int64_t stop = std::min(p_.tiles, last * kSegment);
      for (int64_t begin = first * kSegment; begin < stop; begin += plan_.chunk) {
        const int64_t end = std::min(stop, begin + plan_.chunk);
        for (int64_t panel = 0; panel < panels; ++panel) {
          for (int64_t tile = begin; tile < end; tile += kSegment) Transform(panel, tile, {begin, end}, slot, true);
        }
        for (int64_t point = 0; point < p_.points(); ++point) {
          Multiply(point, slot, 0, 0, end - begin, u(slot), p_.k_panels, begin > first * kSegment);
        }
      }
    });
    WriteSums(plan_.threads);
  }

  int64_t c_blocks() const { return CeilDiv(p_.c_panels, plan_.c_block).value(); }
  int64_t k_blocks() const { return CeilDiv(p_.k_panels, plan_.k_block).value(); }

  // Returns the first item of a thread, of points by so many blocks: all threads multiply equally much of a chunk.
  int64_t ItemOf(int64_t thread, int64_t blocks, int64_t tiles) const {
    int64_t all = 0;
    for (int64_t point = 0; point < p_.points(); ++point) all += TilesAt(p_, point, tiles).size() * blocks;
    int64_t before = all * thread / plan_.threads;
    for (int64_t point = 0; point < p_.points(); ++point) {
      const int64_t size = TilesAt(p_, point, tiles).size();
      if (before < size * blocks) return point * blocks + before / size;
      before -= size * blocks;
    }
    return p_.points() * blocks;
  }

  // Two phases a chunk with a barrier between them: all threads transform, then each multiplies at its own points and
  // blocks, so that no two write one sum.
  void RunShared() const {
    const int64_t blocks = c_blocks() * k_blocks();
    for (int64_t begin = 0; begin < p_.tiles; begin += plan_.chunk) {
      const int64_t end = std::min(p_.tiles, begin + plan_.chunk);
      TransformChunk(begin, end);
      Split(plan_.threads, [&](int64_t slot, int64_t slot_end, int64_t) {
        const int64_t last = ItemOf(slot_end, blocks, end - begin);
        for (int64_t i = ItemOf(slot, blocks, end - begin); i < last; ++i) {
          const int64_t c = i % blocks / k_blocks() * plan_.c_block;
          const int64_t k = i % blocks % k_blocks() * plan_.k_block;
          Multiply(i / blocks, 0, c, k, end - begin, u(0) + (c * p_.k_panels + k) * p_.L() * p_.L(), p_.k_panels,
                   begin > 0);
        }
      });
    }
    WriteSums(1);
  }

  // dw of panels [c, c_end) x [k, k_end), at most a block, from all tiles of a copy.
  void MultiplyAndWrite(int64_t c, int64_t c_end, int64_t k, int64_t k_end, int64_t copy, int64_t slot) const {
    for (int64_t point = 0; point < p_.points(); ++point) {
      Multiply(point, copy, c, k, p_.tiles, u(slot), plan_.k_block, false);
    }
    for (int64_t a = c; a < c_end; ++a) {
      for (int64_t b = k; b < k_end; ++b) {
        WriteBlock(u(slot) + ((a - c) * plan_.k_block + b - k) * p_.L() * p_.L(), 1, 0, a, b, slot);
      }
    }
  }

  // Every thread transforms all tiles of its own panels. Panels that several threads need are transformed by each of
  // them, which is cheaper than reading another core's sums.
  void RunParts() const {
    Split(plan_.c_parts * plan_.k_parts, [&](int64_t part, int64_t, int64_t slot) {
      const int64_t i = part / plan_.k_parts;
      const int64_t j = part % plan_.k_parts;
      const int64_t c_begin = p_.c_panels * i / plan_.c_parts;
      const int64_t c_end = p_.c_panels * (i + 1) / plan_.c_parts;
      const int64_t k_begin = p_.k_panels * j / plan_.k_parts;
      const int64_t k_end = p_.k_panels * (j + 1) / plan_.k_parts;
      for (int64_t tile = 0; tile < p_.tiles; tile += kSegment) {
        for (int64_t c = c_begin; c < c_end; ++c) Transform(c, tile, {0, p_.tiles}, slot, false);
        for (int64_t k = k_begin; k < k_end; ++k) Transform(p_.c_panels + k, tile, {0, p_.tiles}, slot, i == 0);
      }
      for (int64_t k = k_begin; k < k_end; k += plan_.k_block) {
        for (int64_t c = c_begin; c < c_end; ++c) {
          MultiplyAndWrite(c, c + 1, k, std::min(k_end, k + plan_.k_block), slot, slot);
        }
      }
    });
  }

  // One chunk holds all tiles; a thread takes a block of C x K through all points and back at once.
  void RunWhole() const {
    TransformChunk(0, p_.tiles);
    Split(c_blocks() * k_blocks(), [&](int64_t first, int64_t last, int64_t slot) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t c = i / k_blocks() * plan_.c_block;
        const int64_t k = i % k_blocks() * plan_.k_block;
        MultiplyAndWrite(c, std::min(p_.c_panels, c + plan_.c_block), k, std::min(p_.k_panels, k + plan_.k_block), 0,
                         slot);
      }
    });
  }

  GradientProblem p_;
  GradientPlan plan_;
  std::vector<TensorType> output_types_;
  int64_t dw_floats_;  // of sums that are rounded when they are complete
  int64_t db_floats_;
  std::string implementation_;
  int64_t group_ = 0;  // the group that Run works on
};

// x and dy of one type, float32 or bfloat16; sums of these or float32.
std::string RefuseTypes(const KernelQuery& query) {
  const DType dtype = query.inputs[0].dtype;
  if (dtype != DType::kFloat32 && dtype != DType::kBFloat16) {
    return StrCat("it is for float32 and bfloat16, not ", NameOf(dtype));
  }
  const auto differs = [&](const TensorType& type) { return type.dtype != dtype && type.dtype != DType::kFloat32; };
  if (query.inputs[1].dtype != dtype || std::ranges::any_of(query.outputs, differs)) {
    return StrCat("x, dy and their sums are of other types than ", NameOf(dtype));
  }
  return {};
}

// Why the geometry does not fit; empty if it does.
std::string RefuseGeometry(const KernelQuery& query) {
  const Shape& dw = query.outputs[0].shape;
  const Attributes& attributes = query.node.attributes;
  const Geometry geometry = ConvolutionGeometry(query.node.op->name, attributes, dw);
  const auto is = [&](int64_t window, int64_t stride) {
    return dw.rank() == 4 && dw[2] == window && dw[3] == window && geometry.stride == Ints{stride, stride};
  };
  if (!is(3, 1) && !is(4, 2)) {
    return StrCat("only 3x3 windows of stride 1 and 4x4 windows of stride 2, found weights ", dw.ToString(),
                  " and stride ", Shape(geometry.stride).ToString());
  }
  if (geometry.dilation != Ints{1, 1}) return "only dilation 1";
  if (query.inputs[0].shape.Count() == 0) return StrCat("the tensor ", query.inputs[0].ToString(), " is empty");
  return {};
}

std::string Refuse(const KernelQuery& query) {
  if (std::string reason = RefuseTypes(query); !reason.empty()) return reason;
  if (std::string reason = RefuseGeometry(query); !reason.empty()) return reason;
  const TensorType& x = query.inputs[0];
  const TensorType& dw = query.outputs[0];
  const WeightsLanes* lanes = WeightsLanesOf(x, TapsOf(dw.shape));
  if (lanes == nullptr) {
    return StrCat("only channel blocks of 16 with AVX-512 or of 8 with AVX2, found ", x.ToString());
  }
  if (query.inputs[1].layout != x.layout) return "x and dy lie differently";
  if (!OrderOf(dw, lanes->lanes)) return StrCat("the gradient ", dw.ToString(), " lies in other blocks than x");
  if (query.outputs.size() > 1 && !query.outputs[1].layout.is_plain()) return "the bias is not plain";
  const int64_t groups = query.node.attributes.Int("groups");
  if (groups > 1 && (dw.shape[1] % lanes->lanes != 0 || dw.shape[0] / groups % lanes->lanes != 0)) {
    return StrCat("the ", groups, " groups of ", dw.ToString(), " are not whole blocks of ", lanes->lanes);
  }
  return {};
}

// Channel blocks as x has them already, or the widest; the gradient as oneDNN's forward pass reads the weights.
std::optional<LayoutProposal> Propose(const KernelQuery& query) {
  if (!RefuseTypes(query).empty() || !RefuseGeometry(query).empty()) return {};
  const Shape& dw = query.outputs[0].shape;
  // If the stride is 2 and there are fewer channels, most of the products would be padding's.
  constexpr int64_t kFewestChannels = 8;
  if (TapsOf(dw) == 2 && std::min(dw[0], dw[1]) < kFewestChannels) return {};
  const WeightsLanes* lanes = WeightsLanesOf(query.inputs[0], TapsOf(dw));
  for (const int64_t block : {16, 8}) {
    if (lanes == nullptr) lanes = WeightsLanesFor(block, TapsOf(dw), IsHalf(query.inputs[0].dtype));
  }
  if (lanes == nullptr) return {};
  const Layout data = Layout::Parse(StrCat("aBcd", lanes->lanes, "b"));
  LayoutProposal proposal{{data, data}, std::vector<Layout>(query.outputs.size())};
  proposal.outputs[0] = Layout::Parse(StrCat("ABcd", lanes->lanes, "b", lanes->lanes, "a"));
  return proposal;
}

std::unique_ptr<Kernel> Make(const KernelQuery& query) {
  const GradientProblem problem = ReadProblem(query);
  // As many partial sums on every machine where the bits must not depend on the threads; a thread takes several.
  constexpr int64_t kFixedSlots = 8;
  const int64_t slots = query.deterministic ? kFixedSlots : ThreadCount();
  return std::make_unique<WinogradWeights>(problem, winograd::PlanGradient(problem, slots), query.outputs);
}

}  // namespace

KernelDef WinogradConvolutionBackwardWeights() {
  return {.name = "winograd",
          .op = "convolution_backward_weights",
          .refuse = Refuse,
          .propose = Propose,
          .make = Make,
          .turn = 1};
}

}  // namespace moka
