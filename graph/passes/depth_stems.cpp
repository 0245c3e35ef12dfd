// Depth stems: on a GPU, a training's convolution with strides over few channels of a half type, that of its pictures,
// is one without strides over blocks of pixels as channels, as are its weights; the weights' gradient comes back the
// same way. Tensor cores take channels in eights: cuDNN would pad three of them and move the pictures in each step,
// which took up to a gigabyte of workspace. Requires: no layouts yet, half types assigned. Ensures: the same sums in
// another order; where the convolution's input wants a gradient, nothing is changed.
#include <optional>

#include "graph/op.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace moka {
namespace {

constexpr int64_t kMostChannels = 4;
constexpr int64_t kChannelUnit = 8;

// The blocks of a convolution's window, and what becomes of its tensors.
struct Blocks {
  Ints block;
  Ints pad;
  Shape x;
  Shape w;
};

std::optional<Blocks> BlocksOf(const Graph& graph, const Node& convolution) {
  const Shape& x = graph.shape(convolution.inputs[0]);
  const Shape& w = graph.shape(convolution.inputs[1]);
  const Shape& y = graph.shape(convolution.outputs[0]);
  if (x.rank() != 4 || x[1] > kMostChannels || x.Count() == 0 || !IsHalf(graph.type(convolution.inputs[0]).dtype))
    return std::nullopt;
  const Attributes& a = convolution.attributes;
  const Ints& stride = a.Get<Ints>("stride");
  const Ints& dilation = a.Get<Ints>("dilation");
  if (a.Int("groups") != 1 || dilation != Ints{1, 1} || stride[0] < 2 || stride[1] < 2) return std::nullopt;
  const int64_t channels = (stride[0] * stride[1] * x[1] + kChannelUnit - 1) / kChannelUnit * kChannelUnit;
  Blocks blocks{stride, a.Get<Ints>("pad_begin"), x.With(1, channels), w.With(1, channels)};
  for (int axis = 2; axis < 4; ++axis) {
    const int64_t s = stride[static_cast<size_t>(axis - 2)];
    const int64_t window = (w[axis] + s - 1) / s;
    blocks.w = blocks.w.With(axis, window);
    blocks.x = blocks.x.With(axis, y[axis] + window - 1);
  }
  return blocks;
}

// A convolution's attributes without its strides and padding.
Attributes Dense(Attributes attributes) {
  attributes.Set("stride", Ints{1, 1});
  attributes.Set("pad_begin", Ints{0, 0});
  attributes.Set("pad_end", Ints{0, 0});
  return attributes;
}

class Deepener {
 public:
  explicit Deepener(Graph& graph) : graph_(graph), rewriter_(graph) {}

  bool Run(const PassContext& context) {
    bool changed = false;
    for (const NodeId id : graph_.TopologicalOrder()) {
      context.Count(1);
      if (graph_.IsAlive(id) && graph_.node(id).op->name == "convolution") changed = Deepen(id) || changed;
    }
    return changed;
  }

 private:
  bool Deepen(NodeId id) {
    const Node convolution = graph_.node(id);
    const std::optional<Blocks> blocks = BlocksOf(graph_, convolution);
    if (!blocks) return false;
    const NodeId gradient_id = WeightsGradient(convolution);
    if (gradient_id == kNoId) return false;
    const GraphBuilder b(graph_, convolution.origin);
    const auto deepen = [&](ValueId value, const Ints& pad, const Shape& shape) {
      return b.Add1("space_to_depth", {value}, {{"block", blocks->block}, {"pad", pad}, {"shape", DimsOf(shape)}});
    };
    std::vector<ValueId> inputs = convolution.inputs;
    inputs[0] = deepen(inputs[0], blocks->pad, blocks->x);
    inputs[1] = deepen(inputs[1], {0, 0}, blocks->w);
    const ValueId y = b.Add1("convolution", inputs, Dense(convolution.attributes));
    graph_.SetName(y, graph_.value(convolution.outputs[0]).name);
    rewriter_.ReplaceUses(convolution.outputs[0], y);
    rewriter_.RemoveNode(id);
    ReplaceGradient(gradient_id, inputs[0], *blocks);
    return true;
  }

  // The gradient of a convolution's weights; kNoId if it has none, or its input has one, too.
  NodeId WeightsGradient(const Node& convolution) {
    for (const NodeId reader : rewriter_.Readers(convolution.inputs[1])) {
      if (graph_.node(reader).op->name == "convolution_backward_data") return kNoId;
    }
    NodeId found = kNoId;
    for (const NodeId reader : rewriter_.Readers(convolution.inputs[0])) {
      const Node& node = graph_.node(reader);
      if (node.op->name != "convolution_backward_weights" || node.inputs[0] != convolution.inputs[0]) continue;
      const bool is_its = graph_.shape(node.outputs[0]) == graph_.shape(convolution.inputs[1]) &&
                          graph_.shape(node.inputs[1]) == graph_.shape(convolution.outputs[0]) &&
                          node.attributes.Get<Ints>("stride") == convolution.attributes.Get<Ints>("stride") &&
                          node.attributes.Get<Ints>("pad_begin") == convolution.attributes.Get<Ints>("pad_begin");
      if (!is_its) continue;
      // Two convolutions of one shape that read the same are not told apart.
      if (found != kNoId) return kNoId;
      found = reader;
    }
    return found;
  }

  void ReplaceGradient(NodeId id, ValueId x, const Blocks& blocks) {
    const Node gradient = graph_.node(id);
    const GraphBuilder b(graph_, gradient.origin);
    Attributes attributes = Dense(gradient.attributes);
    attributes.Set("weight_shape", DimsOf(blocks.w));
    const std::vector<ValueId> deep = b.Add(gradient.op->name, {x, gradient.inputs[1]}, attributes);
    const Shape w = graph_.shape(gradient.outputs[0]);
    const ValueId dw = b.Add1("depth_to_space", {deep[0]}, {{"block", blocks.block}, {"shape", DimsOf(w)}});
    rewriter_.ReplaceUses(gradient.outputs[0], dw);
    if (deep.size() == 2) rewriter_.ReplaceUses(gradient.outputs[1], deep[1]);
    rewriter_.RemoveNode(id);
  }

  Graph& graph_;
  Rewriter rewriter_;
};

}  // namespace

bool DeepenStems(Graph& graph, const PassContext& context) {
  if (context.options.device.is_cpu() || context.options.inference) return false;
  return Deepener(graph).Run(context);
}

}  // namespace moka
