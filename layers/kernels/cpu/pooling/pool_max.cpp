// Max pooling and its gradient for what oneDNN refuses (odd paddings, layouts its workspace does not have). Memory is
// seen as slices x positions x lanes: lanes are the channels of a block or, channels last, all of them; plain memory
// has one lane.
#include <algorithm>
#include <vector>

#include "core/text.h"
#include "core/threads/parallel.h"
#include "core/vector_clones.h"
#include "graph/kernel.h"
#include "graph/op.h"
#include "layers/ops/geometry.h"

namespace moka {
namespace {

using Triple = std::array<int64_t, 3>;  // depth, height, width; missing ones are 1

struct Windows {
  Triple in;
  Triple out;
  Triple kernel;
  Triple stride;
  Triple pad;
  int64_t slices = 0;
  int64_t lanes = 1;

  // The part [begin, end) of the kernel that lies in the input along axis i at output position o.
  std::pair<int64_t, int64_t> Inside(size_t i, int64_t o) const {
    const int64_t start = o * stride[i] - pad[i];
    return {std::max<int64_t>(0, -start), std::min(kernel[i], in[i] - start)};
  }
};

// None for a layout that is not plain, channels last or with one block of channels.
std::optional<std::pair<int64_t, int64_t>> SlicesAndLanes(const TensorType& x) {
  const int rank = x.shape.rank();
  const std::string plain = Layout{}.Name(rank);
  const std::string name = x.layout.Name(rank);
  if (x.layout.is_plain()) return std::pair(x.shape[0] * x.shape[1], int64_t{1});
  std::string other = plain;
  std::rotate(other.begin() + 1, other.begin() + 2, other.end());
  if (name == other) return std::pair(x.shape[0], x.shape[1]);
  const int64_t block = x.layout.BlockOf(1);
  other = plain;
  other[1] = 'B';
  if (block == 1 || name != StrCat(other, block, "b")) return {};
  return std::pair(x.shape[0] * x.layout.Padded(x.shape)[1] / block, block);
}

Windows WindowsOf(std::string_view op, const Attributes& attributes, const TensorType& x, const Shape& y) {
  const Geometry g = PoolGeometry(op, attributes);
  Windows w{{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}};
  const size_t missing = 3 - g.kernel.size();
  for (int i = 0; i < g.rank(); ++i) {
    const auto from = static_cast<size_t>(i);
    const size_t to = missing + from;
    w.in[to] = x.shape[i + 2];
    w.out[to] = y[i + 2];
    w.kernel[to] = g.kernel[from];
    w.stride[to] = g.stride[from];
    w.pad[to] = g.pad_begin[from];
  }
  const auto lanes = SlicesAndLanes(x);
  Require(lanes.has_value(), "pool_max runs on an accepted layout");
  std::tie(w.slices, w.lanes) = *lanes;
  return w;
}

int64_t CountOf(const Triple& t) { return t[0] * t[1] * t[2]; }

// Calls f(output position, o) for each output position of one slice.
template <class F>
void VisitOutputs(const Windows& w, F&& f) {
  int64_t position = 0;
  for (int64_t d = 0; d < w.out[0]; ++d) {
    for (int64_t h = 0; h < w.out[1]; ++h) {
      for (int64_t x = 0; x < w.out[2]; ++x) f(position++, Triple{d, h, x});
    }
  }
}

// Calls f(input position, position in the window) for the elements of the input under one window.
template <class F>
void VisitInside(const Windows& w, const Triple& o, F&& f) {
  const auto [d0, d1] = w.Inside(0, o[0]);
  const auto [h0, h1] = w.Inside(1, o[1]);
  const auto [w0, w1] = w.Inside(2, o[2]);
  for (int64_t d = d0; d < d1; ++d) {
    for (int64_t h = h0; h < h1; ++h) {
      const int64_t row = (o[0] * w.stride[0] - w.pad[0] + d) * w.in[1] + o[1] * w.stride[1] - w.pad[1] + h;
      const int64_t first = row * w.in[2] + o[2] * w.stride[2] - w.pad[2];
      for (int64_t x = w0; x < w1; ++x) f(first + x, (d * w.kernel[1] + h) * w.kernel[2] + x);
    }
  }
}

// Takes the elements that are larger than the best so far.
MOKA_VECTOR_CLONES void TakeLarger(const float* x, int64_t lanes, uint8_t position, float* y, uint8_t* argmax) {
  for (int64_t i = 0; i < lanes; ++i) {
    const bool larger = x[i] > y[i];
    y[i] = larger ? x[i] : y[i];
    argmax[i] = larger ? position : argmax[i];
  }
}
MOKA_VECTOR_CLONES void TakeLarger(const float* x, int64_t lanes, int32_t position, float* y, int32_t* argmax) {
  for (int64_t i = 0; i < lanes; ++i) {
    const bool larger = x[i] > y[i];
    y[i] = larger ? x[i] : y[i];
    argmax[i] = larger ? position : argmax[i];
  }
}

// The first element of a window is copied and later ones compete by `>`: of equals the first wins, and a NaN that comes
// first stays, as in the reference.
template <class Index>
class ForwardKernel final : public Kernel {
 public:
  explicit ForwardKernel(const Windows& windows) : w_(windows) {}

  void Bind(const KernelArgs& args) override {
    x_ = args.inputs[0].as<float>().data();
    y_ = args.outputs[0].as<float>().data();
    argmax_ = args.outputs[1].as<Index>().data();
  }

