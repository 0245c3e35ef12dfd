// The weights' gradient of a 3x3 convolution with stride 1 by Winograd's algorithm: dw = G^T [sum over tiles of
// (B^T x B) . (A dy A^T)] G with tiles of 6x6 of x and 4x4 of dy (Lavin and Gray, "Fast Algorithms for Convolutional
// Neural Networks", 2016): a quarter of the multiplications, done as 36 matrix products [C x tiles] [tiles x K].
//
// The sums over tiles (36*C*K floats, 38 MB for 512 x 512 channels) and the transformed tiles (2.25 times x) leave the
// caches, so three orders of work are used, each fixed by the shape and the number of threads:
//   private: few channels. A thread transforms a few of its own tiles at a time and adds them into its own sums.
//   shared:  all threads transform a chunk of tiles, then each multiplies at some points of the transformed tile.
//   whole:   many channels on small planes. The tiles are one chunk; a thread multiplies a block of C x K at all
//            points and transforms it back at once, so that the sums never leave its cache.
// Every element of a sum has a fixed order of additions: over the tiles in registers, then over blocks of tiles, which
// keeps the rounding error of planes with many tiles small.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <vector>

#include "core/parallel.h"
#include "core/text.h"
#include "layers/cpu/bound_kernel.h"
#include "layers/cpu/kernels.h"
#include "layers/cpu/winograd/weights_lanes.h"
#include "layers/ops/geometry.h"

namespace moka {
namespace {

using winograd::Product;
using winograd::TiledPlane;
using winograd::WeightsLanes;

constexpr int64_t kSegment = 16;             // tiles a thread transforms at a time
constexpr int64_t kLine = 16;                // floats in a cache line
constexpr int64_t kPoints = 36;               // of a transformed tile
constexpr int64_t kAlign = 64;

// The instruction set for channel blocks of this size; null if this processor has none.
const WeightsLanes* LanesOf(int64_t block) {
#if defined(__x86_64__)
  if (block == 16 && __builtin_cpu_supports("avx512f") != 0) return winograd::WeightsLanesAvx512();
  if (block == 8 && __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0) {
    return winograd::WeightsLanesAvx2();
  }
#endif
  return nullptr;
}

const WeightsLanes* LanesOf(const TensorType& x) {
  for (const int64_t block : {16, 8}) {
    if (x.layout.Name(4) == StrCat("aBcd", block, "b")) return LanesOf(block);
  }
  return nullptr;
}

// How the blocks [c][k] of the result lie in dw.
enum class Order : uint8_t { kPlain, kOutputsInner, kInputsInner };

std::optional<Order> OrderOf(const TensorType& dw, int64_t lanes) {
  const std::string name = dw.layout.Name(4);
  if (dw.layout.is_plain()) return Order::kPlain;
  if (name == StrCat("ABcd", lanes, "b", lanes, "a")) return Order::kOutputsInner;
  if (name == StrCat("ABcd", lanes, "a", lanes, "b")) return Order::kInputsInner;
  return {};
}

struct Problem {
  const WeightsLanes* lanes = nullptr;
  TiledPlane x;    // without data
  TiledPlane dy;
  Shape dw;        // [K,C/groups,3,3]
  Order order = Order::kPlain;
  bool bias = false;
  int64_t groups = 1;
  int64_t tiles = 0;
  int64_t c_panels = 0;  // of a group, as k_panels
  int64_t k_panels = 0;

