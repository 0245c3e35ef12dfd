// Ops are sorted by name and searched by bisection; a kernel's rows keep their turn. An op that GPUs leave to the CPU
// gets a row that refuses, so that --explain can say why.
#include "graph/op.h"

#include <algorithm>

#include "core/text.h"
#include "graph/graph.h"

namespace moka {
namespace {

// The refusal that announces and explains an op that the CPU does in a program of a GPU.
std::string RefuseOnHost(const KernelQuery& query) { return StrCat(query.node.op->on_host, ": the CPU does it"); }

}  // namespace

Catalog::Catalog(std::vector<OpDef> ops, std::vector<KernelDef> kernels)
    : ops_(std::move(ops)), kernels_(std::move(kernels)) {
  std::sort(ops_.begin(), ops_.end(), [](const OpDef& a, const OpDef& b) { return a.name < b.name; });
  for (size_t i = 1; i < ops_.size(); ++i) {
    Require(ops_[i - 1].name != ops_[i].name, StrCat("op ", ops_[i].name, " is listed once"));
  }
  for (const OpDef& op : ops_) {
    if (op.on_host.empty()) continue;
    kernels_.push_back({.name = "none", .op = op.name, .device = DeviceKind::kCuda, .refuse = RefuseOnHost});
  }
  std::ranges::stable_sort(kernels_, {}, &KernelDef::turn);
  for (const KernelDef& kernel : kernels_) {
    Require(FindOp(kernel.op) != nullptr, StrCat("kernel ", kernel.name, " names an op of the catalogue: ", kernel.op));
  }
}

const OpDef* Catalog::FindOp(std::string_view name) const {
  const auto it =
      std::lower_bound(ops_.begin(), ops_.end(), name, [](const OpDef& op, std::string_view n) { return op.name < n; });
  return it != ops_.end() && it->name == name ? &*it : nullptr;
}

const OpDef& Catalog::Op(std::string_view name) const {
  const OpDef* op = FindOp(name);
  Require(op != nullptr, StrCat("op \"", name, "\" is in the catalogue"));
  return *op;
}

std::vector<const KernelDef*> Catalog::KernelsOf(std::string_view op, DeviceKind device) const {
  std::vector<const KernelDef*> kernels;
  for (const KernelDef& kernel : kernels_) {
    if (kernel.op == op && kernel.device == device) kernels.push_back(&kernel);
  }
  return kernels;
}

}  // namespace moka
