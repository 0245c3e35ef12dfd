// Split batch. In inference the stretch of the net that needs the most memory runs on a part of the images at a time:
// its nodes are repeated for every part, between a slice of what enters and a concat of what leaves. Costs those two
// copies; a part also stays longer in the caches. Requires: inference; nodes that treat each image by itself. Ensures:
// the same outputs up to the rounding of kernels chosen for smaller batches; the largest sum of bytes alive at once is
// lower by three tenths and by kWorthBytes at least. Nets that run in tracks (graph/passes/tracks.cpp) are in parts
// already.
#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <set>

#include "graph/op.h"
#include "graph/passes/batch_parts.h"
#include "graph/passes/passes.h"
#include "graph/tracks.h"

namespace moka {
namespace {

constexpr int64_t kWorthBytes = int64_t{64} << 20;
constexpr double kWorthShare = 0.7;  // of the peak before
constexpr int kLongest = 24;         // nodes on either side of the peak
constexpr int kMostRounds = 3;       // stretches that are split
constexpr std::array<int64_t, 4> kParts = {2, 4, 8, 16};

// The lives of results: steps in the order of the graph, constants left out.
class Lives {
 public:
  Lives(const Graph& graph, const std::vector<bool>& constant) : graph_(&graph) {
    for (const NodeId id : graph.TopologicalOrder()) {
      if (!constant[static_cast<size_t>(id)]) order_.push_back(id);
    }
    const auto values = static_cast<size_t>(graph.value_count());
    first_.assign(values, -1);
    last_.assign(values, -1);
    for (int t = 0; t < steps(); ++t) {
      const Node& node = this->node(t);
      for (const ValueId input : node.inputs) last_[static_cast<size_t>(input)] = t;
      for (const ValueId output : node.outputs) first_[static_cast<size_t>(output)] = t;
      for (const ValueId output : node.outputs) last_[static_cast<size_t>(output)] = t;
    }
    for (const GraphOutput& output : graph.outputs()) last_[static_cast<size_t>(output.value)] = steps();
    for (const Assignment& assignment : graph.assignments()) last_[static_cast<size_t>(assignment.value)] = steps();
    // A result written over an operand begins a step later, in the operand's memory.
    for (int t = 0; t < steps(); ++t) TakeOver(t);
    // Sum up the bytes that begin and end at each step.
    bytes_.assign(static_cast<size_t>(steps()) + 1, 0);
    for (size_t id = 0; id < values; ++id) {
      if (first_[id] < 0) continue;
      const int64_t bytes = graph.type(static_cast<ValueId>(id)).Bytes();
      bytes_[static_cast<size_t>(std::min(first_[id], steps()))] += bytes;
      bytes_[static_cast<size_t>(std::min(last_[id] + 1, steps()))] -= bytes;
    }
    std::partial_sum(bytes_.begin(), bytes_.end(), bytes_.begin());
    bytes_.pop_back();
  }

  int steps() const { return static_cast<int>(order_.size()); }
  bool HasTracks() const {
    return std::ranges::any_of(order_, [this](NodeId id) { return IsInTrack(graph_->node(id)); });
  }
  const Node& node(int t) const { return graph_->node(order_[static_cast<size_t>(t)]); }
  int64_t bytes(int t) const { return bytes_[static_cast<size_t>(t)]; }
  // The step after which nobody reads the value; steps() for outputs.
  int last(ValueId id) const { return last_[static_cast<size_t>(id)]; }
  int Peak() const { return static_cast<int>(std::ranges::max_element(bytes_) - bytes_.begin()); }
  // The most alive at any step of [begin, end).
  int64_t Most(int begin, int end) const {
    return begin >= end ? 0 : *std::max_element(bytes_.begin() + begin, bytes_.begin() + end);
  }

 private:
  void TakeOver(int t) {
    const Node& node = this->node(t);
    if (node.op->may_overwrite == nullptr || node.outputs.size() != 1) return;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const auto input = static_cast<size_t>(node.inputs[k]);
      const bool fits = graph_->type(node.inputs[k]) == graph_->type(node.outputs[0]);
      if (!fits || first_[input] < 0 || last_[input] != t) continue;
      if (!node.op->may_overwrite(node.attributes, static_cast<int>(k), 0)) continue;
      first_[static_cast<size_t>(node.outputs[0])] = t + 1;
      return;
    }
  }

