// A kernel of a group (pointwise_group, reduce_group) made of the kernels of a row for one member, run one after
// another.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/kernel.h"
#include "layers/ops/maths/group.h"

namespace moka {

// The question that a kernel is asked about one member: it finds the expressions in the group's attributes.
struct MemberQuery {
  MemberQuery(const KernelQuery& group, const GroupSizes& sizes, size_t member)
      : inputs(sizes.InputsOf(member, group.inputs)), outputs(sizes.OutputsOf(member, group.outputs)), query(group) {
    query.inputs = inputs;
    query.outputs = outputs;
  }
  MemberQuery(const MemberQuery&) = delete;
  MemberQuery& operator=(const MemberQuery&) = delete;

  std::vector<TensorType> inputs;
  std::vector<TensorType> outputs;
  KernelQuery query;
};

// Requires: Bind before Run.
// Members run one after another, so they can share one scratch, as large as the largest needs.
class GroupKernel final : public Kernel {
 public:
  GroupKernel(const KernelDef& row, const KernelQuery& query) : sizes_(query.node.attributes) {
    for (size_t m = 0; m < sizes_.members; ++m) kernels_.push_back(row.make(MemberQuery(query, sizes_, m).query));
  }
  void Bind(const KernelArgs& args) override {
    for (size_t m = 0; m < sizes_.members; ++m) {
      const std::vector<Tensor> inputs = sizes_.InputsOf(m, args.inputs);
      const std::vector<Tensor> outputs = sizes_.OutputsOf(m, args.outputs);
      kernels_[m]->Bind({.inputs = inputs, .outputs = outputs, .scratch = args.scratch, .stream = args.stream});
    }
  }
  void Run() override {
    for (const std::unique_ptr<Kernel>& kernel : kernels_) kernel->Run();
  }
  int64_t scratch_bytes() const override {
    int64_t bytes = 0;
    for (const std::unique_ptr<Kernel>& kernel : kernels_) bytes = std::max(bytes, kernel->scratch_bytes());
    return bytes;
  }
  std::string_view implementation() const override { return kernels_.front()->implementation(); }

 private:
  GroupSizes sizes_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
};

// The members' own proposals; of the shared scalars the first member's.
template <KernelDef (*kRow)()>
std::optional<LayoutProposal> ProposeForGroup(const KernelQuery& query) {
  const GroupSizes sizes(query.node.attributes);
  LayoutProposal all;
  for (size_t m = 0; m < sizes.members; ++m) {
    const std::optional<LayoutProposal> own = kRow().propose(MemberQuery(query, sizes, m).query);
    if (!own) return std::nullopt;
    const auto end = own->inputs.begin() + static_cast<std::ptrdiff_t>(sizes.inputs);
    all.inputs.insert(all.inputs.end(), own->inputs.begin(), end);
    all.outputs.insert(all.outputs.end(), own->outputs.begin(), own->outputs.end());
  }
  all.inputs.resize(query.inputs.size());
  return all;
}

template <KernelDef (*kRow)()>
std::string RefuseForGroup(const KernelQuery& query) {
  const GroupSizes sizes(query.node.attributes);
  for (size_t m = 0; m < sizes.members; ++m) {
    if (std::string refusal = kRow().refuse(MemberQuery(query, sizes, m).query); !refusal.empty()) return refusal;
  }
  return {};
}

// The row of the group `op` that stands on a row for one member with `refuse` and `propose`.
template <KernelDef (*kRow)()>
KernelDef GroupRow(std::string op) {
  KernelDef row = kRow();
  row.op = std::move(op);
  row.refuse = RefuseForGroup<kRow>;
  row.propose = ProposeForGroup<kRow>;
  row.make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
    return std::make_unique<GroupKernel>(kRow(), query);
  };
  return row;
}

}  // namespace moka
