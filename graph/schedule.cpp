// A list scheduling by sequence numbers with edges added for states: a node that reads a state's old value runs before
// the one that overwrites it. Updates run as soon as they may and recomputed values as late as they may; both shorten
// lives.
#include "graph/schedule.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>

#include "graph/op.h"

namespace moka {
namespace {

// Nodes that lead only to assignments and come after the gradients: the sooner they run, the sooner memory is free.
std::vector<bool> UrgentNodes(const Graph& graph, const std::vector<NodeId>& order,
                              const std::vector<std::vector<NodeId>>& uses) {
  std::vector<bool> is_output(static_cast<size_t>(graph.value_count()), false);
  for (const GraphOutput& output : graph.outputs()) is_output[static_cast<size_t>(output.value)] = true;
  std::vector<bool> urgent(static_cast<size_t>(graph.node_limit()), false);
  for (size_t i = order.size(); i-- > 0;) {
    const Node& node = graph.node(order[i]);
    bool leads_elsewhere = node.origin.pass.empty();
    for (const ValueId output : node.outputs) {
      if (is_output[static_cast<size_t>(output)]) leads_elsewhere = true;
      for (const NodeId user : uses[static_cast<size_t>(output)]) {
        leads_elsewhere = leads_elsewhere || !urgent[static_cast<size_t>(user)];
      }
    }
    urgent[static_cast<size_t>(order[i])] = !leads_elsewhere;
  }
  return urgent;
}

// All nodes that read a value, or an alias of it.
void CollectReaders(const Graph& graph, const std::vector<std::vector<NodeId>>& uses, ValueId value,
                    std::vector<NodeId>& readers) {
  for (const NodeId user : uses[static_cast<size_t>(value)]) {
    if (graph.node(user).op->is_alias) {
      CollectReaders(graph, uses, graph.node(user).outputs[0], readers);
    } else {
      readers.push_back(user);
    }
  }
}

class Scheduler {
 public:
  Scheduler(const Graph& graph, const std::vector<bool>& constant)
      : graph_(graph), uses_(graph.Uses()), order_(graph.TopologicalOrder()), constant_(constant) {
    place_.assign(static_cast<size_t>(graph_.node_limit()), -1);
    for (size_t i = 0; i < order_.size(); ++i) place_[static_cast<size_t>(order_[i])] = static_cast<int>(i);
    reached_.assign(static_cast<size_t>(graph_.node_limit()), 0);
  }

  NodeSchedule Make() {
    NodeSchedule schedule;
    schedule.in_place.assign(graph_.assignments().size(), false);
    after_.assign(static_cast<size_t>(graph_.node_limit()), {});
    for (size_t i = 0; i < graph_.assignments().size(); ++i) schedule.in_place[i] = Guard(graph_.assignments()[i]);
    for (const NodeId id : order_) {
      if (graph_.node(id).origin.pass == "recompute") Delay(id);
    }
    if (!Sort(schedule)) {  // two states that swap their values: no order serves both, so all are copied
      after_.assign(static_cast<size_t>(graph_.node_limit()), {});
      schedule.in_place.assign(graph_.assignments().size(), false);
      Require(Sort(schedule), "a graph without extra edges can be ordered");
    }
    return schedule;
  }

 private:
  // Adds the edges reader -> writer of one assignment. False if a reader of the old value needs the new one.
  bool Guard(const Assignment& assignment) {
    const NodeId writer = graph_.value(assignment.value).producer;
    if (writer == kNoId || graph_.node(writer).op->is_alias || constant_[static_cast<size_t>(writer)]) return false;
    std::vector<NodeId> readers;
    CollectReaders(graph_, uses_, assignment.state, readers);
    std::erase(readers, writer);
    if (IsBeforeAny(writer, readers)) return false;
    for (const NodeId reader : readers) after_[static_cast<size_t>(reader)].push_back(writer);
    return true;
  }

