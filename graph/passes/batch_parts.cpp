// Ops are by image if all operands and results have the images first and no element depends on another image; the list
// is explicit, as a wrong entry would change results silently.
#include "graph/passes/batch_parts.h"

#include <algorithm>
#include <map>

#include "graph/op.h"

namespace moka {
namespace {

// The attribute of backward ops by which they know the shape of their result.
constexpr std::string_view kInputShape = "input_shape";

// Returns the node's attributes with its result's size changed to that of a part of the images.
Attributes OfPart(const Node& node, int64_t parts) {
  Attributes attributes = node.attributes;
  if (attributes.Has(kInputShape)) {
    Ints shape = attributes.Get<Ints>(kInputShape);
    shape[0] /= parts;
    attributes.Set(std::string(kInputShape), std::move(shape));
  }
  return attributes;
}

}  // namespace

bool BatchParts::IsFixed(ValueId id) const {
  const Value& value = graph_.value(id);
  return value.producer != kNoId ? static_cast<bool>(constant_[static_cast<size_t>(value.producer)])
                                 : value.kind == ValueKind::kState;
}

bool BatchParts::HasImages(ValueId id, int64_t images) const {
  const Shape shape = graph_.shape(id);
  return shape.rank() >= 2 && shape[0] == images;
}

bool BatchParts::IsByImage(const Node& node, int64_t images) const {
  if (node.op->by_image == nullptr) return false;
  if (!std::ranges::all_of(node.outputs, [&](ValueId id) { return HasImages(id, images); })) return false;
  const ByImage way = node.op->by_image(node.attributes, graph_.shape(node.outputs[0]).rank());
  if (way == ByImage::kNever) return false;
  const auto goes_into_each = [&](const Shape& shape) {
    if (way == ByImage::kWithBroadcast) return shape.rank() == 0 || shape[0] == 1;
    return way == ByImage::kWithWeights;
  };
  return std::ranges::all_of(
      node.inputs, [&](ValueId id) { return IsFixed(id) ? goes_into_each(graph_.shape(id)) : HasImages(id, images); });
}

void BatchParts::Repeat(const std::vector<NodeId>& nodes, const std::set<ValueId>& leaving, int64_t count,
                        std::string_view pass, bool marks_nodes) {
  std::map<ValueId, std::vector<ValueId>> parts_of;  // by value
  const int first = graph_.node(nodes.front()).origin.sequence;
  const int room = std::max(0, graph_.node(nodes.back()).origin.sequence - first);
  const auto parts = static_cast<size_t>(count);
  const auto origin_of = [&](const Node& node, int sequence) {
    NodeOrigin origin = node.origin;
    origin.pass = pass;
    origin.sequence = sequence;
    return origin;
  };
  for (const NodeId id : nodes) {
    const Node node = graph_.node(id);
    for (const ValueId output : node.outputs) parts_of.emplace(output, std::vector<ValueId>{});
    for (const ValueId input : node.inputs) {
      if (!IsFixed(input) && !parts_of.contains(input)) parts_of[input] = Slice(input, origin_of(node, first), parts);
    }
  }
  for (size_t part = 0; part < parts; ++part) {
    for (const NodeId id : nodes) {
      const Node node = graph_.node(id);
      // One part after another, also when reorders come between.
      NodeOrigin origin = origin_of(node, first + std::min(static_cast<int>(part), room));
      if (!marks_nodes) origin.pass = node.origin.pass;
      std::vector<ValueId> inputs = node.inputs;
      for (ValueId& input : inputs) {
        if (!IsFixed(input)) input = parts_of[input][part];
      }
      const std::vector<ValueId> outputs = GraphBuilder(graph_, origin).Add(node.op->name, inputs, OfPart(node, count));
      for (size_t k = 0; k < outputs.size(); ++k) parts_of[node.outputs[k]].push_back(outputs[k]);
    }
  }
  for (const NodeId id : nodes) {
    const Node node = graph_.node(id);
    for (const ValueId output : node.outputs) {
      if (!leaving.contains(output)) continue;
      const GraphBuilder after(graph_, origin_of(node, first + room));
      const ValueId whole = after.Add1("concat", parts_of[output], {{"axis", int64_t{0}}});
      graph_.SetName(whole, graph_.value(output).name);
      graph_.ReplaceUses(output, whole);
    }
  }
  for (auto id = nodes.rbegin(); id != nodes.rend(); ++id) graph_.RemoveNode(*id);
}

std::vector<ValueId> BatchParts::Slice(ValueId id, NodeOrigin origin, size_t parts) const {
  const Ints sizes(parts, graph_.shape(id)[0] / static_cast<int64_t>(parts));
  return GraphBuilder(graph_, std::move(origin)).Add("slice", {id}, {{"axis", int64_t{0}}, {"sizes", sizes}});
}

}  // namespace moka
