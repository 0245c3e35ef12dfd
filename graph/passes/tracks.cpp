// Tracks. In inference every thread takes images of its own from the first convolution to the last: the threads meet
// once instead of after each node, and what a node writes for a few images is still in a cache when the next reads it.
// Requires: inference, no assignments, images that the threads can share evenly. Ensures: the same outputs up to the
// rounding of kernels chosen for fewer images. The stretch with the most operations among nodes that treat each image
// by itself is cut; graph/tracks.h runs the parts.
#include "graph/tracks.h"

#include <algorithm>
#include <set>

#include "graph/op.h"
#include "graph/passes/batch_parts.h"
#include "graph/passes/passes.h"

namespace moka {
namespace {

// A thread has at least so many images: with one each, ResNet-50 was no faster.
constexpr int64_t kFewestImages = 2;
// A part has at least so many, where there are enough: kernels get slower with fewer.
constexpr int64_t kFewImages = 4;
// More only as long as what a node reads and writes in all tracks fits into so much.
constexpr int64_t kCacheBytes = int64_t{8} << 20;
// Fewer operations a track are not worth a start of all threads.
constexpr int64_t kFewOperations = int64_t{1} << 20;

class TrackCutter {
 public:
  TrackCutter(Graph& graph, const PassContext& context)
      : graph_(graph), constant_(ConstantNodes(graph, true)), parts_(graph, constant_) {
    for (const NodeId id : graph.TopologicalOrder()) {
      if (!constant_[static_cast<size_t>(id)]) order_.push_back(id);
    }
    context.Count(static_cast<int64_t>(order_.size()));
  }

  bool Run(int64_t threads) {
    const Stretch best = Longest();
    if (threads < 2 || best.images < kFewestImages * threads || best.images % threads != 0) return false;
    if (best.operations / threads < kFewOperations) return false;
    parts_.Repeat(best.nodes, Leaving(best), best.images / PartOf(best, threads), kTracksPass, true);
    return true;
  }

 private:
  struct Stretch {
    std::vector<NodeId> nodes;
    int64_t images = 0;
    int64_t operations = 0;
  };

  int64_t Operations(const Node& node) const {
    const std::vector<TensorType> outputs = graph_.OutputTypes(node);
    if (node.op->flops == nullptr) return outputs[0].shape.Count();
    return node.op->flops(node.attributes, graph_.InputTypes(node), outputs);
  }

  // Returns, of the runs of nodes that are by image, the one with the most operations.
  Stretch Longest() const {
    Stretch best;
    Stretch now;
    const auto end = [&] {
      if (now.operations > best.operations) best = std::move(now);
    };
    for (const NodeId id : order_) {
      const Node& node = graph_.node(id);
      if (!parts_.IsByImage(node, now.images)) {
        end();
        const Shape shape = graph_.shape(node.outputs[0]);
        now = {};
        now.images = shape.rank() == 0 ? 0 : shape[0];
        if (!parts_.IsByImage(node, now.images)) continue;
      }
      now.nodes.push_back(id);
      now.operations += Operations(node);
    }
    end();
    return best;
  }

  // Returns the stretch's results that are read behind it.
  std::set<ValueId> Leaving(const Stretch& stretch) const {
    const std::set<NodeId> inside(stretch.nodes.begin(), stretch.nodes.end());
    const std::vector<bool> pinned = Pinned(graph_);
    const std::vector<std::vector<NodeId>> uses = graph_.Uses();
    std::set<ValueId> leaving;
    for (const NodeId id : stretch.nodes) {
      for (const ValueId output : graph_.node(id).outputs) {
        const auto& readers = uses[static_cast<size_t>(output)];
        const bool is_read = !std::ranges::all_of(readers, [&](NodeId reader) { return inside.contains(reader); });
        if (is_read || pinned[static_cast<size_t>(output)]) leaving.insert(output);
      }
    }
    return leaving;
  }

  // Bytes an image needs at a node, at most.
  int64_t BytesOfImage(const Stretch& stretch) const {
    int64_t most = 0;
    for (const NodeId id : stretch.nodes) {
      int64_t bytes = 0;
      for (const ValueId input : graph_.node(id).inputs) {
        if (!parts_.IsFixed(input)) bytes += graph_.type(input).Bytes();
      }
      for (const ValueId output : graph_.node(id).outputs) bytes += graph_.type(output).Bytes();
      most = std::max(most, bytes);
    }
    return most / stretch.images;
  }

  // Images of a part.
  int64_t PartOf(const Stretch& stretch, int64_t threads) const {
    const int64_t share = stretch.images / threads;
    const int64_t bytes = std::max<int64_t>(1, BytesOfImage(stretch));
    int64_t best = share;
    for (int64_t part = share; part >= std::min(share, kFewImages) && threads * best * bytes > kCacheBytes; --part) {
      if (share % part == 0) best = part;
    }
    return best;
  }

  Graph& graph_;
  std::vector<bool> constant_;  // by NodeId
  std::vector<NodeId> order_;   // without constants
  BatchParts parts_;
};

}  // namespace

bool CutIntoTracks(Graph& graph, const PassContext& context) {
  if (!context.options.inference || !context.options.device.is_cpu() || !graph.assignments().empty()) return false;
  return TrackCutter(graph, context).Run(ThreadCount());
}

}  // namespace moka
