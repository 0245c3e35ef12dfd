// Assigns nodes to stages by their layer, cuts values that cross a border into outputs of one program and inputs of the
// next, and keeps the backward part beside its forward one (Huang et al., "GPipe", NeurIPS 2019).
#include "graph/partition.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/text.h"
#include "graph/op.h"

namespace moka {
namespace {

constexpr int kAnyStage = -1;  // reads nothing: every stage that needs it computes it

class Cutter {
 public:
  Cutter(const Graph& graph, const PartitionSpec& spec)
      : graph_(graph),
        spec_(spec),
        order_(graph.TopologicalOrder()),
        stage_(static_cast<size_t>(graph.node_limit()), kAnyStage) {
    for (const NodeId id : order_) Place(graph_.node(id));
  }

  int StageOf(ValueId value) const {
    const NodeId producer = graph_.value(value).producer;
    return producer == kNoId ? 0 : std::max(stage_[static_cast<size_t>(producer)], 0);
  }

  StageGraphs Cut(int stage) {
    for (const NodeId id : order_) {
      if (stage_[static_cast<size_t>(id)] != kAnyStage) FindReads(graph_.node(id));
    }
    StageGraphs cut(graph_.catalog());
    Build(cut.forward, stage, false);
    Build(cut.backward, stage, true);
    for (const auto& [value, reads] : crossing_) {
      const bool is_backward = IsBackward(value);
      KeptValue kept = Describe(value, reads, stage);
      const bool is_mine = kept.from == stage || kept.is_data;
      const bool is_read = kept.is_read_by_forward || kept.is_read_by_backward;
      if (!is_read && (!is_mine || kept.readers.empty())) continue;
      if (kept.is_data && !kept.is_read_by_backward) continue;
      if (is_backward && kept.from == stage && kept.readers.empty()) continue;
      if (is_mine && !kept.is_data) {
        Graph& maker = is_backward ? cut.backward : cut.forward;
        maker.AddOutput(kept.name, (is_backward ? backward_map_ : forward_map_).at(value));
      }
      (is_backward ? cut.gradients : cut.values).push_back(std::move(kept));
    }
    return cut;
  }

 private:
  struct Reader {
    int stage;
    bool is_backward;
    friend auto operator<=>(const Reader&, const Reader&) = default;
  };

  bool IsBackwardNode(NodeId id) const { return id >= spec_.first_backward; }
  bool IsBackward(ValueId value) const {
    const NodeId producer = graph_.value(value).producer;
    return producer != kNoId && IsBackwardNode(producer);
  }
  std::string NameOf(ValueId value) const {
    const Value& v = graph_.value(value);
    return v.kind == ValueKind::kInput ? v.name : StrCat("@v", value);
  }

  void Place(const Node& node) {
    int& stage = stage_[static_cast<size_t>(node.id)];
    const auto layer = spec_.stage_of.find(node.origin.layer);
    if (layer != spec_.stage_of.end()) {
      stage = layer->second;
      return;
    }
    for (const ValueId input : node.inputs) {
      const NodeId producer = graph_.value(input).producer;
      const int of_input = producer == kNoId ? kAnyStage : stage_[static_cast<size_t>(producer)];
      if (of_input == kAnyStage) continue;
      if (stage == kAnyStage) stage = of_input;
      stage = IsBackwardNode(node.id) ? std::min(stage, of_input) : std::max(stage, of_input);
    }
  }

  void FindReads(const Node& node) {
    const Reader reader{stage_[static_cast<size_t>(node.id)], IsBackwardNode(node.id)};
    for (const ValueId input : node.inputs) {
      const Value& value = graph_.value(input);
      if (value.kind == ValueKind::kState) continue;
      if (value.kind == ValueKind::kInput) {
        crossing_[input].insert(reader);
        continue;
      }
      const int from = stage_[static_cast<size_t>(value.producer)];
      if (from == kAnyStage) continue;
      const bool is_backward = IsBackwardNode(value.producer);
      if (from == reader.stage && is_backward == reader.is_backward) continue;
      const bool can_run = is_backward ? from > reader.stage : from <= reader.stage;
      if (!can_run) {
        throw Error(ErrorKind::kConfig, node.origin.place,
                    StrCat("layer \"", node.origin.layer, "\" of pipeline stage ", reader.stage, " reads what stage ",
                           from, " computes", is_backward ? " going backward" : ""),
                    "let pipeline_stage not fall along the way from data to loss");
      }
      crossing_[input].insert(reader);
    }
  }

