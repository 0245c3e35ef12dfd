// The tables that passes rewrite by agree with a graph looked at anew after any change, a sweep ends where sweeps that
// begin again after each change would, and the passes' work grows with the graph, not with its square.
#include "graph/passes/rewriter.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/rng.h"
#include "core/text.h"
#include "graph/autodiff.h"
#include "graph/pass.h"
#include "layers/net/catalog.h"

namespace moka {
namespace {

const TensorType kVector{DType::kFloat32, Shape{4}, {}};

std::string SumText(size_t count) {
  std::vector<std::string> terms;
  for (size_t i = 0; i < count; ++i) terms.push_back(StrCat("x", i));
  return Join(terms, "+");
}

// Sums of one to three values each, some of them outputs or assigned. Node numbers rise along edges or, where
// `scrambled`, sequences are drawn (as passes leave them that let a node take the place of a later one).
Graph RandomGraph(uint64_t seed, int nodes, bool scrambled) {
  RandomStream random(seed, 1);
  Graph graph{StandardCatalog()};
  std::vector<ValueId> values = {graph.AddInput("x", kVector), graph.AddState("w", kVector)};
  for (int i = 0; i < nodes; ++i) {
    std::vector<ValueId> inputs;
    for (uint64_t k = 0; k <= random.Below(3); ++k) {
      const uint64_t back = std::min<uint64_t>(values.size(), 1 + random.Below(12));
      inputs.push_back(values[values.size() - back]);
    }
    const int32_t sequence = scrambled ? static_cast<int32_t>(random.Below(static_cast<uint64_t>(nodes))) : kNoId;
    const GraphBuilder b(graph, {StrCat("n", i), {}, "", sequence});
    values.push_back(b.Pointwise(SumText(inputs.size()), inputs));
    if (random.Below(20) == 0) graph.AddOutput(StrCat("y", i), values.back());
  }
  graph.AddOutput("last", values.back());
  graph.Assign(values[1], values[values.size() / 2]);
  return graph;
}

constexpr size_t kWidest = 6;

// The inputs of a sum once it takes in `between`, a sum only it reads; none if it must not.
std::vector<ValueId> Joined(const Graph& graph, NodeId id, ValueId between, int64_t reads, bool pinned) {
  const Node& node = graph.node(id);
  const NodeId producer = graph.value(between).producer;
  if (producer == kNoId || pinned || std::count(node.inputs.begin(), node.inputs.end(), between) != reads) return {};
  std::vector<ValueId> inputs;
  for (const ValueId input : node.inputs) {
    const std::vector<ValueId> added = input == between ? graph.node(producer).inputs : std::vector<ValueId>{input};
    inputs.insert(inputs.end(), added.begin(), added.end());
  }
  return inputs.size() <= kWidest ? inputs : std::vector<ValueId>{};
}

// The way of a pass without a Rewriter: after each change the tables are made anew and the sweep begins again.
bool JoinOneAnew(Graph& graph) {
  const std::vector<std::vector<NodeId>> uses = graph.Uses();
  for (const NodeId id : graph.TopologicalOrder()) {
    for (const ValueId between : graph.node(id).inputs) {
      const auto is_it = [&](const auto& place) { return place.value == between; };
      const bool pinned = std::any_of(graph.outputs().begin(), graph.outputs().end(), is_it) ||
                          std::any_of(graph.assignments().begin(), graph.assignments().end(), is_it);
      const auto reads = static_cast<int64_t>(uses[static_cast<size_t>(between)].size());
      const std::vector<ValueId> inputs = Joined(graph, id, between, reads, pinned);
      if (inputs.empty()) continue;
      const Node old = graph.node(id);
      const ValueId sum = GraphBuilder(graph, old.origin).Pointwise(SumText(inputs.size()), inputs);
      graph.ReplaceUses(old.outputs[0], sum);
      graph.RemoveNode(id);
      graph.RemoveNode(graph.value(between).producer);
      return true;
    }
  }
  return false;
}

bool JoinOne(Graph& graph, Rewriter& rewriter, NodeId id) {
  for (const ValueId between : graph.node(id).inputs) {
    const std::vector<ValueId> inputs = Joined(graph, id, between, rewriter.reads(between), rewriter.IsPinned(between));
    if (inputs.empty()) continue;
    const Node old = graph.node(id);
    const ValueId sum = GraphBuilder(graph, old.origin).Pointwise(SumText(inputs.size()), inputs);
    rewriter.ReplaceUses(old.outputs[0], sum);
    rewriter.RemoveNode(id);
    rewriter.RemoveNode(graph.value(between).producer);
    return true;
  }
  return false;
}

TEST(RewriterTest, ASweepEndsWhereSweepsThatBeginAgainWould) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Graph graph = RandomGraph(seed, 80, false);
    Graph other = RandomGraph(seed, 80, false);
    Rewriter rewriter(graph);
    int joined = 0;
    const bool changed = rewriter.Sweep([&](NodeId id) {
      const bool joins = JoinOne(graph, rewriter, id);
      joined += joins ? 1 : 0;
      return joins;
    });
    int anew = 0;
    while (JoinOneAnew(other)) ++anew;
    EXPECT_EQ(joined, anew);
    EXPECT_EQ(changed, anew > 0);
    EXPECT_EQ(ToText(graph), ToText(other)) << "seed " << seed;
  }
}

// If sequences come in any order, the joins may come in another order, and the new values have other numbers; the graph
// is as large, nothing is left to join and it is sound.
TEST(RewriterTest, ASweepLeavesNothingToJoinWhateverTheSequences) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Graph graph = RandomGraph(seed, 80, true);
    Rewriter rewriter(graph);
    rewriter.Sweep([&](NodeId id) { return JoinOne(graph, rewriter, id); });
    Verify(graph, "the sweep");
    EXPECT_FALSE(JoinOneAnew(graph)) << "seed " << seed;
  }
}

