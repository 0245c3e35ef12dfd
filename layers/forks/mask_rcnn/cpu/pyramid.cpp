// Kernels of two-stage detection over pyramids. They choose, match and suppress a few thousand boxes one after another
// and decide by comparisons that float32 would turn near their bounds, so they run the references on doubles; the
// memory of these stays from run to run.
#include <utility>
#include <vector>

#include "core/device/tensor.h"
#include "core/text.h"
#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"

namespace moka {
namespace {

class DoublesKernel : public Kernel {
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

 protected:
  const Attributes& attributes() const { return attributes_; }
  const RefTensor& in(size_t i) const { return in_[i]; }

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

// Class 0 is the background's: an object of it, or of a class that the net lacks, is nobody's to learn.
class PictureRegionsKernel final : public DoublesKernel {
 public:
  using DoublesKernel::DoublesKernel;
  bool CanFault() const override { return true; }
  std::string TakeFault() override {
    const int64_t row = std::exchange(wrong_, -1);
    if (row < 0) return {};
    return StrCat("the label ", in(1).values[static_cast<size_t>(row) * 8 + 1], " of ground truth row ", row,
                  " is not a class from 1 to ", Classes() - 1);
  }

  void Run() override {
    DoublesKernel::Run();
    const std::vector<double>& rows = in(1).values;
    for (size_t i = 0; wrong_ < 0 && i + 8 <= rows.size(); i += 8) {
      const bool is_class = rows[i + 1] >= 1 && rows[i + 1] < static_cast<double>(Classes());
      const bool is_wrong = rows[i] >= 0 && !is_class;
      if (is_wrong) wrong_ = static_cast<int64_t>(i / 8);
    }
  }

 private:
  int64_t Classes() const { return attributes().Int("classes"); }

  int64_t wrong_ = -1;  // the first such row
};

template <class Made>
KernelDef OnDoubles(const char* op) {
  return {
      .name = "moka",
      .op = op,
      .refuse = RefuseUnlessPlain,
      .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> { return std::make_unique<Made>(query.node); }};
}

}  // namespace

KernelDef MokaMaskCuts() { return OnDoubles<DoublesKernel>("mask_cuts"); }
KernelDef MokaMaskOverlaps() { return OnDoubles<DoublesKernel>("mask_overlaps"); }
KernelDef MokaPictureRegions() { return OnDoubles<PictureRegionsKernel>("picture_regions"); }
KernelDef MokaPyramidAnchorTargets() { return OnDoubles<DoublesKernel>("pyramid_anchor_targets"); }
KernelDef MokaPyramidProposals() { return OnDoubles<DoublesKernel>("pyramid_proposals"); }
KernelDef MokaRegionDetections() { return OnDoubles<DoublesKernel>("region_detections"); }
KernelDef MokaRowChannels() { return OnDoubles<DoublesKernel>("row_channels"); }

}  // namespace moka
