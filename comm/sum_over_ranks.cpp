#include "comm/sum_over_ranks.h"

#include <algorithm>
#include <utility>

namespace moka {

SumsOverRanks SumOverRanks(Graph& graph, const std::vector<ValueId>& values, size_t last_values) {
  // The places of the producers in the step; inputs and states come first.
  std::vector<int> place(static_cast<size_t>(graph.node_limit()), 0);
  int next = 0;
  for (const NodeId id : graph.TopologicalOrder()) place[static_cast<size_t>(id)] = ++next;
  const auto place_of = [&](ValueId value) {
    const NodeId producer = graph.value(value).producer;
    return producer == kNoId ? 0 : place[static_cast<size_t>(producer)];
  };
  std::vector<size_t> order;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] != kNoId) order.push_back(i);
  }
  std::ranges::stable_sort(order, {}, [&](size_t i) { return std::pair(i < last_values, place_of(values[i])); });

  SumsOverRanks result{std::vector<ValueId>(values.size(), kNoId), std::vector<int64_t>(values.size(), -1)};
  std::vector<ValueId>& sums = result.sums;
  ValueId last = kNoId;
  const auto origin_of = [&](size_t i) {
    const NodeId producer = graph.value(values[i]).producer;
    const std::string layer = producer == kNoId ? graph.value(values[i]).name : graph.node(producer).origin.layer;
    return NodeOrigin{layer, {}, "communicate"};
  };
  for (size_t key = 0; key < order.size(); ++key) {
    std::vector<ValueId> inputs = {values[order[key]]};
    if (last != kNoId) inputs.push_back(last);
    NodeOrigin origin = origin_of(order[key]);
    // A node runs in the order of sequences as soon as it can.
    const NodeId producer = graph.value(values[order[key]]).producer;
    if (producer != kNoId && order[key] >= last_values) origin.sequence = graph.node(producer).origin.sequence;
    last = GraphBuilder(graph, origin).Add1("all_reduce_begin", inputs, {{"key", static_cast<int64_t>(key)}});
    sums[order[key]] = last;
    result.keys[order[key]] = static_cast<int64_t>(key);
  }
  for (size_t key = 0; key < order.size(); ++key) {
    ValueId& sum = sums[order[key]];
    sum = GraphBuilder(graph, origin_of(order[key]))
              .Add1("all_reduce_end", {sum, last}, {{"key", static_cast<int64_t>(key)}});
  }
  result.fence = last;
  return result;
}

std::vector<ValueId> ShareOwned(Graph& graph, const std::vector<ValueId>& values,
                                const std::vector<std::string>& layers, int64_t first_key, ValueId fence) {
  const auto add = [&](size_t i, const char* op, const std::vector<ValueId>& inputs) {
    const GraphBuilder b(graph, NodeOrigin{layers[i], {}, "communicate"});
    return b.Add1(op, inputs, {{"key", first_key + static_cast<int64_t>(i)}});
  };
  std::vector<ValueId> shared;
  for (size_t i = 0; i < values.size(); ++i) {
    shared.push_back(add(i, "all_reduce_begin", {values[i], i == 0 ? fence : shared.back()}));
  }
  const ValueId last = shared.empty() ? kNoId : shared.back();
  for (size_t i = 0; i < shared.size(); ++i) shared[i] = add(i, "all_reduce_end", {shared[i], last});
  return shared;
}

}  // namespace moka
