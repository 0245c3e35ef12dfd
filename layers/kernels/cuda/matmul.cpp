// matmul through Gemm (layers/kernels/cuda/gemm.h), the bias and the ReLU in its epilogue.
#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cuda/gemm.h"

namespace moka {
namespace {

// Axes before the last two are one batch of independent products.
cuda::GemmProblem ProblemOf(const KernelQuery& query) {
  const Attributes& attributes = query.node.attributes;
  const Shape& a = query.inputs[0].shape;
  const Shape& y = query.outputs[0].shape;
  const int rank = a.rank();
  const bool transpose_a = attributes.Bool("transpose_a");
  return {.batch = a.Count(0, rank - 2),
          .m = y[rank - 2],
          .n = y[rank - 1],
          .k = a[transpose_a ? rank - 2 : rank - 1],
          .transpose_a = transpose_a,
          .transpose_b = attributes.Bool("transpose_b"),
          .has_bias = query.inputs.size() == 3,
          .relu = attributes.String("activation") == "relu",
          .inputs = query.inputs[0].dtype,
          .output = query.outputs[0].dtype};
}

class MatmulKernel final : public BoundKernel {
 public:
  explicit MatmulKernel(const KernelQuery& query) : gemm_(cuda::MakeGemm(ProblemOf(query), query)) {}
  int64_t scratch_bytes() const override { return gemm_->scratch_bytes(); }
  std::string_view implementation() const override { return gemm_->implementation(); }
  void Run() override {
    gemm_->Run(stream(), in<void>(0), in<void>(1), input_count() == 3 ? in<void>(2) : nullptr, out<void>(0),
               scratch<std::byte>());
  }

 private:
  std::unique_ptr<cuda::Gemm> gemm_;
};

std::string RefuseMatMul(const KernelQuery& query) {
  for (const TensorType& input : query.inputs) {
    if (input.dtype != query.outputs[0].dtype) return "inputs and output are not of one type";
  }
  return RefuseUnlessPlain(query);
}

}  // namespace

KernelDef CudaMatmul() {
  return {.name = "gemm",
          .op = "matmul",
          .device = DeviceKind::kCuda,
          .refuse = RefuseMatMul,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            return std::make_unique<MatmulKernel>(query);
          }};
}

}  // namespace moka
