// An inference net whose first layers are wide, for the tests of passes that run it on parts of the images.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/rng.h"
#include "core/text.h"
#include "graph/program.h"
#include "layers/net/catalog.h"
#include "tests/graph/weight.h"

namespace moka {

struct Outcome {
  std::vector<float> y;
  int64_t arena_bytes = 0;
  int64_t convolutions = 0;
  int64_t copies = 0;     // slices and concats
  int64_t in_tracks = 0;  // convolutions
};

inline Attributes Convolution(const char* activation) {
  return {{"stride", Ints{1, 1}},   {"pad_begin", Ints{1, 1}}, {"pad_end", Ints{1, 1}},
          {"dilation", Ints{1, 1}}, {"groups", int64_t{1}},    {"activation", std::string(activation)}};
}

// x [images,3,size,size] -> two convolutions of 16 channels with a shortcut -> 8x8 max pooling -> a convolution. With
// `mixes` every image loses the mean of all in between.
struct WideNet {
  int64_t images = 16;
  int64_t size = 256;
  bool mixes = false;
  bool noise = false;  // on the first convolution's results
  bool inference = true;

  std::unique_ptr<Program> Make(ParameterStore& store, const std::set<std::string>& disabled) const {
    Graph graph{StandardCatalog()};
    const auto weight = [&](const std::string& name, const Shape& shape) {
      return AddWeight(graph, store, name, shape, 0.2);
    };
    const ValueId x = graph.AddInput("x", {DType::kFloat32, Shape{images, 3, size, size}, {}});
    const GraphBuilder b(graph, {"wide", {}, "", kNoId});
    ValueId first = b.Add1("convolution", {x, weight("a", Shape{16, 3, 3, 3})}, Convolution("relu"));
    if (noise) first = b.Pointwise("x0+rand(x1,7)", {first, b.Full(Shape{}, 3)});
    ValueId second = b.Add1("convolution", {first, weight("b", Shape{16, 16, 3, 3})}, Convolution(""));
    if (mixes) {
      const ValueId sum = b.ReduceSum(second, Ints{0});
      second = b.Pointwise(StrCat("x0-x1*", 1.0 / static_cast<double>(images)), {second, sum});
    }
    const ValueId joined = b.Pointwise("max(x0+x1,0)", {first, second});
    const ValueId pool =
        b.Add1("pool_max_forward", {joined},
               {{"kernel", Ints{8, 8}}, {"stride", Ints{8, 8}}, {"pad_begin", Ints{0, 0}}, {"pad_end", Ints{0, 0}}});
    graph.AddOutput("y", b.Add1("convolution", {pool, weight("c", Shape{4, 16, 3, 3})}, Convolution("")));
    CompileOptions options;
    options.inference = inference;
    options.disabled_passes = disabled;
    return Compile(std::move(graph), store, options);
  }

  Outcome Run(const std::set<std::string>& disabled) const {
    ParameterStore store;
    const std::unique_ptr<Program> program = Make(store, disabled);
    RandomStream random(5, 1);
    for (float& v : program->input("x").as<float>()) v = static_cast<float>(random.Uniform(-1, 1));
    program->Run();
    Outcome outcome;
    const auto y = program->output("y").as<float>();
    outcome.y.assign(y.begin(), y.end());
    outcome.arena_bytes = program->report().memory.arena_bytes;
    for (const StepReport& step : program->steps()) {
      outcome.convolutions += step.op == "convolution" ? 1 : 0;
      outcome.in_tracks += step.op == "convolution" && step.pass == "tracks" ? 1 : 0;
      outcome.copies += step.op == "slice" || step.op == "concat" ? 1 : 0;
    }
    return outcome;
  }
};

inline void ExpectNear(const Outcome& a, const Outcome& b) {
  ASSERT_EQ(a.y.size(), b.y.size());
  float scale = 0;
  for (const float v : b.y) scale = std::max(scale, std::abs(v));
  ASSERT_GT(scale, 0.1F);
  for (size_t i = 0; i < a.y.size(); ++i) ASSERT_NEAR(a.y[i], b.y[i], 1e-5F * scale) << i;
}

}  // namespace moka