  int64_t L() const { return lanes->lanes; }
};

TiledPlane PlaneOf(const Shape& shape, int64_t lanes, const Shape& y) {
  TiledPlane plane;
  plane.height = shape[2];
  plane.width = shape[3];
  plane.image_stride = CeilDiv(shape[1], lanes).value() * lanes * shape[2] * shape[3];
  plane.tile_rows = CeilDiv(y[2], 4).value();
  plane.tile_columns = CeilDiv(y[3], 4).value();
  return plane;
}

// Requires: Refuse said "".
Problem ReadProblem(const KernelQuery& query) {
  const Shape& x = query.inputs[0].shape;
  const Shape& dy = query.inputs[1].shape;
  Problem p;
  p.lanes = LanesOf(query.inputs[0]);
  p.dw = query.outputs[0].shape;
  p.order = *OrderOf(query.outputs[0], p.L());
  p.bias = query.outputs.size() > 1;
  p.groups = query.node.attributes.Int("groups");
  p.x = PlaneOf(x, p.L(), dy);
  p.dy = PlaneOf(dy, p.L(), dy);
  const Geometry geometry = ConvolutionGeometry(query.node.op->name, query.node.attributes, p.dw);
  p.x.pad_top = geometry.pad_begin[0];
  p.x.pad_left = geometry.pad_begin[1];
  p.tiles = x[0] * p.x.tile_rows * p.x.tile_columns;
  p.c_panels = CeilDiv(p.dw[1], p.L()).value();
  p.k_panels = CeilDiv(dy[1] / p.groups, p.L()).value();
  return p;
}

enum class Mode : uint8_t { kPrivate, kShared, kWhole };

struct Plan {
  Mode mode = Mode::kShared;
  int64_t threads = 1;    // that share the work
  int64_t chunk = 0;      // tiles transformed at a time
  int64_t chunks = 1;     // of all tiles, or of a thread's
  int64_t segments = 0;   // of all tiles
  int64_t part = 0;       // k panels done at a time
  int64_t c_block = 0;    // panels of c and k a thread multiplies at a time
  int64_t k_block = 0;
  int64_t registers = 128;  // tiles summed in registers
  int64_t bytes = 0;  // of scratch:
  int64_t v = 0;      // offsets of x's tiles [threads or 1][kPoints][c_panels][chunk][L],
  int64_t m = 0;      // dy's,
  int64_t u = 0;      // the sums [threads or 1][kPoints][c_block][k_block][L][L],
  int64_t rows = 0;   // one block of dw a thread [3*3][L][L],
  int64_t sums = 0;   // and the sums of dy's segments [segments][k_panels][L]
  int64_t v_stride = 0;  // between points, in floats
  int64_t m_stride = 0;
  int64_t u_stride = 0;
};

int64_t Env(const char* name, int64_t value) {
  const char* text = std::getenv(name);
  return text == nullptr ? value : std::atoll(text);
}

Plan ChoosePlan(const Problem& p, int64_t threads) {
  const int64_t lanes = p.L();
  Plan plan;
  plan.segments = CeilDiv(p.tiles, kSegment).value();
  plan.mode = static_cast<Mode>(Env("W_MODE", 1));
  plan.registers = Env("W_REG", 128);
  plan.part = std::min(p.k_panels, Env("W_PART", 1000));
  plan.c_block = std::min(p.c_panels, Env("W_CB", 4));
  plan.k_block = std::min(plan.part, Env("W_KB", 4));
  const int64_t limit = Env("W_CHUNK", 256);
  plan.threads = plan.mode == Mode::kPrivate ? std::min(threads, plan.segments) : threads;
  const int64_t own = plan.mode == Mode::kPrivate ? CeilDiv(plan.segments, plan.threads).value() : plan.segments;
  plan.chunks = plan.mode == Mode::kWhole ? 1 : CeilDiv(own * kSegment, limit).value();
  plan.chunk = CeilDiv(own, plan.chunks).value() * kSegment;
  if (plan.mode == Mode::kPrivate) {
    plan.c_block = p.c_panels;
    plan.part = plan.k_block = p.k_panels;
  }
  // An odd number of lines between points, so that the 36 do not meet in one set of the cache.
  const int64_t stride = plan.chunk * lanes;
  plan.v_stride = (p.c_panels * stride / (2 * kLine) * 2 + 3) * kLine;
  plan.m_stride = (plan.part * stride / (2 * kLine) * 2 + 3) * kLine;
  const bool whole = plan.mode == Mode::kWhole;
  plan.u_stride = (whole ? plan.c_block * plan.k_block : p.c_panels * plan.part) * lanes * lanes + kLine;
  const int64_t copies = plan.mode == Mode::kPrivate ? plan.threads : 1;
  Size bytes;
  const auto book = [&bytes](Size count, int64_t size) {
    const int64_t offset = bytes.value();
    bytes = CeilDiv((bytes + count * size).value(), kAlign) * kAlign;
    return offset;
  };
  plan.v = book(Size(copies) * kPoints * plan.v_stride, 4);
  plan.m = book(Size(copies) * kPoints * plan.m_stride, 4);
  plan.u = book(Size(whole ? plan.threads : copies) * kPoints * plan.u_stride, 4);
  plan.rows = book(Size(plan.threads) * 9 * lanes * lanes, 4);
  plan.sums = book(p.bias ? Size(plan.segments) * p.k_panels * lanes : Size(), 4);
  plan.bytes = bytes.value();
  return plan;
}

class WinogradWeights final : public BoundKernel {
 public:
  WinogradWeights(const Problem& problem, const Plan& plan)
      : p_(problem), plan_(plan), implementation_(StrCat("f3x4:", problem.L() == 16 ? "avx512" : "avx2")) {}
  int64_t scratch_bytes() const override { return plan_.bytes; }
  std::string_view implementation() const override { return implementation_; }

