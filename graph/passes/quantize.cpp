// Quantisation. In inference, convolutions whose ranges calibration measured run on 8-bit integers: activations one
// scale a tensor (uint8 where nothing is negative, which every input must be; int8 for results that are summands),
// weights one scale an output channel, folded biases and ReLUs and residual sums inside. Integers pass from one
// convolution to the next, through max pooling too; conversions stand at the borders only. A convolution that no kernel
// would take so stays as it is; a warning says so when none is left. Errors: kConfig for ranges that cannot be of the
// layer. Requires: FoldInference; inference. Ensures: the same values up to the roundings.
//
// Observe. The inputs, results and weights of the same convolutions become outputs "@int8/LAYER/x", ".../y" and
// ".../w" of the program, for calibration.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "graph/binding.h"
#include "graph/layer_names.h"
#include "graph/op.h"
#include "graph/passes/passes.h"
#include "graph/quantization.h"

namespace moka {
namespace {

// The layer a node's chain began with ("conv1" of "conv1+bn1+relu1").
std::string LayerOf(const Node& node) { return LayersOf(node.origin.layer).front(); }

// Convolutions in order whose weights are constant, one a layer.
std::vector<NodeId> Convolutions(const Graph& graph) {
  const std::vector<bool> constant = ConstantNodes(graph, true);
  const std::vector<bool> written = WrittenStates(graph);
  const auto is_constant = [&](ValueId id) {
    const Value& value = graph.value(id);
    if (value.producer != kNoId) return static_cast<bool>(constant[static_cast<size_t>(value.producer)]);
    return value.kind == ValueKind::kState && !written[static_cast<size_t>(id)];
  };
  std::vector<NodeId> found;
  std::set<std::string> layers;
  for (const NodeId id : graph.TopologicalOrder()) {
    const Node& node = graph.node(id);
    if (node.op->name != "convolution" || graph.type(node.inputs[0]).dtype != DType::kFloat32) continue;
    if (is_constant(node.inputs[1]) && layers.insert(LayerOf(node)).second) found.push_back(id);
  }
  return found;
}

// Whether any convolution runs on integers.
bool HasIntegers(const Graph& graph) {
  return std::ranges::any_of(graph.TopologicalOrder(),
                             [&](NodeId id) { return graph.node(id).op->name == "convolution_int8"; });
}

// A value as integers: q * scale.
struct Integers {
  ValueId q = kNoId;
  double scale = 0;
};

class QuantizePass {
 public:
  QuantizePass(Graph& graph, const PassContext& context)
      : graph_(graph), context_(context), ranges_(context.options.quantization->convolutions), uses_(graph.Uses()) {}

  bool Run() {
    for (const NodeId id : Convolutions(graph_)) {
      const auto range = ranges_.find(LayerOf(graph_.node(id)));
      if (range == ranges_.end()) continue;
      CheckRanges(graph_.node(id), range->second);
      if (IsUsable(range->second)) wanted_.insert(id);
    }
    if (wanted_.empty()) return false;
    for (const NodeId id : graph_.TopologicalOrder()) {
      if (wanted_.contains(id)) Convert(id);
      if (graph_.IsAlive(id) && graph_.node(id).op->name == "pool_max_forward") Pool(id);
    }
    RemoveDeadNodes(graph_);
    return true;
  }

  // Why the first of the convolutions with usable ranges that no kernel takes stays as it is; empty: there is none.
  const std::string& refusal() const { return refusal_; }

 private:
  // Checks measured ranges: a number for each output, finite, and no range that begins above its end or ends below 0.
  void CheckRanges(const Node& node, const ConvolutionRanges& r) const {
    const auto fail = [&](const std::string& what) {
      const std::string& file = context_.options.quantization->file;
      throw Error(ErrorKind::kConfig, {},
                  StrCat(file.empty() ? std::string() : StrCat(Printable(file), ": "), "8-bit ranges of layer \"",
                         LayerOf(node), "\": ", what),
                  "moka quantise measures them for a net and its weights");
    };
    const auto outputs = static_cast<size_t>(graph_.shape(node.inputs[1])[0]);
    if (r.weights.size() != outputs) {
      fail(StrCat("\"weights\" has ", r.weights.size(), " numbers, expected one for each of ", outputs, " outputs"));
    }
    for (const auto& [name, low, high] :
         {std::tuple{"input", r.input_low, r.input_high}, std::tuple{"output", r.output_low, r.output_high}}) {
      if (!std::isfinite(low) || !std::isfinite(high) || high < 0 || low > high) {
        fail(StrCat("\"", name, "\" is [", low, ", ", high, "], expected [low, high] with low <= high and high >= 0"));
      }
    }
    const auto wrong = std::ranges::find_if(r.weights, [](double w) { return !std::isfinite(w) || w < 0; });
    if (wrong != r.weights.end()) fail(StrCat("\"weights\" holds ", *wrong, ", which is no largest magnitude"));
  }

