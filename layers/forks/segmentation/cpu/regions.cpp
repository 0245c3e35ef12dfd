// Kernels of border_weight and rand_score: the references' code over float32 (formulas in
// layers/forks/segmentation/ops).
#include "graph/kernel.h"
#include "layers/forks/segmentation/ops/border_weight.h"
#include "layers/forks/segmentation/ops/rand_score.h"
#include "layers/kernels/bound_kernel.h"

namespace moka {
namespace {

std::string RefuseRegions(const KernelQuery& query) {
  if (std::string reason = RefuseUnlessFloat32(query); !reason.empty()) return reason;
  return RefuseUnlessPlain(query);
}

class BorderWeightKernel final : public BoundKernel {
 public:
  explicit BorderWeightKernel(const KernelQuery& query)
      : attributes_(query.node.attributes), shape_(query.inputs[0].shape) {}
  void Run() override { WeighBorders(attributes_, shape_, in<float>(0), out<float>(0)); }

 private:
  Attributes attributes_;
  Shape shape_;
};

class RandScoreKernel final : public BoundKernel {
 public:
  explicit RandScoreKernel(const KernelQuery& query)
      : attributes_(query.node.attributes), shape_(query.inputs[0].shape) {}
  void Run() override { ScoreRand(attributes_, shape_, in<float>(0), in<float>(1), out<float>(0)); }

 private:
  Attributes attributes_;
  Shape shape_;
};

template <class T>
std::unique_ptr<Kernel> MakeRegions(const KernelQuery& query) {
  return std::make_unique<T>(query);
}

}  // namespace

KernelDef MokaBorderWeight() {
  return {.name = "moka", .op = "border_weight", .refuse = RefuseRegions, .make = MakeRegions<BorderWeightKernel>};
}

KernelDef MokaRandScore() {
  return {.name = "moka", .op = "rand_score", .refuse = RefuseRegions, .make = MakeRegions<RandScoreKernel>};
}

}  // namespace moka
