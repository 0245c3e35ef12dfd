// Products of a few rows, as inner products have them where a net answers one request: the right operand comes from
// memory once, and no packing would pay.
#include <algorithm>

#include "core/threads/parallel.h"
#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cpu/matmul/gemm.h"
#include "layers/kernels/cpu/matmul/panels.h"

namespace moka {
namespace {

class FewRowsKernel final : public BoundKernel {
 public:
  explicit FewRowsKernel(const KernelQuery& query)
      : has_bias_(query.inputs.size() > 2), implementation_(StrCat("dots:", gemm::BestTiles().name)) {
    const Shape& y = query.outputs[0].shape;
    const int last = y.rank() - 1;
    args_.m = y[last - 1];
    args_.n = y[last];
    args_.k = query.inputs[1].shape[query.inputs[1].shape.rank() - 1];
    args_.relu = query.node.attributes.String("activation") == "relu";
  }
  std::string_view implementation() const override { return implementation_; }

  void Run() override {
    gemm::DotArgs args = args_;
    args.a = in<float>(0);
    args.b = in<float>(1);
    args.bias = has_bias_ ? in<float>(2) : nullptr;
    args.y = out<float>(0);
    // A thread is worth waking for so many bytes of b.
    constexpr int64_t kGrainBytes = 64 << 10;
    const int64_t grain = std::max<int64_t>(1, kGrainBytes / (static_cast<int64_t>(sizeof(float)) * args.k));
    const auto dots = gemm::BestTiles().dots;
    ParallelFor(args.n, grain, [&](int64_t begin, int64_t end, int) { dots(args, begin, end); });
  }

 private:
  gemm::DotArgs args_;
  bool has_bias_;
  std::string implementation_;
};

std::string Refuse(const KernelQuery& query) {
  const Attributes& attributes = query.node.attributes;
  if (std::string reason = RefuseUnlessPlain(query); !reason.empty()) return reason;
  for (const TensorType& type : query.inputs) {
    if (type.dtype != DType::kFloat32) return StrCat("it works on float32, not ", type.ToString());
  }
  if (attributes.Bool("transpose_a") || !attributes.Bool("transpose_b"))
    return "it reads the right operand by its rows";
  const Shape& y = query.outputs[0].shape;
  const int last = y.rank() - 1;
  if (y.Count() != y[last - 1] * y[last]) return "it multiplies one pair of matrices";
  if (y[last - 1] > gemm::kMostDotRows) return StrCat(y[last - 1], " rows are more than ", gemm::kMostDotRows);
  return {};
}

}  // namespace

KernelDef FewRowsMatmul() {
  return {.name = "few_rows",
          .op = "matmul",
          .refuse = Refuse,
          .propose = [](const KernelQuery& query) -> std::optional<LayoutProposal> { return ProposePlain(query); },
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            return std::make_unique<FewRowsKernel>(query);
          }};
}

}  // namespace moka
