// Matrix products of float32 over plain operands, or a right one in panels, whose inner loops keep more of the
// arithmetic than oneDNN's (tools/bench/gemm_bench.cpp); small and batched ones are left to it.
#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cpu/matmul/gemm.h"
#include "layers/kernels/cpu/matmul/panels.h"

namespace moka {
namespace {

struct Operands {
  gemm::Product product;
  bool transpose_a = false;
  bool transpose_b = false;
};

// A transposed operand is the same memory with its strides swapped; only packing notices.
Operands ReadOperands(const KernelQuery& query) {
  const Attributes& attributes = query.node.attributes;
  const Shape& a = query.inputs[0].shape;
  const Shape& y = query.outputs[0].shape;
  Operands o;
  o.transpose_a = attributes.Bool("transpose_a");
  o.transpose_b = attributes.Bool("transpose_b");
  const int last = y.rank() - 1;
  o.product = {.m = y[last - 1],
               .k = o.transpose_a ? a[last - 1] : a[last],
               .n = y[last],
               .has_bias = query.inputs.size() > 2,
               .relu = attributes.String("activation") == "relu",
               .packed_b = LiesInPanels(query.inputs[1], o.transpose_b)};
  return o;
}

class MatmulKernel final : public BoundKernel {
 public:
  explicit MatmulKernel(const Operands& o)
      : o_(o),
        plan_(gemm::MakePlan(o.product, gemm::BestTiles())),
        implementation_(StrCat("packed:", plan_.tiles->name)) {}
  std::string_view implementation() const override { return implementation_; }
  int64_t scratch_bytes() const override { return plan_.scratch_bytes(); }

  void Run() override {
    const auto& [m, k, n, has_bias, relu, packed_b] = o_.product;
    const gemm::Matrix a{in<float>(0), o_.transpose_a ? 1 : k, o_.transpose_a ? m : 1};
    const gemm::Matrix b{in<float>(1), o_.transpose_b ? 1 : n, o_.transpose_b ? k : 1};
    gemm::Run(plan_, a, b, has_bias ? in<float>(2) : nullptr, out<float>(0), scratch<float>());
  }

 private:
  Operands o_;
  gemm::Plan plan_;
  std::string implementation_;
};

std::string Refuse(const KernelQuery& query) {
  const bool transpose_b = query.node.attributes.Bool("transpose_b");
  if (std::string reason = RefuseUnlessPlainOrPanels(query, 1, transpose_b); !reason.empty()) return reason;
  for (const TensorType& type : query.inputs) {
    if (type.dtype != DType::kFloat32) return StrCat("it works on float32, not ", type.ToString());
  }
  if (&gemm::BestTiles() == &gemm::PortableTiles()) return "the processor has neither AVX2 with FMA nor AVX-512";
  const Shape& y = query.outputs[0].shape;
  const auto [m, k, n, has_bias, relu, packed_b] = ReadOperands(query).product;
  if (y.Count() != m * n) return "it multiplies one pair of matrices";
  // Below some rows the packing of b costs more than the inner loop saves.
  if (m < 256 || n < 64 || k < 16) return StrCat("the product ", m, "x", k, "x", n, " is small");
  return {};
}

}  // namespace

KernelDef MokaMatmul() {
  return {.name = "moka",
          .op = "matmul",
          .refuse = Refuse,
          .propose = [](const KernelQuery& query) -> std::optional<LayoutProposal> {
            return ProposePanels(query, 1, query.node.attributes.Bool("transpose_b"));
          },
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            return std::make_unique<MatmulKernel>(ReadOperands(query));
          }};
}

}  // namespace moka
