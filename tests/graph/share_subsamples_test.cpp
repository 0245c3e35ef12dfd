// Strided convolutions by windows of one element share the positions they read, and a batch norm that nothing else
// reads makes no others: the same losses and the same trained weights.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "core/rng.h"
#include "graph/autodiff.h"
#include "graph/pass.h"
#include "graph/program.h"
#include "layers/net/catalog.h"
#include "tests/graph/weight.h"

namespace moka {
namespace {

enum class Reader { kNone, kWhole, kOutput };

// x -> batch norm with a residual and ReLU -> two convolutions of stride 2, summed to a loss; trained by plain descent.
struct StridedNet {
  Reader other = Reader::kNone;  // who else reads what the convolutions read
  int64_t second_stride = 2;
  int64_t kernel = 1;
  bool norm = true;

  Graph graph{StandardCatalog()};
  ParameterStore store;
  std::vector<ValueId> weights;

  ValueId Weight(const std::string& name, const Shape& shape) {
    weights.push_back(AddWeight(graph, store, name, shape, 0.5));
    return weights.back();
  }

  ValueId Convolve(const GraphBuilder& b, const std::string& name, ValueId x, int64_t stride) {
    return b.Add1("convolution", {x, Weight(name, Shape{16, 16, kernel, kernel})},
                  {{"stride", Ints{stride, stride}},
                   {"pad_begin", Ints{0, 0}},
                   {"pad_end", Ints{0, 0}},
                   {"dilation", Ints{1, 1}},
                   {"groups", int64_t{1}}});
  }

  void Build() {
    const ValueId x = graph.AddInput("x", {DType::kFloat32, Shape{2, 16, 9, 7}, {}});
    const GraphBuilder b(graph, {"net", {}, "", kNoId});
    const ValueId scaled = b.Pointwise("x0*x1", {x, b.Reshape(Weight("before", Shape{16}), Shape{1, 16, 1, 1})});
    const ValueId residual = b.Pointwise("x0*x0", {scaled});
    const ValueId y =
        norm ? b.Add("batch_norm", {scaled, Weight("scale", Shape{16}), Weight("shift", Shape{16}), residual},
                     {{"eps", 1e-5}, {"relu", true}, {"sum", true}})[0]
             : residual;
    const ValueId first = Convolve(b, "first", y, 2);
    const ValueId second = Convolve(b, "second", y, second_stride);
    ValueId loss = b.ReduceSum(b.Pointwise("tanh(x0)", {first}), Ints{0, 1, 2, 3});
    loss = b.Pointwise("x0+x1", {loss, b.ReduceSum(b.Pointwise("x0*x0", {second}), Ints{0, 1, 2, 3})});
    if (other == Reader::kWhole) loss = b.Pointwise("x0+x1", {loss, b.ReduceSum(y, Ints{0, 1, 2, 3})});
    if (other == Reader::kOutput) graph.AddOutput("y", y);
    loss = b.Reshape(loss, Shape{});
    graph.AddOutput("loss", loss);
    loss_ = loss;
  }

  int Count(const std::string& op) const {
    int count = 0;
    for (const NodeId id : graph.TopologicalOrder()) count += graph.node(id).op->name == op ? 1 : 0;
    return count;
  }
  int SampledNorms() const {
    int count = 0;
    for (const NodeId id : graph.TopologicalOrder()) {
      const Node& node = graph.node(id);
      if (node.op->name == "batch_norm" && !node.attributes.Get<Ints>("stride").empty()) ++count;
    }
    return count;
  }

  // Losses of three steps and then the weights.
  std::vector<float> Train() {
    const std::vector<ValueId> trained = weights;
    const std::vector<ValueId> gradients = Differentiate(graph, loss_, trained);
    const GraphBuilder b(graph, {"", {}, "update", kNoId});
    for (size_t i = 0; i < trained.size(); ++i) {
      graph.Assign(trained[i], b.Pointwise("x0-0.001*x1", {trained[i], gradients[i]}));
    }
    const auto program = Compile(std::move(graph), store, {});
    RandomStream random(5, 1);
    for (float& v : program->input("x").as<float>()) v = static_cast<float>(random.Uniform(-1, 1));
    std::vector<float> all;
    for (int i = 0; i < 3; ++i) {
      program->Run();
      all.push_back(program->output("loss").as<float>()[0]);
    }
    for (const std::string& name : store.Names()) {
      const std::vector<float> values = store.Values(name);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

 private:
  ValueId loss_ = kNoId;
};

void ExpectSame(StridedNet net, const std::string& what) {
  StridedNet untouched;
  untouched.other = net.other;
  untouched.norm = net.norm;
  untouched.Build();
  const std::vector<float> expected = untouched.Train();
  const std::vector<float> found = net.Train();
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], 2e-5F * std::max(1.0F, std::abs(expected[i]))) << what << ", value " << i;
  }
}

TEST(ShareSubsamplesTest, ANormThatNothingElseReadsMakesTheSharedPositionsAlone) {
  StridedNet net;
  net.Build();
  EXPECT_TRUE(ShareSubsamples(net.graph));
  EXPECT_EQ(net.SampledNorms(), 1);
  EXPECT_EQ(net.Count("batch_norm"), 1);
  EXPECT_EQ(net.Count("pool_average"), 0);
  EXPECT_FALSE(ShareSubsamples(net.graph));  // idempotent
  ExpectSame(std::move(net), "sampled norm");
}

TEST(ShareSubsamplesTest, OthersShareACopy) {
  for (const Reader other : {Reader::kWhole, Reader::kOutput}) {
    StridedNet net;
    net.other = other;
    net.Build();
    EXPECT_TRUE(ShareSubsamples(net.graph));
    EXPECT_EQ(net.SampledNorms(), 0);
    EXPECT_EQ(net.Count("pool_average"), 1);
    ExpectSame(std::move(net), other == Reader::kWhole ? "read as a whole" : "an output");
  }
  StridedNet net;
  net.norm = false;
  net.Build();
  EXPECT_TRUE(ShareSubsamples(net.graph));
  EXPECT_EQ(net.Count("pool_average"), 1);
  ExpectSame(std::move(net), "no norm");
}

TEST(ShareSubsamplesTest, OtherStridesAndWindowsStayAsTheyAre) {
  StridedNet strides;
  strides.second_stride = 3;
  strides.Build();
  EXPECT_FALSE(ShareSubsamples(strides.graph));
  StridedNet windows;
  windows.kernel = 2;
  windows.Build();
  EXPECT_FALSE(ShareSubsamples(windows.graph));
}

}  // namespace
}  // namespace moka
