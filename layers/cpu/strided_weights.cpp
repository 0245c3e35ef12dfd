// The weights' gradient of a convolution with a stride, as one matrix product a tap of the window: the inputs that meet
// the tap are gathered into compact rows [output pixels][C], and dw[tap] = rows^T dy. For many channels on small planes
// (512 channels, 14 to 7), where the vendor's direct kernel reaches 40 % of the arithmetic, this takes 0.6 of its time.
//
// Pixels are gathered in chunks, so that rows stay in the last-level cache; a thread multiplies at one tap and a block
// of 64 x 64 channels at a time and adds to dw itself. The order of additions does not depend on the threads.
#include <algorithm>
#include <array>
#include <cstring>

#include "core/parallel.h"
#include "core/text.h"
#include "layers/cpu/bound_kernel.h"
#include "layers/cpu/kernels.h"
#include "layers/cpu/winograd/weights_plan.h"
#include "layers/ops/geometry.h"

namespace moka {
namespace {

using winograd::Product;
using winograd::WeightsLanes;

constexpr int64_t kSegment = 16;            // pixels gathered at a time
constexpr int64_t kPixelsInRegisters = 64;  // summed before they are added to dw
constexpr int64_t kChannels = 64;           // of c, and of k, multiplied at a time
constexpr int64_t kRowBytes = 8 << 20;      // of x, gathered at a time

struct Problem {
  const WeightsLanes* lanes = nullptr;
  Shape x;
  Shape dw;
  Shape dy;
  Geometry geometry;
  bool bias = false;
  int64_t pixels = 0;  // of all images of dy
  int64_t taps = 0;
  int64_t c_panels = 0;
  int64_t k_panels = 0;

  int64_t L() const { return lanes->lanes; }
  int64_t segments() const { return CeilDiv(pixels, kSegment).value(); }
};

Problem ReadProblem(const KernelQuery& query) {
  Problem p;
  p.lanes = winograd::WeightsLanesOf(query.inputs[0]);
  p.x = query.inputs[0].shape;
  p.dy = query.inputs[1].shape;
  p.dw = query.outputs[0].shape;
  p.geometry = ConvolutionGeometry(query.node.op->name, query.node.attributes, p.dw);
  p.bias = query.outputs.size() > 1;
  p.pixels = p.dy[0] * p.dy[2] * p.dy[3];
  p.taps = p.dw[2] * p.dw[3];
  p.c_panels = CeilDiv(p.dw[1], p.L()).value();
  p.k_panels = CeilDiv(p.dw[0], p.L()).value();
  return p;
}

// Copies one vector a pixel.
template <int kLanes>
void CopyPixel(float* to, const float* from) {
  std::memcpy(to, from, kLanes * sizeof(float));
}
template <int kLanes>
void ClearPixel(float* to) {
  std::memset(to, 0, kLanes * sizeof(float));
}

class StridedWeights final : public BoundKernel {
 public:
  explicit StridedWeights(const Problem& problem)
      : p_(problem), implementation_(StrCat("taps:", problem.L() == 16 ? "avx512" : "avx2")) {
    const int64_t row_bytes = p_.taps * p_.c_panels * p_.L() * int64_t{sizeof(float)};
    const int64_t most = std::max<int64_t>(kPixelsInRegisters / kSegment, kRowBytes / row_bytes / kSegment);
    const int64_t chunks = CeilDiv(p_.segments(), most).value();
    chunk_ = CeilDiv(p_.segments(), chunks).value() * kSegment;
    const Size x_rows = Size(p_.taps) * p_.c_panels * chunk_ * p_.L();
    const Size dy_rows = Size(p_.k_panels) * chunk_ * p_.L();
    dy_at_ = (x_rows * int64_t{sizeof(float)}).value();
    sums_at_ = (dy_rows * int64_t{sizeof(float)} + dy_at_).value();
    const Size sums = p_.bias ? Size(p_.segments()) * p_.k_panels * p_.L() : Size();
    bytes_ = (sums * int64_t{sizeof(float)} + sums_at_).value();
  }
  int64_t scratch_bytes() const override { return bytes_; }
  std::string_view implementation() const override { return implementation_; }

  void Run() override {
    for (int64_t begin = 0; begin < p_.pixels; begin += chunk_) {
      const int64_t end = std::min(p_.pixels, begin + chunk_);
      GatherPanels(p_.c_panels, begin, end, 0);
      GatherPanels(p_.k_panels, begin, end, p_.c_panels);
      const int64_t tasks = p_.taps * c_blocks() * k_blocks();
      ParallelFor(tasks, 1, [&](int64_t first, int64_t last, int) {
        for (int64_t i = first; i < last; ++i) Multiply(i, end - begin, begin > 0);
      });
    }
    if (p_.bias) WriteBias();
  }

