// Precision (Micikevicius et al., "Mixed precision training", ICLR 2018). Products and convolutions read and write the
// half type asked for; what lies between them follows; losses, norms, statistics, reductions and updates read and write
// float32. A cast stands before an input that is of another type; expressions (pointwise, reduce_sum) are computed in
// float32 whatever they read and name the type they give instead, so that they need no casts.
// Requires: a verified graph. Ensures: outputs and assigned values as float32 as before; integers and float64
// untouched; a second run changes nothing. With float32 or tf32 there is nothing to do.
#include <algorithm>
#include <map>
#include <utility>

#include "core/text.h"
#include "graph/layer_names.h"
#include "graph/op.h"
#include "graph/passes/passes.h"

namespace moka {
namespace {

class PrecisionPass {
 public:
  PrecisionPass(Graph& graph, const CompileOptions& options, DType half)
      : graph_(graph), options_(options), half_(half), uses_(graph.Uses()) {}

  bool Run() {
    for (const NodeId id : graph_.TopologicalOrder()) {
      const Node node = graph_.node(id);  // a copy: casts are added below
      if (node.op->name == "cast") continue;
      if (IsExpression(node)) {
        VisitExpression(node);
      } else {
        Visit(node);
      }
    }
    for (GraphOutput& output : graph_.outputs()) output.value = InFloat32(output.value);
    for (Assignment& assignment : graph_.assignments()) {
      if (!IsHalf(TypeOf(assignment.state))) assignment.value = InFloat32(assignment.value);
    }
    return changed_;
  }

 private:
  static bool IsExpression(const Node& node) { return node.op->name == "pointwise" || node.op->name == "reduce_sum"; }

  DType TypeOf(ValueId id) const { return graph_.type(id).dtype; }
  bool ReadsHalf(const Node& node) const {
    return std::ranges::any_of(node.inputs, [&](ValueId id) { return IsHalf(TypeOf(id)); });
  }

  // Whether a node reads and writes float32 wherever it stands.
  bool IsKept(const Node& node) const {
    if (node.origin.pass == "update" || node.op->precision == Precision::kKeep32) return true;
    if (options_.keep32_layers.empty()) return false;
    const std::vector<std::string> layers = LayersOf(node.origin.layer);
    return std::ranges::any_of(layers, [&](const auto& name) { return options_.keep32_layers.contains(name); });
  }

  // The value in another type; one cast for all who want it, none back to where it came from.
  ValueId Cast(ValueId id, DType dtype, NodeOrigin origin) {
    if (TypeOf(id) == dtype) return id;
    changed_ = true;
    const NodeId producer = graph_.value(id).producer;
    if (producer != kNoId && graph_.node(producer).op->name == "cast") {
      const ValueId source = graph_.node(producer).inputs[0];
      if (TypeOf(source) == dtype) return source;
    }
    const auto known = casts_.find({id, dtype});
    if (known != casts_.end()) return known->second;
    origin.pass = "precision";
    const ValueId cast =
        GraphBuilder(graph_, std::move(origin)).Add1("cast", {id}, {{"dtype", std::string(NameOf(dtype))}});
    casts_.emplace(std::pair(id, dtype), cast);
    return cast;
  }

  ValueId InFloat32(ValueId id) {
    if (!IsHalf(TypeOf(id))) return id;
    return Cast(id, DType::kFloat32, graph_.node(graph_.value(id).producer).origin);
  }

  void Retype(const Node& node, const Attributes& attributes) {
    const std::vector<TensorType> before = graph_.OutputTypes(node);
    changed_ = changed_ || !(attributes == node.attributes);
    graph_.SetAttributes(node.id, attributes);
    changed_ = changed_ || before != graph_.OutputTypes(node);
  }

  static bool MayBeHalf(const Node& node, size_t input) {
    return node.op->takes_half == nullptr || node.op->takes_half(node.attributes, static_cast<int>(input));
  }

  void Visit(const Node& node) {
    bool is_half = !IsKept(node);
    if (is_half && node.op->precision == Precision::kFollow) {
      is_half = false;
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        is_half = is_half || (IsHalf(TypeOf(node.inputs[i])) && MayBeHalf(node, i));
      }
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const DType from = TypeOf(node.inputs[i]);
      if (from != DType::kFloat32 && !IsHalf(from)) continue;
      const DType wanted = is_half && MayBeHalf(node, i) ? half_ : DType::kFloat32;
      graph_.SetInput(node.id, static_cast<int>(i), Cast(node.inputs[i], wanted, node.origin));
    }
    Retype(node, node.attributes);
  }

  // Whether all who read a value compute in float32 from it: then it need not be rounded.
  bool IsReadInFloat32(ValueId id) const {
    return std::ranges::all_of(uses_[static_cast<size_t>(id)], [&](NodeId reader) {
      if (!graph_.IsAlive(reader)) return true;
      const Node& node = graph_.node(reader);
      if (IsKept(node)) return true;
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] == id && MayBeHalf(node, i)) return false;
      }
      return true;
    });
  }

  // A result of the shape of a half input is half as that is: smaller inputs are coefficients.
  bool GivesHalf(const Node& node) const {
    if (node.op->name == "reduce_sum" || IsKept(node)) return false;
    const Shape shape = graph_.shape(node.outputs[0]);
    const bool follows =
        std::ranges::any_of(node.inputs, [&](ValueId id) { return IsHalf(TypeOf(id)) && graph_.shape(id) == shape; });
    return follows && !std::ranges::all_of(node.outputs, [&](ValueId id) { return IsReadInFloat32(id); });
  }

  void VisitExpression(const Node& node) {
    if (!ReadsHalf(node)) return;
    const std::string dtype(NameOf(GivesHalf(node) ? half_ : DType::kFloat32));
    Attributes attributes = node.attributes;
    if (node.op->name == "reduce_sum") {
      attributes.Set("dtype", dtype);
    } else {
      attributes.Set("dtypes", Strings(node.outputs.size(), dtype));
    }
    Retype(node, attributes);
  }

  Graph& graph_;
  const CompileOptions& options_;
  DType half_;
  std::vector<std::vector<NodeId>> uses_;  // by ValueId, without the casts
  std::map<std::pair<ValueId, DType>, ValueId> casts_;
  bool changed_ = false;
};

}  // namespace

bool AssignPrecision(Graph& graph, const PassContext& context) {
  const Compute compute = context.options.compute;
  if (compute == Compute::kAuto) {
    throw Error(ErrorKind::kConfig, {}, "precision auto is not chosen here", "name float32, bfloat16 or float16");
  }
  if (compute != Compute::kFloat16 && compute != Compute::kBFloat16) return false;
  return PrecisionPass(graph, context.options, compute == Compute::kFloat16 ? DType::kFloat16 : DType::kBFloat16).Run();
}

}  // namespace moka
