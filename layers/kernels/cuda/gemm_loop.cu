// A product where cuBLASLt is missing or a GPU is only rehearsed: one thread an element and a loop over the depth,
// exact in its order and not meant to be fast.
#include "layers/kernels/cuda/gemm.h"
#include "layers/kernels/cuda/launch.cuh"
#include "layers/kernels/cuda/types.cuh"

namespace moka::cuda {
namespace {

// The depth is added in order, from 0 on: what tests on a rehearsed GPU compare with is exact.
template <class In, class Out>
struct Product {
  GemmProblem p;
  const In* a;
  const In* b;
  const Out* bias;
  Out* y;

  __host__ __device__ void operator()(int64_t i) const {
    const int64_t column = i % p.n;
    const int64_t row = i / p.n % p.m;
    const int64_t batch = i / (p.m * p.n);
    const In* from_a = a + batch * p.m * p.k + (p.transpose_a ? row : row * p.k);
    const In* from_b = b + batch * p.k * p.n + (p.transpose_b ? column * p.k : column);
    const int64_t step_a = p.transpose_a ? p.m : 1;
    const int64_t step_b = p.transpose_b ? 1 : p.n;
    Wide<In> sum = 0;
    for (int64_t j = 0; j < p.k; ++j) sum += ToWide(from_a[j * step_a]) * ToWide(from_b[j * step_b]);
    Wide<Out> value = sum;
    if (bias != nullptr) value += ToWide(bias[column]);
    y[i] = Narrow<Out>(p.relu && value < 0 ? 0 : value);
  }
};

class LoopGemm final : public Gemm {
 public:
  explicit LoopGemm(const GemmProblem& problem) : p_(problem) {}
  std::string_view implementation() const override { return "loop"; }
  void Run(Stream& stream, const void* a, const void* b, const void* bias, void* y, std::byte* /*scratch*/) override {
    WithFloat(p_.inputs, [&]<class In>() {
      if (p_.output == p_.inputs) {
        Launch<In, In>(stream, a, b, bias, y);
      } else {
        Launch<In, float>(stream, a, b, bias, y);
      }
    });
  }

 private:
  template <class In, class Out>
  void Launch(Stream& stream, const void* a, const void* b, const void* bias, void* y) const {
    ForEach(stream, p_.batch * p_.m * p_.n,
            Product<In, Out>{p_, static_cast<const In*>(a), static_cast<const In*>(b), static_cast<const Out*>(bias),
                             static_cast<Out*>(y)});
  }

  GemmProblem p_;
};

}  // namespace

std::unique_ptr<Gemm> MakeLoopGemm(const GemmProblem& problem) {
  const bool widens = problem.output == DType::kFloat32 && BytesOf(problem.inputs) == 2;
  Require(IsFloat(problem.inputs) && (problem.output == problem.inputs || widens), "Gemm: the types go together");
  return std::make_unique<LoopGemm>(problem);
}

}  // namespace moka::cuda
