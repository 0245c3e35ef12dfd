// The shape of gradients' graphs: one sum where paths meet, nothing where none is wanted.
#include "graph/autodiff.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "graph/interpreter.h"
#include "layers/net/catalog.h"

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

// The gradient of w [4,5] by two products x_i w with x_i [rows,4].
std::string GradientOpOfSharedWeight(int64_t rows) {
  Graph graph(StandardCatalog());
  const TensorType x{DType::kFloat32, Shape{rows, 4}, {}};
  const TensorType w{DType::kFloat32, Shape{4, 5}, {}};
  const std::vector<ValueId> in{graph.AddInput("x", x), graph.AddInput("y", x), graph.AddState("w", w)};
  const GraphBuilder b(graph, {"l", {}, "", kNoId});
  const ValueId first = b.Pointwise("tanh(x0)", {b.Add1("matmul", {in[0], in[2]})});
  const ValueId loss = b.SumAll(b.Pointwise("x0*x1", {first, b.Add1("matmul", {in[1], in[2]})}));
  const std::vector<ValueId> dw = Differentiate(graph, loss, std::vector{in[2]});

  std::map<ValueId, RefTensor> fed;
  for (const ValueId id : in) {
    RefTensor& tensor = fed[id] = {graph.type(id), {}};
    for (int64_t i = 0; i < tensor.type.shape.Count(); ++i)
      tensor.values.push_back(0.3 * std::sin(static_cast<double>(i + id)));
  }
  const std::vector<double> found = Interpret(graph, fed, dw)[0].values;
  for (size_t i = 0; i < found.size(); ++i) {
    std::vector<double> sides;
    for (const double step : {1e-5, -1e-5}) {
      auto moved = fed;
      moved[in[2]].values[i] += step;
      sides.push_back(Interpret(graph, moved, std::vector{loss})[0].values[0]);
    }
    EXPECT_NEAR(found[i], (sides[0] - sides[1]) / 2e-5, 1e-7);
  }
  return graph.node(graph.value(dw[0]).producer).op->name;
}

TEST(AutodiffTest, ProductsOfASharedWeightAreOneWhereThatIsSmaller) {
  EXPECT_EQ(GradientOpOfSharedWeight(2), "matmul");     // 2*2 rows of 4+5 against two parts of 4*5
  EXPECT_EQ(GradientOpOfSharedWeight(3), "pointwise");  // 6*9 > 2*20
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