  static bool IsUsable(const ConvolutionRanges& r) { return r.input_low >= 0 && r.input_high > 0 && r.output_high > 0; }

  GraphBuilder Builder(const Node& node) const {
    NodeOrigin origin = node.origin;
    origin.pass = "quantize";
    return {graph_, origin};
  }

  // Whether integers of this value would be read: by a convolution or, through it, a pooling.
  bool FeedsIntegers(ValueId id) const {
    return std::ranges::any_of(uses_[static_cast<size_t>(id)], [&](NodeId user) {
      if (wanted_.contains(user)) return true;
      const Node& node = graph_.node(user);
      return node.op->name == "pool_max_forward" && FeedsIntegers(node.outputs[0]);
    });
  }

  // The value as integers, converted where it has none yet.
  Integers AsIntegers(const GraphBuilder& b, ValueId id, double high) {
    const auto known = integers_.find(id);
    if (known != integers_.end()) return known->second;
    const double scale = high / 255;
    const ValueId q = b.Add1("quantize", {id}, {{"scales", Doubles{scale}}, {"dtype", std::string("uint8")}});
    return integers_.emplace(id, Integers{q, scale}).first->second;
  }

  void Convert(NodeId id) {
    const Node node = graph_.node(id);
    const ConvolutionRanges& range = ranges_.at(LayerOf(node));
    const GraphBuilder b = Builder(node);
    const bool sum = node.attributes.Bool("sum");
    const bool relu = node.attributes.String("activation") == "relu";
    const auto summand = sum ? integers_.find(node.inputs.back()) : integers_.end();
    // A summand of real numbers is added to a real result.
    const bool integral = (!sum || summand != integers_.end()) && FeedsIntegers(node.outputs[0]);
    const bool is_signed = !relu && range.output_low < 0;
    const double y_scale = !integral ? 1 : range.output_high / (is_signed ? 127 : 255);

    const Integers x = AsIntegers(b, node.inputs[0], range.input_high);
    const auto limit = static_cast<double>(context_.options.quantization->weight_limit);
    Doubles weight_scales;
    Doubles scales;
    Doubles bias_factors;
    for (const double largest : range.weights) {
      weight_scales.push_back(std::max(largest, std::numeric_limits<float>::min() * 1e6) / limit);
      scales.push_back(x.scale * weight_scales.back() / y_scale);
      bias_factors.push_back(1 / (x.scale * weight_scales.back()));
    }
    const ValueId w = b.Add1("quantize", {node.inputs[1]}, {{"scales", weight_scales}, {"dtype", std::string("int8")}});
    const auto outputs = static_cast<int64_t>(scales.size());
    const bool has_bias = node.inputs.size() == (sum ? 4U : 3U);
    ValueId bias = b.Full(Shape{outputs}, 0.0);
    if (has_bias) {
      const ValueId factors = b.Add1("table", {}, {{"shape", Ints{outputs}}, {"values", bias_factors}});
      bias = b.Pointwise("x0*x1", {node.inputs[2], factors});
    }
    Attributes attributes;
    for (const char* name : {"stride", "pad_begin", "pad_end", "dilation", "groups", "activation", "sum"}) {
      attributes.Set(name, node.attributes.values().at(name));
    }
    attributes.Set("scales", scales);
    attributes.Set("dtype", std::string(!integral ? "float32" : is_signed ? "int8" : "uint8"));
    std::vector<ValueId> inputs = {x.q, w, bias};
    if (sum) {
      inputs.push_back(integral ? summand->second.q : node.inputs.back());
      attributes.Set("sum_scale", integral ? summand->second.scale / y_scale : 1.0);
    }
    ValueId y = b.Add1("convolution_int8", inputs, attributes);
    if (const std::string reason = RefusalOf(graph_.node(graph_.value(y).producer)); !reason.empty()) {
      if (refusal_.empty()) refusal_ = StrCat("layer \"", LayerOf(node), "\": ", reason);
      return;  // what was added for it has no readers
    }
    if (integral) {
      const ValueId q = y;
      y = b.Add1("dequantize", {q}, {{"scales", Doubles{y_scale}}});
      integers_.emplace(y, Integers{q, y_scale});
    }
    graph_.SetName(y, graph_.value(node.outputs[0]).name);
    graph_.ReplaceUses(node.outputs[0], y);
    graph_.RemoveNode(id);
  }

