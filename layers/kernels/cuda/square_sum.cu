// square_sum over float32 tensors as they lie: a block of threads a chunk, in double, and one block more that joins the
// chunks where there are several. Where it is off the launches read nothing but that.
#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cuda/launch.cuh"
#include "layers/kernels/cuda/row.h"
#include "layers/ops/maths/square_sum.h"

namespace moka {
namespace {

constexpr int64_t kChunk = 8192;  // elements

// Row c is chunk c of the tensors one behind the other, each cut into chunks by itself.
struct SquareRow {
  const float* is_on;
  const float* x[kMostSquared];
  int64_t count[kMostSquared];
  int64_t first[kMostSquared];  // its first chunk
  int tensors;
  double* partial;
  float* y;  // in place of partial, where there is one chunk

  using State = double;
  __host__ __device__ State Start() const { return 0; }
  __host__ __device__ void Add(int64_t row, int64_t i, State& sum) const {
    if (*is_on == 0) return;
    int t = tensors - 1;
    while (row < first[t]) --t;
    const int64_t at = (row - first[t]) * kChunk + i;
    if (at >= count[t]) return;
    const auto value = static_cast<double>(x[t][at]);
    sum += value * value;
  }
  __host__ __device__ static void Join(State& sum, const State& later) { sum += later; }
  __host__ __device__ void Write(int64_t, int64_t, const State&) const {}
  __host__ __device__ void Finish(int64_t row, const State& sum) const {
    if (y != nullptr) {
      *y = static_cast<float>(sum);
    } else {
      partial[row] = sum;
    }
  }
};

struct SquareEnd {
  const double* partial;
  float* y;

  using State = double;
  __host__ __device__ State Start() const { return 0; }
  __host__ __device__ void Add(int64_t, int64_t chunk, State& sum) const { sum += partial[chunk]; }
  __host__ __device__ static void Join(State& sum, const State& later) { sum += later; }
  __host__ __device__ void Write(int64_t, int64_t, const State&) const {}
  __host__ __device__ void Finish(int64_t, const State& sum) const { *y = static_cast<float>(sum); }
};

class SquareSumKernel final : public BoundKernel {
 public:
  explicit SquareSumKernel(const KernelQuery& query) {
    for (const TensorType& x : query.inputs.subspan(1)) {
      counts_.push_back(x.StoredCount());
      first_.push_back(chunks_);
      chunks_ += (counts_.back() + kChunk - 1) / kChunk;
    }
  }
  int64_t scratch_bytes() const override { return chunks_ * static_cast<int64_t>(sizeof(double)); }

  void Run() override {
    SquareRow rows{};
    rows.is_on = in<float>(0);
    for (size_t t = 0; t < counts_.size(); ++t) {
      rows.x[t] = in<float>(t + 1);
      rows.count[t] = counts_[t];
      rows.first[t] = first_[t];
    }
    rows.tensors = static_cast<int>(counts_.size());
    rows.partial = scratch<double>();
    rows.y = chunks_ == 1 ? out<float>(0) : nullptr;
    cuda::ForEachRow(stream(), chunks_, kChunk, rows);
    if (chunks_ != 1) cuda::ForEachRow(stream(), 1, chunks_, SquareEnd{scratch<double>(), out<float>(0)});
  }

 private:
  std::vector<int64_t> counts_;
  std::vector<int64_t> first_;
  int64_t chunks_ = 0;
};

std::string Refuse(const KernelQuery& query) {
  const std::string refusal = RefuseUnlessFloat32(query);
  return !refusal.empty() || query.outputs[0].layout.is_plain() ? refusal : "the sum is one number";
}

// Any layout, as it comes: padding is zero.
std::optional<LayoutProposal> Propose(const KernelQuery& query) {
  LayoutProposal proposal;
  for (const TensorType& input : query.inputs) proposal.inputs.push_back(input.layout);
  proposal.outputs.emplace_back();
  return proposal;
}

}  // namespace

KernelDef CudaSquareSum() { return cuda::OwnRow<SquareSumKernel>("square_sum", Refuse, Propose); }

}  // namespace moka