 private:
  int64_t block() const { return kChannels / p_.L(); }
  int64_t c_blocks() const { return CeilDiv(p_.c_panels, block()).value(); }
  int64_t k_blocks() const { return CeilDiv(p_.k_panels, block()).value(); }
  float* x_rows() const { return scratch<float>(); }         // [taps][c_panels][chunk][L]
  float* dy_rows() const { return scratch<float>(dy_at_); }  // [k_panels][chunk][L]
  float* sums() const { return scratch<float>(sums_at_); }   // [segments][k_panels][L]

  // All threads gather pixels [begin, end) of `panels` panels, each along its plane: what follows in memory comes next.
  void GatherPanels(int64_t panels, int64_t begin, int64_t end, int64_t first_panel) const {
    const int64_t segments = CeilDiv(end - begin, kSegment).value();
    ParallelFor(panels * segments, 1, [&](int64_t first, int64_t last, int) {
      for (int64_t i = first; i < last; ++i) {
        Gather(first_panel + i / segments, begin + i % segments * kSegment, begin);
      }
    });
  }

  // Panels of x come first, then those of dy.
  void Gather(int64_t panel, int64_t first, int64_t begin) const {
    if (p_.L() == 16) {
      panel < p_.c_panels ? GatherX<16>(panel, first, begin) : GatherDy<16>(panel - p_.c_panels, first, begin);
    } else {
      panel < p_.c_panels ? GatherX<8>(panel, first, begin) : GatherDy<8>(panel - p_.c_panels, first, begin);
    }
  }

  // What meets each tap, for the segment of pixels from `first` on.
  template <int kLanes>
  void GatherX(int64_t panel, int64_t first, int64_t begin) const {
    const Geometry& g = p_.geometry;
    const int64_t last = std::min(p_.pixels, first + kSegment);
    const int64_t height = p_.x[2];
    const int64_t width = p_.x[3];
    int64_t column = first % p_.dy[3];
    int64_t row = first / p_.dy[3] % p_.dy[2];
    int64_t image = first / p_.dy[3] / p_.dy[2];
    for (int64_t pixel = first; pixel < last; ++pixel) {
      const float* plane = in<float>(0) + (image * p_.c_panels + panel) * height * width * kLanes;
      float* to = x_rows() + (panel * chunk_ + pixel - begin) * kLanes;
      for (int64_t i = 0; i < p_.dw[2]; ++i) {
        const int64_t y = row * g.stride[0] - g.pad_begin[0] + i * g.dilation[0];
        for (int64_t j = 0; j < p_.dw[3]; ++j, to += p_.c_panels * chunk_ * kLanes) {
          const int64_t x = column * g.stride[1] - g.pad_begin[1] + j * g.dilation[1];
          if (y >= 0 && y < height && x >= 0 && x < width) {
            CopyPixel<kLanes>(to, plane + (y * width + x) * kLanes);
          } else {
            ClearPixel<kLanes>(to);
          }
        }
      }
      if (++column < p_.dy[3]) continue;
      column = 0;
      if (++row < p_.dy[2]) continue;
      row = 0;
      ++image;
    }
  }

  // The segment's pixels of dy one behind the other, across images, and their sum for the bias.
  template <int kLanes>
  void GatherDy(int64_t panel, int64_t first, int64_t begin) const {
    const int64_t last = std::min(p_.pixels, first + kSegment);
    const int64_t plane = p_.dy[2] * p_.dy[3];
    float* to = dy_rows() + (panel * chunk_ + first - begin) * kLanes;
    std::array<float, kLanes> sum{};
    int64_t image = first / plane;
    int64_t at = first % plane;
    for (int64_t pixel = first; pixel < last; ++pixel, to += kLanes) {
      CopyPixel<kLanes>(to, in<float>(1) + ((image * p_.k_panels + panel) * plane + at) * kLanes);
      if (++at == plane) {
        at = 0;
        ++image;
      }
      for (size_t lane = 0; lane < kLanes; ++lane) sum[lane] += to[lane];
    }
    if (p_.bias) std::copy(sum.begin(), sum.end(), sums() + (first / kSegment * p_.k_panels + panel) * kLanes);
  }

