// Two stacked recurrent layers alone, forward or forward and backward (gradients of x and of every weight), beside
// torch.nn's by peers/recurrent_torch.py; over whole rows, or packed: lengths that fall evenly from all steps to one.
// Each line read, "LSTM|GRU forward|backward whole|packed N", is answered with the milliseconds of one of N steps. The
// first line printed says what is there.
// Verifies that two runs give the same bits and that no value of y is beyond 1.
// Usage: recurrent_bench [STEPS ROWS UNITS]
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <sstream>

#include "core/error.h"
#include "core/rng.h"
#include "core/text.h"
#include "core/threads/parallel.h"
#include "graph/autodiff.h"
#include "graph/pass.h"
#include "graph/program.h"
#include "layers/net/net.h"
#include "optim/checkpoint/net_weights.h"
#include "proto/nets/net_file.h"

namespace moka {
namespace {

struct Size {
  int64_t steps = 20;
  int64_t rows = 64;
  int64_t units = 512;
};

std::string Net(const std::string& type, bool packed, const Size& size) {
  const std::string all = StrCat("dim: ", size.steps, " dim: ", size.rows);
  std::string text =
      StrCat("layer { name: \"in\" type: \"Input\" top: \"x0\" top: \"cont\" top: \"lengths\" input_param { shape { ",
             all, " dim: ", size.units, " } shape { ", all, " } shape { dim: ", size.rows, " } } }\n");
  for (int i = 0; i < 2; ++i) {
    text +=
        StrCat("layer { name: \"l", i, "\" type: \"", type, "\" bottom: \"x", i, "\" bottom: \"cont\" ",
               packed ? "bottom: \"lengths\" " : "", "top: \"x", i + 1, "\" recurrent_param { num_output: ", size.units,
               " weight_filler { type: \"uniform\" min: -0.05 max: 0.05 } } }\n");
  }
  return text;
}

class Bench {
 public:
  Bench(const std::string& type, bool backward, bool packed, const Size& size) {
    NetOptions options;
    options.state.set_phase(backward ? TRAIN : TEST);
    BuiltNet net = BuildNet(NetFromText(Net(type, packed, size), "net.prototxt"), options);
    AddBlobs(net.blobs, 1, store_);
    AddKept(net, "bench", store_);
    net.graph.AddOutput("y", net.tops.at("x2"));
    if (backward) AddGradients(net);
    CompileOptions compile;
    compile.inference = !backward;
    compile.releases_states = !backward;
    program_ = Compile(std::move(net.graph), store_, compile);
    RandomStream random(1, StableHash("x"));
    for (const char* name : {"x0", "dy"}) {
      if (!program_->HasInput(name)) continue;
      for (float& v : program_->input(name).as<float>()) v = static_cast<float>(random.Uniform(-1, 1));
    }
    // New sequences at the first step: every run is the same.
    const auto cont = program_->input("cont").as<float>();
    for (size_t i = 0; i < cont.size(); ++i) cont[i] = i < static_cast<size_t>(size.rows) ? 0.0F : 1.0F;
    if (program_->HasInput("lengths")) {
      const auto lengths = program_->input("lengths").as<float>();
      for (int64_t i = 0; i < size.rows; ++i) {
        lengths[static_cast<size_t>(i)] =
            static_cast<float>((size.steps * (size.rows - i) + size.rows - 1) / size.rows);
      }
    }
    Verify();
  }

  double MillisecondsOfStep(int steps) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < steps; ++i) program_->Run();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count() / steps;
  }

 private:
  static void AddGradients(BuiltNet& net) {
    const ValueId y = net.tops.at("x2");
    const ValueId dy = net.graph.AddInput("dy", net.graph.value(y).type);
    const GraphBuilder b(net.graph, {});
    const ValueId loss = b.SumAll(b.Pointwise("x0*x1", {y, dy}));
    std::vector<ValueId> wrt{net.tops.at("x0")};
    for (const NetBlob& blob : net.blobs) wrt.push_back(blob.state);
    const std::vector<ValueId> dx = Differentiate(net.graph, loss, wrt);
    for (size_t i = 0; i < dx.size(); ++i) net.graph.AddOutput(StrCat("d", i), dx[i]);
  }

  void Verify() {
    std::map<std::string, std::vector<float>> first;
    for (int run = 0; run < 2; ++run) {
      program_->Run();
      for (const std::string& name : program_->OutputNames()) {
        const auto found = program_->output(name).as<float>();
        const std::vector<float> values(found.begin(), found.end());
        if (first.emplace(name, values).first->second != values) {
          throw Error(ErrorKind::kInternal, StrCat(name, ": the second run differs"));
        }
      }
    }
    for (const float v : first.at("y")) {
      if (!(std::abs(v) <= 1)) throw Error(ErrorKind::kInternal, StrCat("y holds ", v));
    }
  }

  ParameterStore store_;
  std::unique_ptr<Program> program_;
};

int Main(int count, char** arguments) {
  Size size;
  if (count > 3) size = {std::atoll(arguments[1]), std::atoll(arguments[2]), std::atoll(arguments[3])};
  std::map<std::string, std::unique_ptr<Bench>> benches;
  for (const char* type : {"LSTM", "GRU"}) {
    for (const bool backward : {false, true}) {
      for (const bool packed : {false, true}) {
        benches[StrCat(type, backward ? " backward" : " forward", packed ? " packed" : " whole")] =
            std::make_unique<Bench>(type, backward, packed, size);
      }
    }
  }
  std::printf("{\"steps\": %ld, \"rows\": %ld, \"units\": %ld, \"threads\": %d}\n", static_cast<long>(size.steps),
              static_cast<long>(size.rows), static_cast<long>(size.units), ThreadCount());
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string type;
    std::string pass;
    std::string rows;
    int steps = 0;
    words >> type >> pass >> rows >> steps;
    const auto it = benches.find(StrCat(type, " ", pass, " ", rows));
    if (it == benches.end() || steps < 1) throw Error(ErrorKind::kUsage, StrCat("not understood: ", line));
    std::printf("%.4f\n", it->second->MillisecondsOfStep(steps));
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace moka

int main(int count, char** arguments) {
  try {
    return moka::Main(count, arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