  KeptValue Describe(ValueId value, const std::set<Reader>& readers, int stage) const {
    KeptValue kept;
    kept.name = NameOf(value);
    kept.type = graph_.type(value);
    kept.from = StageOf(value);
    kept.is_data = graph_.value(value).kind == ValueKind::kInput;
    for (const Reader& reader : readers) {
      if (reader.stage == stage) {
        (reader.is_backward ? kept.is_read_by_backward : kept.is_read_by_forward) = true;
      }
      if (reader.stage == kept.from || kept.is_data) continue;
      if (kept.readers.empty() || kept.readers.back() != reader.stage) kept.readers.push_back(reader.stage);
    }
    return kept;
  }

  void Build(Graph& to, int stage, bool is_backward) {
    std::map<ValueId, ValueId>& map = is_backward ? backward_map_ : forward_map_;
    for (const NodeId id : order_) {
      if (stage_[static_cast<size_t>(id)] == stage && IsBackwardNode(id) == is_backward) Copy(graph_.node(id), to, map);
    }
    const auto is_made_here = [&](ValueId value) {
      const NodeId producer = graph_.value(value).producer;
      return producer != kNoId ? StageOf(value) == stage && IsBackwardNode(producer) == is_backward
                               : stage == 0 && !is_backward;
    };
    for (const GraphOutput& output : graph_.outputs()) {
      if (is_made_here(output.value)) to.AddOutput(output.name, Take(output.value, to, map));
    }
    for (const Assignment& assignment : graph_.assignments()) {
      if (!is_made_here(assignment.value)) continue;
      const ValueId value = Take(assignment.value, to, map);
      to.Assign(Take(assignment.state, to, map), value);
      if (!is_backward) assigned_.insert(assignment.state);
    }
    if (!is_backward) return;
    for (const auto& [from, mapped] : map) {
      if (!assigned_.contains(from)) continue;
      throw Error(ErrorKind::kUnavailable, SourcePlace{},
                  StrCat("the backward pass reads \"", graph_.value(from).name,
                         "\", which the forward pass changes: a pipeline has no copy of it for each micro-batch"),
                  "train this net without pipeline_stage");
    }
  }

  void Copy(const Node& node, Graph& to, std::map<ValueId, ValueId>& map) {
    std::vector<ValueId> inputs;
    inputs.reserve(node.inputs.size());
    for (const ValueId input : node.inputs) inputs.push_back(Take(input, to, map));
    const std::vector<ValueId> outputs = to.AddNode(node.op->name, inputs, node.attributes, node.origin).outputs;
    for (size_t i = 0; i < outputs.size(); ++i) {
      to.SetName(outputs[i], graph_.value(node.outputs[i]).name);
      map[node.outputs[i]] = outputs[i];
    }
  }

  // The value in the new graph: what is not computed there is an input, or of constants a copy.
  ValueId Take(ValueId value, Graph& to, std::map<ValueId, ValueId>& map) {
    if (const auto it = map.find(value); it != map.end()) return it->second;
    const Value& v = graph_.value(value);
    if (v.kind == ValueKind::kState) return map[value] = to.AddState(v.name, v.type);
    if (v.kind == ValueKind::kResult && stage_[static_cast<size_t>(v.producer)] == kAnyStage) {
      Copy(graph_.node(v.producer), to, map);
      return map.at(value);
    }
    return map[value] = to.AddInput(NameOf(value), v.type);
  }

  const Graph& graph_;
  const PartitionSpec& spec_;
  std::vector<NodeId> order_;
  std::vector<int> stage_;  // by NodeId
  std::map<ValueId, std::set<Reader>> crossing_;
  std::set<ValueId> assigned_;
  std::map<ValueId, ValueId> forward_map_;
  std::map<ValueId, ValueId> backward_map_;
};

}  // namespace

StageGraphs Partition(const Graph& graph, const PartitionSpec& spec, int stage) {
  Require(stage >= 0 && stage < spec.stages, "Partition: the stage is one of the pipeline's");
  return Cutter(graph, spec).Cut(stage);
}

int StageOf(const Graph& graph, const PartitionSpec& spec, ValueId value) { return Cutter(graph, spec).StageOf(value); }

}  // namespace moka