  // One tap and block of channels.
  void Multiply(int64_t task, int64_t pixels, bool accumulate) const {
    const int64_t lanes = p_.L();
    const int64_t tap = task / (c_blocks() * k_blocks());
    const int64_t c = task / k_blocks() % c_blocks() * block();
    const int64_t k = task % k_blocks() * block();
    Product product;
    product.v = x_rows() + (tap * p_.c_panels + c) * chunk_ * lanes;
    product.m = dy_rows() + k * chunk_ * lanes;
    product.u = out<float>(0) + ((k * p_.c_panels + c) * p_.taps + tap) * lanes * lanes;
    product.v_stride = product.m_stride = chunk_ * lanes;
    product.u_stride = p_.taps * lanes * lanes;
    product.u_k_stride = p_.c_panels * product.u_stride;
    product.c_panels = std::min(block(), p_.c_panels - c);
    product.k_panels = std::min(block(), p_.k_panels - k);
    for (int64_t done = 0; done < pixels; done += product.tiles) {
      product.tiles = std::min(kPixelsInRegisters, pixels - done);
      product.accumulate = accumulate || done > 0;
      p_.lanes->multiply(product);
      product.v += product.tiles * lanes;
      product.m += product.tiles * lanes;
    }
  }

  void WriteBias() const {
    for (int64_t k = 0; k < p_.dw[0]; ++k) {
      double total = 0;
      for (int64_t segment = 0; segment < p_.segments(); ++segment) {
        total += double{sums()[segment * p_.k_panels * p_.L() + k]};
      }
      out<float>(1)[k] = static_cast<float>(total);
    }
  }

  Problem p_;
  std::string implementation_;
  int64_t chunk_ = 0;
  int64_t dy_at_ = 0;
  int64_t sums_at_ = 0;
  int64_t bytes_ = 0;
};

// Why the shapes do not fit; empty if they do.
std::string RefuseShapes(const KernelQuery& query) {
  const Shape& dw = query.outputs[0].shape;
  if (dw.rank() != 4) return StrCat("only images, found weights ", dw.ToString());
  const Attributes& attributes = query.node.attributes;
  if (ConvolutionGeometry(query.node.op->name, attributes, dw).stride == Ints{1, 1}) return "only with a stride";
  if (attributes.Int("groups") != 1) return "only one group";
  if (query.inputs[0].shape.Count() == 0) return StrCat("the tensor ", query.inputs[0].ToString(), " is empty");
  return {};
}

std::string Refuse(const KernelQuery& query) {
  if (std::string reason = RefuseUnlessFloat32(query); !reason.empty()) return reason;
  if (std::string reason = RefuseShapes(query); !reason.empty()) return reason;
  const TensorType& x = query.inputs[0];
  const TensorType& dw = query.outputs[0];
  const WeightsLanes* lanes = winograd::WeightsLanesOf(x);
  if (lanes == nullptr) {
    return StrCat("only channel blocks of 16 with AVX-512 or of 8 with AVX2, found ", x.ToString());
  }
  if (query.inputs[1].layout != x.layout) return "x and dy lie differently";
  if (dw.layout.Name(4) != StrCat("ABcd", lanes->lanes, "b", lanes->lanes, "a")) {
    return StrCat("the gradient ", dw.ToString(), " does not lie in blocks with the outputs innermost");
  }
  return query.outputs.size() > 1 && !query.outputs[1].layout.is_plain() ? "the bias is not plain" : std::string();
}

// Channel blocks as x has them already, or the widest; the gradient as oneDNN's forward pass reads the weights.
std::optional<LayoutProposal> Propose(const KernelQuery& query) {
  if (!RefuseUnlessFloat32(query).empty() || !RefuseShapes(query).empty()) return {};
  const WeightsLanes* lanes = winograd::WeightsLanesOf(query.inputs[0]);
  for (const int64_t block : {16, 8}) {
    if (lanes == nullptr) lanes = winograd::WeightsLanesFor(block);
  }
  if (lanes == nullptr) return {};
  const Layout data = Layout::Parse(StrCat("aBcd", lanes->lanes, "b"));
  LayoutProposal proposal{{data, data}, std::vector<Layout>(query.outputs.size())};
  proposal.outputs[0] = Layout::Parse(StrCat("ABcd", lanes->lanes, "b", lanes->lanes, "a"));
  return proposal;
}

}  // namespace

KernelDef MokaStridedWeights() {
  return {.name = "strided",
          .op = "convolution_backward_weights",
          .refuse = Refuse,
          .propose = Propose,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            return std::make_unique<StridedWeights>(ReadProblem(query));
          }};
}

}  // namespace moka
