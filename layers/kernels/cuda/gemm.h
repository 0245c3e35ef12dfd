// Matrix products on a GPU: what matmul and the recurrences are made of. By cuBLASLt, or by a loop where there is none
// (a rehearsed GPU, a machine without the library).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "core/types.h"
#include "graph/kernel.h"

namespace moka {

class Stream;

namespace cuda {

// y [batch,m,n] = op(a) [batch,m,k] * op(b) [batch,k,n] (+ bias [n]), then a ReLU: dense row-major matrices; a is
// [batch,k,m] where transpose_a, b is [batch,n,k] where transpose_b. Sums in float, of doubles in double.
struct GemmProblem {
  int64_t batch = 1;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  bool has_bias = false;  // of the output's type
  bool relu = false;
  DType inputs = DType::kFloat32;  // of a and b
  DType output = DType::kFloat32;  // as inputs; or float32 where those are of a half type
  int64_t alignment_bytes = 64;    // of all pointers
};

class Gemm {
 public:
  virtual ~Gemm() = default;
  virtual int64_t scratch_bytes() const { return 0; }
  // Into the stream. bias is null without one. Requires: scratch_bytes() of scratch, private until it is done.
  virtual void Run(Stream& stream, const void* a, const void* b, const void* bias, void* y, std::byte* scratch) = 0;
  virtual std::string_view implementation() const = 0;
};

// For the query's device and its leave to use TF32.
std::unique_ptr<Gemm> MakeGemm(const GemmProblem& problem, const KernelQuery& query);

// The loop: one thread an element of y.
std::unique_ptr<Gemm> MakeLoopGemm(const GemmProblem& problem);

}  // namespace cuda
}  // namespace moka
