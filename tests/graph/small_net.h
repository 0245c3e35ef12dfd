// The net that tests of compiled programs train.
#pragma once

#include <string>
#include <vector>

#include "core/rng.h"
#include "graph/autodiff.h"
#include "graph/program.h"
#include "layers/net/catalog.h"
#include "tests/graph/weight.h"

namespace moka {

inline TensorType Type(const Shape& shape) { return {DType::kFloat32, shape, {}}; }

// A small residual net with every pattern the passes look for: conv -> batch norm -> scale -> ReLU, a shortcut,
// pooling, a matmul with ReLU, softmax loss; trained by momentum SGD.
struct SmallNet {
  explicit SmallNet(const Device& device = {}) : store(device) {}

  Graph graph{StandardCatalog()};
  ParameterStore store;
  std::vector<ValueId> weights;
  ValueId loss = kNoId;

  ValueId Weight(const std::string& name, const Shape& shape) {
    weights.push_back(AddWeight(graph, store, name, shape, 0.5));
    return weights.back();
  }

  ValueId Unit(const std::string& name, ValueId x, int64_t channels, bool relu) {
    const GraphBuilder b(graph, {name, {}, "", kNoId});
    const ValueId w = Weight(name + "/w", Shape{channels, graph.shape(x)[1], 3, 3});
    const ValueId conv = b.Add1("convolution", {x, w}, Geometry());
    const ValueId norm = b.Add("batch_norm", {conv}, {{"eps", 1e-5}})[0];
    const ValueId scale = b.Reshape(Weight(name + "/scale", Shape{channels}), Shape{1, channels, 1, 1});
    const ValueId shift = b.Reshape(Weight(name + "/shift", Shape{channels}), Shape{1, channels, 1, 1});
    const ValueId y = b.Pointwise("x0*x1+x2", {norm, scale, shift});
    return relu ? b.Pointwise("max(x0,0)", {y}) : y;
  }

  static Attributes Geometry() {
    return {{"stride", Ints{1, 1}},
            {"pad_begin", Ints{1, 1}},
            {"pad_end", Ints{1, 1}},
            {"dilation", Ints{1, 1}},
            {"groups", int64_t{1}}};
  }

  void Build() {
    const ValueId x = graph.AddInput("x", Type(Shape{4, 3, 8, 8}));
    const ValueId label = graph.AddInput("label", Type(Shape{4}));
    const ValueId a = Unit("a", x, 16, true);
    const ValueId c = Unit("c", a, 16, false);
    const GraphBuilder b(graph, {"head", {}, "", kNoId});
    const ValueId sum = b.Pointwise("max(x0+x1,0)", {a, c});
    const ValueId pool =
        b.Add("pool_max", {sum},
              {{"kernel", Ints{2, 2}}, {"stride", Ints{2, 2}}, {"pad_begin", Ints{0, 0}}, {"pad_end", Ints{0, 0}}})[0];
    const ValueId flat = b.Reshape(pool, Shape{4, 16 * 16});
    const ValueId logits =
        b.Add1("matmul", {flat, Weight("head/w", Shape{10, 256})}, {{"transpose_a", false}, {"transpose_b", true}});
    loss = b.Add("softmax_loss", {logits, label},
                 {{"axis", int64_t{1}}, {"has_ignore", false}, {"ignore_label", int64_t{0}}})[0];
    graph.AddOutput("loss", loss);
  }

  void Train() {
    const std::vector<ValueId> gradients = Differentiate(graph, loss, weights);
    const GraphBuilder b(graph, {"", {}, "update", kNoId});
    const std::vector<ValueId> trained = weights;
    for (size_t i = 0; i < trained.size(); ++i) {
      const std::string slot = graph.value(trained[i]).name + "/@history";
      store.Add(slot, graph.shape(trained[i]));
      const ValueId history = graph.AddState(slot, Type(graph.shape(trained[i])));
      const std::vector<ValueId> next =
          b.Pointwise(Strings{"0.9*x1+0.01*x2", "x0-(0.9*x1+0.01*x2)"}, {trained[i], history, gradients[i]});
      graph.Assign(history, next[0]);
      graph.Assign(trained[i], next[1]);
    }
  }
};

inline void Feed(const Program& program) {
  RandomStream random(5, 1);
  for (float& v : program.input("x").as<float>()) v = static_cast<float>(random.Uniform(-1, 1));
  for (size_t i = 0; i < 4; ++i) program.input("label").as<float>()[i] = static_cast<float>(i * 2);
}

}  // namespace moka