  const Graph* graph_;
  std::vector<NodeId> order_;
  std::vector<int> first_;  // by ValueId; -1: no result of a step
  std::vector<int> last_;
  std::vector<int64_t> bytes_;  // by step
};

// Steps [begin, end), run in `parts`.
struct Stretch {
  int begin = 0;
  int end = 0;
  int64_t parts = 1;
  int64_t peak_bytes = 0;  // of the whole graph then
};

class Splitter {
 public:
  Splitter(Graph& graph, const PassContext& context)
      : graph_(graph), constant_(ConstantNodes(graph, true)), lives_(graph, constant_), parts_(graph, constant_) {
    context.Count(lives_.steps());
  }

  bool Run() {
    if (lives_.steps() == 0 || !graph_.assignments().empty() || lives_.HasTracks()) return false;
    const std::optional<Stretch> best = Best();
    if (!best) return false;
    Rewrite(*best);
    return true;
  }

 private:
  int64_t Bytes(ValueId id) const { return graph_.type(id).Bytes(); }

  // The peak when [begin, end) runs in parts: beside a part's share of what lives inside there is what enters, whole
  // and sliced, and what leaves, in parts and at last whole.
  int64_t PeakOf(int begin, int end, int64_t parts) const {
    std::set<ValueId> made;
    std::set<ValueId> enters;
    int64_t leaving = 0;
    for (int t = begin; t < end; ++t) {
      for (const ValueId id : lives_.node(t).inputs) {
        if (!parts_.IsFixed(id) && !made.contains(id)) enters.insert(id);
      }
      for (const ValueId id : lives_.node(t).outputs) {
        made.insert(id);
        if (lives_.last(id) >= end) leaving += Bytes(id);
      }
    }
    // Results made before live on beside the parts; those that enter the parts are among them.
    int64_t beside = lives_.bytes(begin);
    for (const ValueId id : lives_.node(begin).outputs) beside -= Bytes(id);
    beside = std::max<int64_t>(beside, 0);
    int64_t slices = 0;
    for (const ValueId id : enters) slices += Bytes(id);
    const int64_t inside = std::max<int64_t>(lives_.Most(begin, end) - beside, 0);
    const int64_t running = beside + slices + (inside + parts - 1) / parts + leaving;
    return std::max({lives_.Most(0, begin), lives_.Most(end, lives_.steps()), running, beside + 2 * leaving});
  }

  std::optional<Stretch> Best() const {
    const int peak = lives_.Peak();
    const int64_t before = lives_.bytes(peak);
    const Shape shape = graph_.shape(lives_.node(peak).outputs[0]);
    const int64_t images = shape.rank() >= 2 ? shape[0] : 1;
    Stretch best{.peak_bytes =
                     std::min(before - kWorthBytes, static_cast<int64_t>(static_cast<double>(before) * kWorthShare))};
    bool found = false;
    for (int begin = peak; begin >= std::max(0, peak - kLongest) && parts_.IsByImage(lives_.node(begin), images);
         --begin) {
      const int limit = std::min(lives_.steps(), peak + kLongest);
      for (int end = peak + 1; end <= limit && parts_.IsByImage(lives_.node(end - 1), images); ++end) {
        for (const int64_t parts : kParts) {
          if (images % parts != 0) continue;
          const int64_t bytes = PeakOf(begin, end, parts);
          // More parts and nodes must be worth it.
          if (bytes > best.peak_bytes - (found ? before / 8 : 0)) continue;
          best = {begin, end, parts, bytes};
          found = true;
        }
      }
    }
    return found ? std::optional(best) : std::nullopt;
  }

  void Rewrite(const Stretch& stretch) {
    std::vector<NodeId> nodes;
    std::set<ValueId> leaving;
    for (int t = stretch.begin; t < stretch.end; ++t) {
      nodes.push_back(lives_.node(t).id);
      for (const ValueId output : lives_.node(t).outputs) {
        if (lives_.last(output) >= stretch.end) leaving.insert(output);
      }
    }
    parts_.Repeat(nodes, leaving, stretch.parts, "split_batch", false);
  }

  Graph& graph_;
  std::vector<bool> constant_;  // by NodeId
  Lives lives_;
  BatchParts parts_;
};

}  // namespace

bool SplitBatch(Graph& graph, const PassContext& context) {
  if (!context.options.inference || !context.options.device.is_cpu()) return false;
  int rounds = 0;
  while (rounds < kMostRounds && Splitter(graph, context).Run()) ++rounds;
  return rounds > 0;
}

}  // namespace moka
