// Inserts begin and end nodes: each begin depends on the one before, which fixes the order of collectives on all ranks,
// and stands right behind its gradient's producer; the ends stand behind the last begin, so that sums run beside the
// rest of the backward pass.
#include "comm/exchange/sum_over_ranks.h"

#include <algorithm>
#include <numeric>
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

std::vector<ValueId> GatherOwned(Graph& graph, const std::vector<OwnedWeight>& weights, ValueId fence) {
  std::vector<int> first_read(static_cast<size_t>(graph.value_count()), graph.node_limit());
  int place = 0;
  for (const NodeId id : graph.TopologicalOrder()) {
    for (const ValueId input : graph.node(id).inputs) {
      int& first = first_read[static_cast<size_t>(input)];
      first = std::min(first, place);
    }
    ++place;
  }
  std::vector<size_t> order(weights.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return first_read[static_cast<size_t>(weights[i].state)]; });
  std::vector<ValueId> begun(weights.size(), kNoId);
  for (const size_t i : order) {
    const OwnedWeight& weight = weights[i];
    const bool is_owned = weight.updated != kNoId;
    const ValueId source = is_owned ? weight.updated : weight.sum;
    NodeOrigin origin{weight.layer, {}, "communicate"};
    const NodeId producer = graph.value(source).producer;  // behind it, before later weights are updated
    if (producer != kNoId) origin.sequence = graph.node(producer).origin.sequence;
    fence = begun[i] =
        GraphBuilder(graph, origin)
            .Add1("all_gather_begin", {weight.state, source, fence}, {{"key", weight.key}, {"owned", is_owned}});
  }
  return begun;
}

}  // namespace moka
