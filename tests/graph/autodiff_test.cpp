#include "graph/autodiff.h"

#include <gtest/gtest.h>

#include <cmath>

#include "graph/interpreter.h"
#include "layers/catalog.h"

namespace moka {
namespace {

const TensorType kVector{DType::kFloat32, Shape{3}, {}};

TEST(AutodiffTest, PathsThatMeetAreOneSum) {
  Graph graph(StandardCatalog());
  const ValueId x = graph.AddInput("x", kVector);
  const GraphBuilder b(graph, {"l", {}, "", kNoId});
  const ValueId a = b.Pointwise("x0*x0", {x});
  const ValueId c = b.Pointwise("exp(x0)", {x});
  const ValueId d = b.Pointwise("3*x0", {x});
  const ValueId loss = b.SumAll(b.Pointwise("x0+x1+x2", {a, c, d}));
  const std::vector<ValueId> dx = Differentiate(graph, loss, std::vector<ValueId>{x});
  ASSERT_NE(dx[0], kNoId);
  const Node& sum = graph.node(graph.value(dx[0]).producer);
  EXPECT_EQ(sum.inputs.size(), 3U);
  const auto values = Interpret(graph, {{x, {kVector, {0.5, -1, 2}}}}, dx);
  for (size_t i = 0; i < 3; ++i) {
    const double v = std::vector<double>{0.5, -1, 2}[i];
    EXPECT_NEAR(values[0].values[i], 2 * v + std::exp(v) + 3, 1e-12);
  }
}

TEST(AutodiffTest, OnlyPathsToWantedValuesGetNodes) {
  Graph graph(StandardCatalog());
  const ValueId x = graph.AddInput("x", kVector);
  const ValueId w = graph.AddState("w", kVector);
  const GraphBuilder b(graph, {"l", {}, "", kNoId});
  const ValueId inner = b.Pointwise("tanh(x0)", {x});
  const ValueId far = b.Pointwise("exp(x0)", {inner});
  const ValueId loss = b.SumAll(b.Pointwise("x0*x1", {far, w}));
  const int before = graph.node_count();
  const std::vector<ValueId> dw = Differentiate(graph, loss, std::vector<ValueId>{w});
  ASSERT_NE(dw[0], kNoId);
  EXPECT_GT(graph.node_count(), before);
  for (NodeId id = before; id < graph.node_limit(); ++id) {
    if (!graph.IsAlive(id)) continue;
    // A gradient of exp would read inner or far's other inputs; only the product's gradient reads far itself.
    for (const ValueId input : graph.node(id).inputs) EXPECT_TRUE(input != inner && input != x);
  }
}

TEST(AutodiffTest, StoppedAndUnreachedValuesHaveNoGradient) {
  Graph graph(StandardCatalog());
  const ValueId x = graph.AddInput("x", kVector);
  const ValueId y = graph.AddInput("y", kVector);
  const GraphBuilder b(graph, {"l", {}, "", kNoId});
  const ValueId stopped = b.Add1("stop_gradient", {x});
  const ValueId loss = b.SumAll(b.Pointwise("x0*x0", {stopped}));
  const std::vector<ValueId> gradients = Differentiate(graph, loss, std::vector<ValueId>{x, y});
  EXPECT_EQ(gradients[0], kNoId);
  EXPECT_EQ(gradients[1], kNoId);
}

}  // namespace
}  // namespace moka
