// Asks the rows of kernels in their order and takes the first that accepts, or the fastest if times are known. The
// reference kernel is last in every list, so that a graph always runs.
#include "graph/binding.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>

#include "core/log.h"
#include "core/text.h"
#include "graph/hosted_kernel.h"
#include "graph/kernel_search.h"
#include "graph/layer_names.h"
#include "graph/widened_kernel.h"

namespace moka {
namespace {

// Runs OpDef::reference over converted copies: slow, exact, any dtype, plain layouts.
class ReferenceKernel : public Kernel {
 public:
  explicit ReferenceKernel(const Node& node) : op_(*node.op), attributes_(node.attributes) {}

  void Bind(const KernelArgs& args) override {
    inputs_.assign(args.inputs.begin(), args.inputs.end());
    outputs_.assign(args.outputs.begin(), args.outputs.end());
  }

  void Run() override {
    std::vector<RefTensor> in;
    for (const Tensor& tensor : inputs_) in.push_back(ToDouble(tensor));
    std::vector<RefTensor> out;
    for (const Tensor& tensor : outputs_) {
      out.push_back({tensor.type(), std::vector<double>(static_cast<size_t>(tensor.shape().Count()))});
    }
    op_.reference(attributes_, in, out);
    for (size_t i = 0; i < out.size(); ++i) {
      const TensorType type{DType::kFloat64, outputs_[i].shape(), {}};
      CopyTensor(Tensor(type, out[i].values.data()), outputs_[i]);
    }
  }

 private:
  static RefTensor ToDouble(const Tensor& tensor) {
    RefTensor ref{tensor.type(), std::vector<double>(static_cast<size_t>(tensor.shape().Count()))};
    CopyTensor(tensor, Tensor({DType::kFloat64, tensor.shape(), {}}, ref.values.data()));
    return ref;
  }