  void Run() override {
    for (group_ = 0; group_ < p_.groups; ++group_) {
      for (part_ = 0; part_ < p_.k_panels; part_ += plan_.part) {
        switch (plan_.mode) {
          case Mode::kPrivate: RunPrivate(); break;
          case Mode::kShared: RunShared(); break;
          case Mode::kWhole: RunWhole(); break;
        }
      }
      if (p_.bias) WriteBias();
    }
  }

 private:
  int64_t part_panels() const { return std::min(plan_.part, p_.k_panels - part_); }
  float* v(int64_t copy) const { return scratch<float>(plan_.v) + copy * kPoints * plan_.v_stride; }
  float* m(int64_t copy) const { return scratch<float>(plan_.m) + copy * kPoints * plan_.m_stride; }
  float* u(int64_t copy) const { return scratch<float>(plan_.u) + copy * kPoints * plan_.u_stride; }
  float* sums() const { return scratch<float>(plan_.sums); }

  // Calls f(begin, end, slot) for a static split of [0, count) into at most plan_.threads slots.
  template <class F>
  void Split(int64_t count, F&& f) const {
    const int64_t slots = std::min(plan_.threads, count);
    ParallelFor(slots, 1, [&](int64_t first, int64_t last, int) {
      for (int64_t slot = first; slot < last; ++slot) f(count * slot / slots, count * (slot + 1) / slots, slot);
    });
  }

  // One segment of a panel (of c, then of the part's k) to copy's v or m, whose first tile is `begin`.
  void Transform(int64_t panel, int64_t c_panels, int64_t first, int64_t begin, int64_t copy) const {
    const int64_t last = std::min(p_.tiles, first + kSegment);
    const int64_t at = (first - begin) * p_.L();
    if (panel < c_panels) {
      TiledPlane plane = p_.x;
      plane.data = in<float>(0) + (group_ * p_.c_panels + panel) * plane.height * plane.width * p_.L();
      p_.lanes->transform_x(plane, first, last, v(copy) + panel * plan_.chunk * p_.L() + at, plan_.v_stride, nullptr);
      return;
    }
    const int64_t k = panel - c_panels;
    TiledPlane plane = p_.dy;
    plane.data = in<float>(1) + (group_ * p_.k_panels + part_ + k) * plane.height * plane.width * p_.L();
    float* sum = p_.bias ? sums() + (first / kSegment * p_.k_panels + part_ + k) * p_.L() : nullptr;
    p_.lanes->transform_dy(plane, first, last, m(copy) + k * plan_.chunk * p_.L() + at, plan_.m_stride, sum);
  }

  // All threads transform the chunk's tiles from `begin` on, of x only if it is not there yet.
  void TransformChunk(int64_t begin, int64_t end) const {
    const int64_t c_panels = plan_.chunks == 1 && part_ > 0 ? 0 : p_.c_panels;
    const int64_t panels = c_panels + part_panels();
    Split(CeilDiv(end - begin, kSegment).value() * panels, [&](int64_t first, int64_t last, int64_t) {
      for (int64_t i = first; i < last; ++i) {
        Transform(i % panels, c_panels, begin + i / panels * kSegment, begin, 0);
      }
    });
  }

