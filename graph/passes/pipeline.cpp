// The order of passes, and why each is where it is, reads from top to bottom in CompilePasses. RunPasses wraps them
// alike: skipped if disabled, timed, and verified after each change.
#include <algorithm>
#include <chrono>

#include "core/text.h"
#include "graph/op.h"
#include "graph/passes/passes.h"

namespace moka {

const std::vector<Pass>& CompilePasses() {
  static const std::vector<Pass> passes = {
      {"simplify", "no dead, duplicate or identity nodes", Simplify},
      {"compose", "batch norm with its scale and ReLU, convolution with its ReLU",
       [](Graph& graph, const PassContext& context) { return ComposeForward(graph, context.visits); }},
      {"fold", "inference: affine maps after a convolution live in its weights, bias, sum and activation",
       FoldInference},
      {"observe", "calibration: inputs, results and weights of convolutions are outputs", ObserveConvolutions, false},
      {"quantize", "inference: convolutions with known ranges run on 8-bit integers", QuantizeInference},
      {"precision", "half precision, if asked for: products, and what lies between them, are of a half type",
       AssignPrecision, false},
      {"fuse", "chains of pointwise nodes are one node; reductions take their pointwise producer in", FusePointwise},
      {"join_tables", "sums of rows of several tables by the same indices are one node", JoinTables},
      {"sparse_updates", "a table whose update keeps rows without gradient is updated row by row", UpdateSparsely},
      {"recompute", "if asked for: results of batch norms are made again for the backward pass instead of kept",
       Recompute},
      {"constant_weights", "inference: products know which weights are the same in every run", MarkConstantWeights},
      {"tracks", "inference: each thread takes images of its own through what treats every image by itself",
       CutIntoTracks},
      {"split_batch", "inference: where memory is widest, nodes run on a part of the images at a time", SplitBatch},
      {"depth_stems", "on a GPU: trainings' strided convolutions of few channels take blocks of pixels as channels",
       DeepenStems},
      {"layout", "each value has the layout its kernels want; reorders only at borders", AssignLayouts, false},
      {"channel_statistics", "on a GPU: convolutions sum the statistics of the batch norms behind them",
       SumChannelStatistics},
      {"gradient_sums", "on a GPU: gradients of convolutions sum what the batch norms in front of them want",
       SumGradients},
      {"group_updates", "on a GPU: updates and norms by the same expressions are one node", GroupUpdates},
      {"await_gathers", "ranks: what other ranks own of the weights is waited for where it is read first", AwaitGathers,
       false},
  };
  return passes;
}

void RunPasses(const std::vector<Pass>& passes, Graph& graph, const PassContext& context,
               std::vector<PassReport>& reports) {
  for (const std::string& name : context.options.disabled_passes) {
    const auto it = std::find_if(passes.begin(), passes.end(), [&](const Pass& pass) { return pass.name == name; });
    std::vector<std::string> names;
    for (const Pass& pass : passes) {
      if (pass.optional) names.emplace_back(pass.name);
    }
    if (it == passes.end()) {
      throw Error(ErrorKind::kUsage, {}, StrCat("no pass \"", name, "\" (", Join(names, ", "), ")"),
                  DidYouMean(name, names));
    }
    if (!it->optional) throw Error(ErrorKind::kUsage, StrCat("pass \"", name, "\" cannot be disabled"));
  }
  for (const Pass& pass : passes) {
    if (context.options.on_pulse) context.options.on_pulse();
    PassReport report;
    report.name = pass.name;
    report.nodes_before = graph.node_count();
    report.skipped = context.options.disabled_passes.contains(report.name);
    const auto begin = std::chrono::steady_clock::now();
    if (!report.skipped) report.changed = pass.run(graph, {context.options, context.store, &report.visits});
    report.ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    report.nodes_after = graph.node_count();
    if (report.changed) Verify(graph, pass.name);
    if (report.changed && context.options.on_pass) context.options.on_pass(pass.name, graph);
    reports.push_back(std::move(report));
  }
}

std::vector<bool> Pinned(const Graph& graph) {
  std::vector<bool> pinned(static_cast<size_t>(graph.value_count()), false);
  for (const GraphOutput& output : graph.outputs()) pinned[static_cast<size_t>(output.value)] = true;
  for (const Assignment& assignment : graph.assignments()) pinned[static_cast<size_t>(assignment.value)] = true;
  return pinned;
}

std::vector<bool> WrittenStates(const Graph& graph) {
  std::vector<bool> written(static_cast<size_t>(graph.value_count()), false);
  for (const Assignment& assignment : graph.assignments()) written[static_cast<size_t>(assignment.state)] = true;
  return written;
}

bool IsConstantNode(const Graph& graph, const Node& node, const std::vector<bool>& constant,
                    const std::vector<bool>& written, bool states_are_constant) {
  if (!node.op->is_pure) return false;  // ranks meet in every run, whatever they have
  return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
    const Value& value = graph.value(input);
    if (value.producer != kNoId) return static_cast<bool>(constant[static_cast<size_t>(value.producer)]);
    return states_are_constant && value.kind == ValueKind::kState && !written[static_cast<size_t>(input)];
  });
}

std::vector<bool> ConstantNodes(const Graph& graph, bool states_are_constant) {
  std::vector<bool> constant(static_cast<size_t>(graph.node_limit()), false);
  const std::vector<bool> written = WrittenStates(graph);
  for (const NodeId id : graph.TopologicalOrder()) {
    constant[static_cast<size_t>(id)] = IsConstantNode(graph, graph.node(id), constant, written, states_are_constant);
  }
  return constant;
}

}  // namespace moka