  const OpDef& op_;
  Attributes attributes_;
  std::vector<Tensor> inputs_;
  std::vector<Tensor> outputs_;
};

// Said once an op and manner.
void Announce(const std::string& op, std::string_view manner, const std::vector<std::string>& refusals) {
  static std::mutex mutex;
  static std::set<std::string> announced;
  const std::scoped_lock lock(mutex);
  if (!announced.insert(StrCat(op, " ", manner)).second) return;
  LogWarning(StrCat("op ", op, " runs ", manner, ": ",
                    refusals.empty() ? std::string("no kernel is listed") : Join(refusals, "; ")));
}

// Asks the rows about a query: takes the first that accepts, or the fastest where a search is given. Without any the
// binding has no object.
void Choose(const Graph& graph, const KernelQuery& query, const CompileOptions& options, Binding& binding) {
  std::vector<const KernelDef*> accepted;
  for (const KernelDef* row : UsableKernels(graph.catalog(), query.node.op->name, options)) {
    const std::string refusal = row->refuse(query);
    if (!refusal.empty()) {
      binding.refusals.push_back(StrCat(row->name, ": ", refusal));
      continue;
    }
    accepted.push_back(row);
    if (!IsSearched(query.node, options)) break;
  }
  if (accepted.empty()) return;
  size_t best = 0;
  if (accepted.size() > 1) {
    const std::vector<double> ms = options.search->Milliseconds(accepted, query, options.on_pulse);
    best = KernelSearch::Best(ms);
    for (size_t i = 0; i < ms.size(); ++i) {
      if (i == best) continue;
      binding.refusals.push_back(
          StrCat(accepted[i]->name, ": takes ", ms[i], " ms, ", accepted[best]->name, " ", ms[best], " ms"));
    }
  }
  binding.kernel = accepted[best]->name;
  binding.object = accepted[best]->make(query);
}

// A kernel for float32 between conversions, where the CPU has none for a half type.
void ChooseWidened(const Graph& graph, const KernelQuery& query, const CompileOptions& options, Binding& binding) {
  if (!HasHalf(query.inputs) && !HasHalf(query.outputs)) return;
  const std::vector<TensorType> inputs = Widened(query.inputs);
  const std::vector<TensorType> outputs = Widened(query.outputs);
  Choose(graph, QueryOf(query.node, inputs, outputs, options), options, binding);
  if (!binding.object) return;
  binding.kernel = StrCat("converted_", binding.kernel);
  binding.object = MakeWidenedKernel(std::move(binding.object), query);
}

}  // namespace

std::vector<const KernelDef*> UsableKernels(const Catalog& catalog, std::string_view op,
                                            const CompileOptions& options) {
  std::vector<const KernelDef*> rows = catalog.KernelsOf(op, options.device.kind);
  const auto is_in = [&](const std::set<std::string>& names, const KernelDef* row) {
    return names.contains(row->name) || names.contains(StrCat(op, "/", row->name));
  };
  std::erase_if(rows, [&](const KernelDef* row) { return is_in(options.disabled_kernels, row); });
  std::stable_partition(rows.begin(), rows.end(),
                        [&](const KernelDef* row) { return is_in(options.preferred_kernels, row); });
  return rows;
}

KernelQuery QueryOf(const Node& node, std::span<const TensorType> inputs, std::span<const TensorType> outputs,
                    const CompileOptions& options) {
  return {.node = node,
          .inputs = inputs,
          .outputs = outputs,
          .deterministic = options.deterministic,
          .device = options.device,
          .allows_tf32 = options.compute == Compute::kTf32,
          .times_plans = options.search != nullptr,
          .collectives = options.collectives.get()};
}

const KernelDef* FirstRow(const Graph& graph, NodeId id, const CompileOptions& options) {
  const Node& node = graph.node(id);
  const std::vector<TensorType> inputs = graph.InputTypes(node);
  const std::vector<TensorType> outputs = graph.OutputTypes(node);
  const KernelQuery query = QueryOf(node, inputs, outputs, options);
  const std::vector<const KernelDef*> rows = UsableKernels(graph.catalog(), node.op->name, options);
  const auto it = std::ranges::find_if(rows, [&](const KernelDef* row) { return row->refuse(query).empty(); });
  return it == rows.end() ? nullptr : *it;
}

bool IsSearched(const Node& node, const CompileOptions& options) {
  return options.search != nullptr && options.device.is_cpu() && options.preferred_kernels.empty() &&
         node.op->flops != nullptr;
}

Binding BindKernel(const Graph& graph, NodeId id, const CompileOptions& options) {
  const Node& node = graph.node(id);
  Binding binding;
  binding.node = id;
  // An alias that has kernels computes nothing but waits.
  if (node.op->is_alias && graph.catalog().KernelsOf(node.op->name, options.device.kind).empty()) {
    binding.kernel = "alias";
    return binding;
  }
  const std::vector<TensorType> inputs = graph.InputTypes(node);
  const std::vector<TensorType> outputs = graph.OutputTypes(node);
  const KernelQuery query = QueryOf(node, inputs, outputs, options);
  Choose(graph, query, options, binding);
  if (!binding.object && options.device.is_cpu()) ChooseWidened(graph, query, options, binding);
  if (binding.object) return binding;
  const auto plain = [](const TensorType& type) { return type.layout.is_plain(); };
  if (!std::all_of(inputs.begin(), inputs.end(), plain) || !std::all_of(outputs.begin(), outputs.end(), plain)) {
    throw Error(ErrorKind::kUnavailable, node.origin.place,
                StrCat("no kernel runs ", node.op->name, " of layer \"", LayersText(node.origin.layer),
                       "\": ", Join(binding.refusals, "; ")));
  }
  if (options.device.is_cpu()) {
    Announce(node.op->name, "by its slow reference", binding.refusals);
    binding.kernel = "reference";
    binding.object = std::make_unique<ReferenceKernel>(node);
    return binding;
  }
  Announce(node.op->name, "on the CPU", binding.refusals);
  CompileOptions on_host = options;
  on_host.device = {};
  Binding hosted = BindKernel(graph, id, on_host);
  binding.kernel = StrCat("cpu_", hosted.kernel);
  binding.object = MakeHostedKernel(std::move(hosted.object), query);
  return binding;
}

}  // namespace moka