  // Adds `tiles` tiles of copy's block (c, k panels of the part) at a point to u, or begins with them.
  void Multiply(int64_t point, int64_t copy, int64_t c, int64_t k, int64_t tiles, float* u_block, int64_t u_row,
                bool accumulate) const {
    Product product;
    product.v = v(copy) + point * plan_.v_stride + c * plan_.chunk * p_.L();
    product.m = m(copy) + point * plan_.m_stride + k * plan_.chunk * p_.L();
    product.u = u_block + point * plan_.u_stride;
    product.v_stride = product.m_stride = plan_.chunk * p_.L();
    product.u_stride = u_row * p_.L() * p_.L();
    product.c_panels = std::min(plan_.c_block, p_.c_panels - c);
    product.k_panels = std::min(plan_.k_block, part_panels() - k);
    for (int64_t done = 0; done < tiles; done += product.tiles) {
      product.tiles = std::min(plan_.registers, tiles - done);
      product.accumulate = accumulate || done > 0;
      p_.lanes->multiply(product);
      product.v += product.tiles * p_.L();
      product.m += product.tiles * p_.L();
    }
  }

  // The segments' sums in their order.
  void WriteBias() const {
    const int64_t outputs = p_.dw[0] / p_.groups;
    const int64_t row = p_.k_panels * p_.L();
    float* db = out<float>(1) + group_ * outputs;
    for (int64_t k = 0; k < outputs; ++k) {
      double total = 0;
      for (int64_t segment = 0; segment < plan_.segments; ++segment) total += double{sums()[segment * row + k]};
      db[k] = static_cast<float>(total);
    }
  }

  // dw of one block from its sums.
  void WriteBlock(const float* from, int64_t copies, int64_t copy_stride, int64_t c, int64_t k, int64_t slot) const {
    const int64_t lanes = p_.L();
    const int64_t panel = group_ * p_.k_panels + part_ + k;
    float* rows = scratch<float>(plan_.rows) + slot * 9 * lanes * lanes;
    auto* dw = out<float>(0);
    if (p_.order != Order::kPlain) dw += (panel * p_.c_panels + c) * 9 * lanes * lanes;
    p_.lanes->inverse(from, plan_.u_stride, copies, copy_stride, p_.order == Order::kOutputsInner ? dw : rows);
    if (p_.order == Order::kOutputsInner) return;
    if (p_.order == Order::kInputsInner) {
      for (int64_t i = 0; i < 9; ++i) {
        for (int64_t a = 0; a < lanes; ++a) {
          for (int64_t b = 0; b < lanes; ++b) dw[(i * lanes + a) * lanes + b] = rows[(i * lanes + b) * lanes + a];
        }
      }
      return;
    }
    // A group of several blocks is whole blocks, so panels count its channels right.
    const int64_t c_end = std::min(lanes, p_.dw[1] - c * lanes);
    const int64_t k_end = std::min(lanes, p_.dw[0] - panel * lanes);
    for (int64_t a = 0; a < k_end; ++a) {
      float* to = dw + ((panel * lanes + a) * p_.dw[1] + c * lanes) * 9;
      for (int64_t b = 0; b < c_end; ++b) {
        for (int64_t i = 0; i < 9; ++i) *to++ = rows[(i * lanes + b) * lanes + a];
      }
    }
  }

  void WriteSums(int64_t copies) const {
    const int64_t k_panels = part_panels();
    Split(p_.c_panels * k_panels, [&](int64_t first, int64_t last, int64_t slot) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t c = i / k_panels;
        const int64_t k = i % k_panels;
        WriteBlock(u(0) + (c * plan_.part + k) * p_.L() * p_.L(), copies, kPoints * plan_.u_stride, c, k, slot);
      }
    });
  }

  void RunPrivate() const {
    const int64_t panels = p_.c_panels + p_.k_panels;
    Split(plan_.segments, [&](int64_t first, int64_t last, int64_t slot) {
      const int64_t stop = std::min(p_.tiles, last * kSegment);
      for (int64_t begin = first * kSegment; begin < stop; begin += plan_.chunk) {
        const int64_t end = std::min(stop, begin + plan_.chunk);
        for (int64_t panel = 0; panel < panels; ++panel) {
          for (int64_t tile = begin; tile < end; tile += kSegment) Transform(panel, p_.c_panels, tile, begin, slot);
        }
        for (int64_t point = 0; point < kPoints; ++point) {
          Multiply(point, slot, 0, 0, end - begin, u(slot), plan_.part, begin > first * kSegment);
        }
      }
    });
    WriteSums(plan_.threads);
  }