TEST(RewriterTest, TheTablesAgreeWithTheGraphAfterEachChange) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Graph graph = RandomGraph(seed, 40, false);
    Rewriter rewriter(graph);
    RandomStream random(seed, 2);
    for (int change = 0; change < 25; ++change) {
      const std::vector<NodeId> order = graph.TopologicalOrder();
      const Node node = graph.node(order[random.Below(order.size())]);
      // A copy that stands for the node from now on; now and then the node stays beside it.
      const ValueId copy = GraphBuilder(graph, node.origin).Pointwise(SumText(node.inputs.size()), node.inputs);
      rewriter.ReplaceUses(node.outputs[0], copy);
      if (random.Below(4) != 0) rewriter.RemoveNode(node.id);
      const std::vector<std::vector<NodeId>> uses = graph.Uses();
      for (ValueId id = 0; id < graph.value_count(); ++id) {
        const std::vector<NodeId>& readers = uses[static_cast<size_t>(id)];
        const auto is_it = [&](const auto& place) { return place.value == id; };
        const bool pinned = std::any_of(graph.outputs().begin(), graph.outputs().end(), is_it) ||
                            std::any_of(graph.assignments().begin(), graph.assignments().end(), is_it);
        ASSERT_EQ(rewriter.reads(id), static_cast<int>(readers.size()));
        ASSERT_EQ(rewriter.IsPinned(id), pinned);
        ASSERT_EQ(rewriter.OnlyUser(id), !pinned && readers.size() == 1 ? readers[0] : kNoId);
      }
    }
  }
}

// Units of convolution, batch norm, scale and shift, ReLU, and a sum; `trained` with gradients, else as inference.
std::vector<PassReport> PassesOver(int units, bool trained) {
  Graph graph{StandardCatalog()};
  ParameterStore store;
  std::vector<ValueId> weights;
  const auto weight = [&](const std::string& name, const Shape& shape) {
    store.Add(name, shape);
    weights.push_back(graph.AddState(name, {DType::kFloat32, shape, {}}));
    return weights.back();
  };
  ValueId x = graph.AddInput("x", {DType::kFloat32, Shape{2, 4, 5, 5}, {}});
  for (int i = 0; i < units; ++i) {
    const std::string name = StrCat("unit", i);
    const GraphBuilder b(graph, {name, {}, "", kNoId});
    const ValueId conv = b.Add1("convolution", {x, weight(name + "/w", Shape{4, 4, 3, 3})},
                                {{"stride", Ints{1, 1}},
                                 {"pad_begin", Ints{1, 1}},
                                 {"pad_end", Ints{1, 1}},
                                 {"dilation", Ints{1, 1}},
                                 {"groups", int64_t{1}}});
    const ValueId norm = trained ? b.Add("batch_norm", {conv}, {{"eps", 1e-5}})[0] : conv;
    const ValueId scale = b.Reshape(weight(name + "/scale", Shape{4}), Shape{1, 4, 1, 1});
    const ValueId shift = b.Reshape(weight(name + "/shift", Shape{4}), Shape{1, 4, 1, 1});
    const ValueId y = b.Pointwise("max(x0,0)", {b.Pointwise("x0*x1+x2", {norm, scale, shift})});
    x = b.Pointwise("sigmoid(x0)", {b.Pointwise("tanh(x0)", {b.Pointwise("x0+x1", {y, x})})});
  }
  const GraphBuilder b(graph, {"loss", {}, "", kNoId});
  const ValueId loss = b.SumAll(x);
  graph.AddOutput("loss", loss);
  if (trained) {
    const std::vector<ValueId> gradients = Differentiate(graph, loss, weights);
    const GraphBuilder update(graph, {"", {}, "update", kNoId});
    for (size_t i = 0; i < weights.size(); ++i) {
      graph.Assign(weights[i], update.Pointwise("x0-0.1*x1", {weights[i], gradients[i]}));
    }
  }
  CompileOptions options;
  options.inference = !trained;
  std::vector<PassReport> reports;
  RunPasses(CompilePasses(), graph, {options, store}, reports);
  return reports;
}

TEST(RewriterTest, WorkOfThePassesGrowsWithTheGraph) {
  for (const bool trained : {true, false}) {
    const std::vector<PassReport> once = PassesOver(40, trained);
    const std::vector<PassReport> twice = PassesOver(80, trained);
    for (size_t i = 0; i < once.size(); ++i) {
      EXPECT_LE(static_cast<double>(twice[i].visits), 2.1 * static_cast<double>(once[i].visits)) << once[i].name;
      // Some ten looks at a node: many sweeps would be many times as many, at any size.
      EXPECT_LE(once[i].visits, 40 * int64_t{once[i].nodes_before}) << once[i].name;
      const bool rewrites = once[i].name == "simplify" || once[i].name == "compose" || once[i].name == "fuse" ||
                            once[i].name == "sparse_updates" || once[i].name == "join_tables" ||
                            ((once[i].name == "constant_weights" || once[i].name == "fold" ||
                              once[i].name == "tracks" || once[i].name == "split_batch") &&
                             !trained);
      EXPECT_EQ(once[i].visits > 0, rewrites || once[i].name == "layout") << once[i].name;
    }
    const bool fuses = std::any_of(once.begin(), once.end(), [](const PassReport& r) {
      return r.name == "fuse" && r.nodes_after + 40 <= r.nodes_before;
    });
    EXPECT_TRUE(fuses) << "each unit has a chain to fuse";
  }
}

}  // namespace
}  // namespace moka