  void Pool(NodeId id) {
    const Node node = graph_.node(id);
    const auto x = integers_.find(node.inputs[0]);
    if (x == integers_.end()) return;
    const GraphBuilder b = Builder(node);
    const ValueId q = b.Add1("pool_max_forward", {x->second.q}, node.attributes);
    const ValueId y = b.Add1("dequantize", {q}, {{"scales", Doubles{x->second.scale}}});
    integers_.emplace(y, Integers{q, x->second.scale});
    graph_.SetName(y, graph_.value(node.outputs[0]).name);
    graph_.ReplaceUses(node.outputs[0], y);
    graph_.RemoveNode(id);
  }

  // Why no kernel would run the node under the layouts it proposes; empty: one would.
  std::string RefusalOf(const Node& node) const {
    std::string reason = "there is no kernel for it";
    std::vector<TensorType> inputs = graph_.InputTypes(node);
    std::vector<TensorType> outputs = graph_.OutputTypes(node);
    const bool deterministic = context_.options.deterministic;
    for (const KernelDef* row : UsableKernels(graph_.catalog(), node.op->name, context_.options)) {
      const auto proposal = row->propose({node, inputs, outputs, deterministic});
      if (!proposal) continue;
      for (size_t i = 0; i < inputs.size(); ++i) inputs[i].layout = proposal->inputs[i].Simplified(inputs[i].shape);
      for (size_t i = 0; i < outputs.size(); ++i) outputs[i].layout = proposal->outputs[i].Simplified(outputs[i].shape);
      const KernelQuery query{node, inputs, outputs, deterministic};
      reason = row->refuse(query);
      if (reason.empty() && !context_.runs_elsewhere && row->make(query)->IsReference())
        reason = StrCat(row->name, " has only its reference for integers of this shape here");
      if (reason.empty()) break;
    }
    return reason;
  }

  Graph& graph_;
  const PassContext& context_;
  const std::map<std::string, ConvolutionRanges>& ranges_;
  std::vector<std::vector<NodeId>> uses_;  // of the values that were there before
  std::set<NodeId> wanted_;
  std::map<ValueId, Integers> integers_;  // by the value in real numbers
  std::string refusal_;
};

}  // namespace

bool QuantizeInference(Graph& graph, const PassContext& context) {
  if (!context.options.inference || context.options.quantization == nullptr) return false;
  QuantizePass pass(graph, context);
  const bool changed = pass.Run();
  if (!HasIntegers(graph)) {
    const std::string reason = Convolutions(graph).empty() ? "the net has none whose weights stay"
                               : !pass.refusal().empty()   ? pass.refusal()
                                                           : "none has ranges and inputs that are never below 0";
    LogWarning(StrCat("program \"", context.options.name, "\": no convolution runs on 8-bit integers: ", reason));
  }
  return changed;
}

bool ObserveConvolutions(Graph& graph, const PassContext& context) {
  if (!context.options.inference || !context.options.observes_convolutions) return false;
  for (const NodeId id : Convolutions(graph)) {
    const Node& node = graph.node(id);
    const std::string prefix = StrCat("@int8/", LayerOf(node), "/");
    graph.AddOutput(prefix + "x", node.inputs[0]);
    graph.AddOutput(prefix + "y", node.outputs[0]);
    graph.AddOutput(prefix + "w", node.inputs[1]);
  }
  return true;
}

}  // namespace moka