  int64_t c_blocks() const { return CeilDiv(p_.c_panels, plan_.c_block).value(); }
  int64_t k_blocks() const { return CeilDiv(part_panels(), plan_.k_block).value(); }

  void RunShared() const {
    const int64_t blocks = c_blocks() * k_blocks();
    for (int64_t begin = 0; begin < p_.tiles; begin += plan_.chunk) {
      const int64_t end = std::min(p_.tiles, begin + plan_.chunk);
      TransformChunk(begin, end);
      Split(kPoints * blocks, [&](int64_t first, int64_t last, int64_t) {
        for (int64_t i = first; i < last; ++i) {
          const int64_t c = i % blocks / k_blocks() * plan_.c_block;
          const int64_t k = i % blocks % k_blocks() * plan_.k_block;
          Multiply(i / blocks, 0, c, k, end - begin, u(0) + (c * plan_.part + k) * p_.L() * p_.L(), plan_.part,
                   begin > 0);
        }
      });
    }
    WriteSums(1);
  }

  void RunWhole() const {
    TransformChunk(0, p_.tiles);
    Split(c_blocks() * k_blocks(), [&](int64_t first, int64_t last, int64_t slot) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t c = i / k_blocks() * plan_.c_block;
        const int64_t k = i % k_blocks() * plan_.k_block;
        for (int64_t point = 0; point < kPoints; ++point) {
          Multiply(point, 0, c, k, p_.tiles, u(slot), plan_.k_block, false);
        }
        for (int64_t a = c; a < std::min(p_.c_panels, c + plan_.c_block); ++a) {
          for (int64_t b = k; b < std::min(part_panels(), k + plan_.k_block); ++b) {
            WriteBlock(u(slot) + ((a - c) * plan_.k_block + b - k) * p_.L() * p_.L(), 1, 0, a, b, slot);
          }
        }
      }
    });
  }

  Problem p_;
  Plan plan_;
  std::string implementation_;
  int64_t group_ = 0;  // the group and the first k panel of the part that Run works on
  int64_t part_ = 0;
};

// Why the geometry does not fit; empty if it does.
std::string RefuseGeometry(const KernelQuery& query) {
  const Shape& dw = query.outputs[0].shape;
  if (dw.rank() != 4 || dw[2] != 3 || dw[3] != 3) return StrCat("only 3x3 windows, found weights ", dw.ToString());
  const Attributes& attributes = query.node.attributes;
  const Geometry geometry = ConvolutionGeometry(query.node.op->name, attributes, dw);
  if (geometry.stride != Ints{1, 1}) return "only stride 1";
  if (geometry.dilation != Ints{1, 1}) return "only dilation 1";
  if (query.inputs[0].shape.Count() == 0) return StrCat("the tensor ", query.inputs[0].ToString(), " is empty");
  return {};
}

std::string Refuse(const KernelQuery& query) {
  if (std::string reason = RefuseUnlessFloat32(query); !reason.empty()) return reason;
  if (std::string reason = RefuseGeometry(query); !reason.empty()) return reason;
  const TensorType& x = query.inputs[0];
  const TensorType& dw = query.outputs[0];
  const WeightsLanes* lanes = LanesOf(x);
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
  if (!RefuseUnlessFloat32(query).empty() || !RefuseGeometry(query).empty()) return {};
  const WeightsLanes* lanes = LanesOf(query.inputs[0]);
  for (const int64_t block : {16, 8}) {
    if (lanes == nullptr) lanes = LanesOf(block);
  }
  if (lanes == nullptr) return {};
  const Layout data = Layout::Parse(StrCat("aBcd", lanes->lanes, "b"));
  LayoutProposal proposal{{data, data}, std::vector<Layout>(query.outputs.size())};
  proposal.outputs[0] = Layout::Parse(StrCat("ABcd", lanes->lanes, "b", lanes->lanes, "a"));
  return proposal;
}

std::unique_ptr<Kernel> Make(const KernelQuery& query) {
  const Problem problem = ReadProblem(query);
  return std::make_unique<WinogradWeights>(problem, ChoosePlan(problem, ThreadCount()));
}

}  // namespace

KernelDef WinogradConvolutionBackwardWeights() {
  return {.name = "winograd", .op = "convolution_backward_weights", .refuse = Refuse, .propose = Propose, .make = Make};
}

}  // namespace moka
