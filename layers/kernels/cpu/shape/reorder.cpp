// Any layout into any other, element by element. It is asked after oneDNN, which moves blocks as wholes but, from its
// version 3 on, has to be told a layout by name and has none for some of Moka's (panels of matrix products): those are
// of weights that never change, so that they are moved once.
#include "core/device/tensor.h"
#include "graph/graph.h"
#include "graph/kernel.h"

namespace moka {
namespace {

class ReorderKernel final : public Kernel {
 public:
  void Bind(const KernelArgs& args) override {
    from_ = args.inputs[0];
    to_ = args.outputs[0];
  }
  void Run() override { CopyTensor(from_, to_); }

 private:
  Tensor from_;
  Tensor to_;
};

std::string TakeAll(const KernelQuery&) { return {}; }

std::optional<LayoutProposal> ProposeNamed(const KernelQuery& query) {
  return LayoutProposal{{query.inputs[0].layout}, {Layout::Parse(query.node.attributes.String("layout"))}};
}

}  // namespace

KernelDef MokaReorder() {
  return {.name = "moka",
          .op = "reorder",
          .refuse = TakeAll,
          .propose = ProposeNamed,
          .make = [](const KernelQuery&) -> std::unique_ptr<Kernel> { return std::make_unique<ReorderKernel>(); },
          .turn = 1};
}

}  // namespace moka