  // A recomputed value comes after all else that its reader needs: made sooner, it would be kept.
  void Delay(NodeId id) {
    NodeId first = kNoId;
    for (const NodeId user : uses_[static_cast<size_t>(graph_.node(id).outputs[0])]) {
      if (first == kNoId || graph_.node(user).origin.sequence < graph_.node(first).origin.sequence) first = user;
    }
    if (first == kNoId) return;
    std::vector<NodeId> producers;
    for (const ValueId input : graph_.node(first).inputs) {
      const NodeId producer = graph_.value(input).producer;
      if (producer != kNoId && producer != id) producers.push_back(producer);
    }
    if (IsBeforeAny(id, producers)) return;
    for (const NodeId producer : producers) after_[static_cast<size_t>(producer)].push_back(id);
  }

  // Whether some target needs the root's results. Nodes beyond the last target in order_ lead to none and are left out,
  // so a weight's update, which comes after all that reads the weight, is looked at in no time.
  bool IsBeforeAny(NodeId root, const std::vector<NodeId>& targets) {
    int last = -1;
    for (const NodeId id : targets) last = std::max(last, place_[static_cast<size_t>(id)]);
    ++round_;
    std::vector<NodeId> stack = {root};
    while (!stack.empty()) {
      const NodeId id = stack.back();
      stack.pop_back();
      for (const ValueId output : graph_.node(id).outputs) {
        for (const NodeId user : uses_[static_cast<size_t>(output)]) {
          int& reached = reached_[static_cast<size_t>(user)];
          if (reached == round_ || place_[static_cast<size_t>(user)] > last) continue;
          reached = round_;
          stack.push_back(user);
        }
      }
    }
    return std::any_of(targets.begin(), targets.end(),
                       [&](NodeId id) { return reached_[static_cast<size_t>(id)] == round_; });
  }

  bool Sort(NodeSchedule& schedule) const {
    schedule.constants.clear();
    schedule.steps.clear();
    const std::vector<bool> urgent = UrgentNodes(graph_, order_, uses_);
    std::vector<int> waiting(static_cast<size_t>(graph_.node_limit()), 0);
    for (const NodeId id : order_) {
      for (const ValueId output : graph_.node(id).outputs) {
        for (const NodeId user : uses_[static_cast<size_t>(output)]) ++waiting[static_cast<size_t>(user)];
      }
      for (const NodeId next : after_[static_cast<size_t>(id)]) ++waiting[static_cast<size_t>(next)];
    }
    using Key = std::tuple<bool, int32_t, NodeId>;
    std::priority_queue<Key, std::vector<Key>, std::greater<>> ready;
    const auto push = [&](NodeId id) {
      ready.emplace(!urgent[static_cast<size_t>(id)], graph_.node(id).origin.sequence, id);
    };
    for (const NodeId id : order_) {
      if (waiting[static_cast<size_t>(id)] == 0) push(id);
    }
    while (!ready.empty()) {
      const NodeId id = std::get<2>(ready.top());
      ready.pop();
      (constant_[static_cast<size_t>(id)] ? schedule.constants : schedule.steps).push_back(id);
      const auto release = [&](NodeId next) {
        if (--waiting[static_cast<size_t>(next)] == 0) push(next);
      };
      for (const ValueId output : graph_.node(id).outputs) {
        for (const NodeId user : uses_[static_cast<size_t>(output)]) release(user);
      }
      for (const NodeId next : after_[static_cast<size_t>(id)]) release(next);
    }
    return schedule.constants.size() + schedule.steps.size() == order_.size();
  }

  const Graph& graph_;
  std::vector<std::vector<NodeId>> uses_;
  std::vector<NodeId> order_;
  const std::vector<bool>& constant_;
  std::vector<int> place_;    // by NodeId: its index in order_
  std::vector<int> reached_;  // by NodeId: the last round of IsBeforeAny that came there
  int round_ = 0;
  std::vector<std::vector<NodeId>> after_;  // extra edges: node -> nodes that must come later
};

}  // namespace

NodeSchedule MakeSchedule(const Graph& graph, const std::vector<bool>& constant) {
  return Scheduler(graph, constant).Make();
}

}  // namespace moka
