// square_sum over float32 tensors as they lie: the padding of blocked layouts is zero and adds nothing. Squares of
// floats are exact in double, where sixteen chains add them, so that every instruction set gives the same bits; chunks
// of a fixed size are shared among threads and joined in their order.
#include <algorithm>
#include <vector>

#include "core/threads/parallel.h"
#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cpu/instructions.h"
#include "layers/kernels/cpu/tiles/tile_math.h"
#include "layers/kernels/cpu/vector_targets.h"

namespace moka {
namespace {

constexpr int64_t kChunk = 16384;  // elements: 64 KiB
constexpr int64_t kGrain = 4;      // chunks that are worth a thread
constexpr int64_t kLanes = 16;

MOKA_INLINE double SquaresLoop(const float* x, int64_t n) {
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
#pragma omp simd
    for (int64_t j = 0; j < kLanes; ++j) {
      const auto value = static_cast<double>(x[i + j]);
      lanes[j] += value * value;
    }
  }
  for (; i < n; ++i) lanes[0] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  double sum = 0;
  for (int64_t j = 0; j < kLanes; ++j) sum += lanes[j];
  return sum;
}

double Squares(const float* x, int64_t n) { return SquaresLoop(x, n); }

#if defined(__x86_64__)
MOKA_AVX2 double SquaresAvx2(const float* x, int64_t n) { return SquaresLoop(x, n); }
MOKA_AVX512 double SquaresAvx512(const float* x, int64_t n) { return SquaresLoop(x, n); }
#endif

using SquaresOf = double (*)(const float* x, int64_t n);

SquaresOf BestSquares() {
#if defined(__x86_64__)
  if (HasAvx512()) return SquaresAvx512;
  if (HasAvx2()) return SquaresAvx2;
#endif
  return Squares;
}

// A part of an input that one thread sums.
struct SquareChunk {
  size_t input = 0;
  int64_t begin = 0;
  int64_t count = 0;
};

class SquareSumKernel final : public BoundKernel {
 public:
  explicit SquareSumKernel(const KernelQuery& query) : squares_(BestSquares()) {
    for (size_t input = 1; input < query.inputs.size(); ++input) {
      const int64_t count = query.inputs[input].StoredCount();
      for (int64_t begin = 0; begin < count; begin += kChunk) {
        chunks_.push_back({input, begin, std::min(kChunk, count - begin)});
      }
    }
  }
  int64_t scratch_bytes() const override {
    return static_cast<int64_t>(chunks_.size()) * static_cast<int64_t>(sizeof(double));
  }

  void Run() override {
    double sum = 0;
    if (in<float>(0)[0] != 0) {
      auto* partial = scratch<double>();
      const auto count = static_cast<int64_t>(chunks_.size());
      ParallelFor(count, kGrain, [&](int64_t begin, int64_t end, int) {
        for (int64_t c = begin; c < end; ++c) {
          const SquareChunk& chunk = chunks_[static_cast<size_t>(c)];
          partial[c] = squares_(in<float>(chunk.input) + chunk.begin, chunk.count);
        }
      });
      for (int64_t c = 0; c < count; ++c) sum += partial[c];
    }
    *out<float>(0) = static_cast<float>(sum);
  }

 private:
  SquaresOf squares_;
  std::vector<SquareChunk> chunks_;
};

std::string Refuse(const KernelQuery& query) {
  const std::string refusal = RefuseUnlessFloat32(query);
  return !refusal.empty() || query.outputs[0].layout.is_plain() ? refusal : "the sum is one number";
}

// Any layout, as it comes.
std::optional<LayoutProposal> Propose(const KernelQuery& query) {
  LayoutProposal proposal;
  for (const TensorType& input : query.inputs) proposal.inputs.push_back(input.layout);
  proposal.outputs.emplace_back();
  return proposal;
}

}  // namespace

KernelDef MokaSquareSum() {
  return {.name = "moka",
          .op = "square_sum",
          .refuse = Refuse,
          .propose = Propose,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            return std::make_unique<SquareSumKernel>(query);
          }};
}

}  // namespace moka
