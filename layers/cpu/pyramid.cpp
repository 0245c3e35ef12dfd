// Kernels of two-stage detection over pyramids. They choose, match and suppress a few thousand boxes one after another
// and decide by comparisons that float32 would turn near their bounds, so they run the references on doubles; the
// memory of these stays from run to run.
#include <vector>

#include "core/tensor.h"
#include "layers/bound_kernel.h"
#include "layers/cpu/kernels.h"

namespace moka {
namespace {

class DoublesKernel final : public Kernel {
 public:
  explicit DoublesKernel(const Node& node) : op_(*node.op), attributes_(node.attributes) {}

  void Bind(const KernelArgs& args) override {
    inputs_.assign(args.inputs.begin(), args.inputs.end());
    outputs_.assign(args.outputs.begin(), args.outputs.end());
    for (const Tensor& tensor : inputs_) in_.push_back(Room(tensor));
    for (const Tensor& tensor : outputs_) out_.push_back(Room(tensor));
  }

  void Run() override {
    for (size_t i = 0; i < in_.size(); ++i) CopyTensor(inputs_[i], Doubles(in_[i]));
    op_.reference(attributes_, in_, out_);
    for (size_t i = 0; i < out_.size(); ++i) CopyTensor(Doubles(out_[i]), outputs_[i]);
  }

 private:
  static RefTensor Room(const Tensor& tensor) {
    return {tensor.type(), std::vector<double>(static_cast<size_t>(tensor.shape().Count()))};
  }
  static Tensor Doubles(RefTensor& tensor) {
    return Tensor({DType::kFloat64, tensor.type.shape, {}}, tensor.values.data());
  }

  const OpDef& op_;
  Attributes attributes_;
  std::vector<Tensor> inputs_;
  std::vector<Tensor> outputs_;
  std::vector<RefTensor> in_;
  std::vector<RefTensor> out_;
};

KernelDef OnDoubles(const char* op) {
  return {.name = "moka",
          .op = op,
          .refuse = RefuseUnlessPlain,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            return std::make_unique<DoublesKernel>(query.node);
          }};
}

}  // namespace

KernelDef MokaMaskCuts() { return OnDoubles("mask_cuts"); }
KernelDef MokaMaskOverlaps() { return OnDoubles("mask_overlaps"); }
KernelDef MokaPictureRegions() { return OnDoubles("picture_regions"); }
KernelDef MokaPyramidAnchorTargets() { return OnDoubles("pyramid_anchor_targets"); }
KernelDef MokaPyramidProposals() { return OnDoubles("pyramid_proposals"); }
KernelDef MokaRegionDetections() { return OnDoubles("region_detections"); }
KernelDef MokaRowChannels() { return OnDoubles("row_channels"); }

}  // namespace moka
