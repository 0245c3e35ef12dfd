// The highest elements of lines, a round for each: top_k is small.
#include <cmath>

#include "layers/cuda/kernels.h"
#include "layers/cuda/label_lines.cuh"

namespace moka {
namespace {

// The next of a line's highest elements after the one that the round before left.
template <class T>
struct ArgmaxLine {
  using W = cuda::Wide<T>;
  cuda::LineMap lines;
  int64_t round;
  int64_t top_k;
  bool has_axis;
  bool wants_value;
  const T* x;
  T* y;
  cuda::LineItem<W>* last;

  using State = cuda::LineItem<W>;
  __host__ __device__ State Start() const { return {0, -1}; }
  __host__ __device__ void Add(int64_t line, int64_t c, State& s) const {
    const State item{cuda::ToWide(x[lines.Offset(line, c)]), c};
    if (round == 0 || cuda::ComesFirst(last[line], item)) Join(s, item);
  }
  __host__ __device__ static void Join(State& s, const State& other) {
    if (other.index >= 0 && (s.index < 0 || cuda::ComesFirst(other, s))) s = other;
  }
  __host__ __device__ void Write(int64_t, int64_t, const State&) const {}
  __host__ __device__ void Finish(int64_t line, const State& best) const {
    last[line] = best;
    const T value = cuda::Narrow<T>(best.value);
    const T index = cuda::Narrow<T>(static_cast<W>(best.index));
    if (has_axis) {
      y[(line / lines.inner * top_k + round) * lines.inner + line % lines.inner] = wants_value ? value : index;
      return;
    }
    y[(wants_value ? 2 : 1) * line * top_k + round] = index;
    if (wants_value) y[(2 * line + 1) * top_k + round] = value;
  }
};

class ArgmaxKernel final : public BoundKernel {
 public:
  explicit ArgmaxKernel(const KernelQuery& query)
      : dtype_(query.inputs[0].dtype),
        top_k_(query.node.attributes.Int("top_k")),
        has_axis_(query.node.attributes.Bool("has_axis")),
        wants_value_(query.node.attributes.Bool("out_max_val")) {
    const Shape& x = query.inputs[0].shape;
    lines_ = has_axis_ ? cuda::LinesOf(query) : cuda::LineMap{x[0], x.Count(1, x.rank()), 1};
  }
  int64_t scratch_bytes() const override { return lines_.Count() * int64_t{sizeof(cuda::LineItem<double>)}; }
  void Run() override {
    cuda::WithFloat(dtype_, [&]<class T>() {
      for (int64_t round = 0; round < top_k_; ++round) {
        cuda::ForEachLine(stream(), lines_,
                          ArgmaxLine<T>{lines_, round, top_k_, has_axis_, wants_value_, in<T>(0), out<T>(0),
                                        scratch<cuda::LineItem<cuda::Wide<T>>>()});
      }
    });
  }

 private:
  cuda::LineMap lines_;
  DType dtype_;
  int64_t top_k_;
  bool has_axis_;
  bool wants_value_;
};

}  // namespace

KernelDef CudaArgmax() {
  return {.name = "moka",
          .op = "argmax",
          .device = DeviceKind::kCuda,
          .refuse = RefuseUnlessPlain,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            return std::make_unique<ArgmaxKernel>(query);
          }};
}

}  // namespace moka