  void Run() override {
    ParallelFor(w_.slices, 1, [this](int64_t begin, int64_t end, int) {
      for (int64_t slice = begin; slice < end; ++slice) RunSlice(slice);
    });
  }

 private:
  void RunSlice(int64_t slice) {
    const int64_t lanes = w_.lanes;
    const float* x = x_ + slice * CountOf(w_.in) * lanes;
    VisitOutputs(w_, [&](int64_t position, const Triple& o) {
      const int64_t at = (slice * CountOf(w_.out) + position) * lanes;
      bool first = true;
      VisitInside(w_, o, [&](int64_t i, int64_t k) {
        if (first) {
          std::copy_n(x + i * lanes, lanes, y_ + at);
          std::fill_n(argmax_ + at, lanes, static_cast<Index>(k));
        } else {
          TakeLarger(x + i * lanes, lanes, static_cast<Index>(k), y_ + at, argmax_ + at);
        }
        first = false;
      });
    });
  }

  Windows w_;
  const float* x_ = nullptr;
  float* y_ = nullptr;
  Index* argmax_ = nullptr;
};

// Slices are independent, so the gradient scatters without atomics: the windows of a slice add in order in one thread.
template <class Index>
class BackwardKernel final : public Kernel {
 public:
  explicit BackwardKernel(const Windows& windows) : w_(windows) {}

  void Bind(const KernelArgs& args) override {
    dy_ = args.inputs[0].as<float>().data();
    argmax_ = args.inputs[1].as<Index>().data();
    dx_ = args.outputs[0].as<float>().data();
  }

  void Run() override {
    ParallelFor(w_.slices, 1, [this](int64_t begin, int64_t end, int) {
      for (int64_t slice = begin; slice < end; ++slice) RunSlice(slice);
    });
  }

 private:
  void RunSlice(int64_t slice) {
    const int64_t lanes = w_.lanes;
    float* dx = dx_ + slice * CountOf(w_.in) * lanes;
    std::fill_n(dx, CountOf(w_.in) * lanes, 0.0F);
    VisitOutputs(w_, [&](int64_t position, const Triple& o) {
      const int64_t at = (slice * CountOf(w_.out) + position) * lanes;
      for (int64_t lane = 0; lane < lanes; ++lane) {
        const int64_t i = InputPosition(o, argmax_[at + lane]);
        if (i >= 0) dx[i * lanes + lane] += dy_[at + lane];
      }
    });
  }

  // -1 outside the input: padding lanes may hold any argmax.
  int64_t InputPosition(const Triple& o, int64_t k) const {
    const Triple in_window = {k / (w_.kernel[1] * w_.kernel[2]), k / w_.kernel[2] % w_.kernel[1], k % w_.kernel[2]};
    int64_t position = 0;
    for (size_t i = 0; i < 3; ++i) {
      const int64_t at = o[i] * w_.stride[i] - w_.pad[i] + in_window[i];
      if (at < 0 || at >= w_.in[i]) return -1;
      position = position * w_.in[i] + at;
    }
    return position;
  }

  Windows w_;
  const float* dy_ = nullptr;
  const Index* argmax_ = nullptr;
  float* dx_ = nullptr;
};

bool IsBackward(const KernelQuery& query) { return query.node.op->name == "pool_max_backward"; }

std::string Refuse(const KernelQuery& query) {
  const TensorType& values = query.inputs[0];
  if (values.dtype != DType::kFloat32) return StrCat("only float32, found ", values.ToString());
  for (const auto& types : {query.inputs, query.outputs}) {
    for (const TensorType& type : types) {
      if (type.layout != values.layout) return "inputs and outputs lie differently";
    }
  }
  if (!SlicesAndLanes(values)) {
    return StrCat("only plain, channels-last or channel-blocked memory, found ", values.ToString());
  }
  return {};
}

std::optional<LayoutProposal> Propose(const KernelQuery& query) {
  const TensorType& lead = query.inputs.back();  // x, or the argmax as the forward pass left it
  const Layout layout = SlicesAndLanes(lead) ? lead.layout : Layout{};
  return LayoutProposal{std::vector<Layout>(query.inputs.size(), layout),
                        std::vector<Layout>(query.outputs.size(), layout)};
}

std::unique_ptr<Kernel> Make(const KernelQuery& query) {
  const bool backward = IsBackward(query);
  const TensorType& x = backward ? query.outputs[0] : query.inputs[0];
  const TensorType& argmax = backward ? query.inputs[1] : query.outputs[1];
  const Windows w = WindowsOf(query.node.op->name, query.node.attributes, x, argmax.shape);
  // Windows of up to 255 positions have an argmax of bytes, a quarter of the memory.
  const bool small = argmax.dtype == DType::kUInt8;
  if (backward && small) return std::make_unique<BackwardKernel<uint8_t>>(w);
  if (backward) return std::make_unique<BackwardKernel<int32_t>>(w);
  if (small) return std::make_unique<ForwardKernel<uint8_t>>(w);
  return std::make_unique<ForwardKernel<int32_t>>(w);
}

}  // namespace

KernelDef MokaPoolMax() {
  return {.name = "moka", .op = "pool_max", .refuse = Refuse, .propose = Propose, .make = Make, .turn = 2};
}

KernelDef MokaPoolMaxBackward() {
  return {.name = "moka", .op = "pool_max_backward", .refuse = Refuse, .propose = Propose, .make = Make, .turn = 2};
}

}  // namespace moka
