// CPU seconds to build and compile a training step of long nets, against their length: an LSTM, which is unrolled, and
// a ResNet of basic blocks as for CIFAR-10.
// Run: compile_bench [lstm|resnet SIZE ...]; without words 250 to 4000 steps and 110 to 1001 layers. Prints one JSON
// object. CPU time, not wall time, so that other work on the machine does not count. Each plan is checked: no less
// memory than its lower bound, and as many steps for each unit of length at every size.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "proto/nets/net_file.h"
#include "tools/measure/timed_net.h"

namespace moka {
namespace {

std::string Input(const std::string& name, const std::vector<int64_t>& dims) {
  std::string shape;
  for (const int64_t dim : dims) shape += StrCat(" dim: ", dim);
  return StrCat("layer { name: \"", name, "\" type: \"Input\" top: \"", name, "\" input_param { shape {", shape,
                " } } }\n");
}

std::string Layer(const std::string& type, const std::string& name, const std::vector<std::string>& bottoms,
                  const std::string& top, const std::string& fields = {}) {
  std::string text = StrCat("layer { name: \"", name, "\" type: \"", type, "\"");
  for (const std::string& bottom : bottoms) text += StrCat(" bottom: \"", bottom, "\"");
  return text + StrCat(" top: \"", top, "\" ", fields, " }\n");
}

std::string Lstm(int64_t steps) {
  return Input("x", {steps, 4, 16}) + Input("cont", {steps, 4}) + Input("label", {steps, 4}) +
         Layer("LSTM", "lstm", {"x", "cont"}, "h",
               "recurrent_param { num_output: 16 weight_filler { type: \"uniform\" min: -0.1 max: 0.1 } }") +
         Layer("InnerProduct", "fc", {"h"}, "fc", "inner_product_param { num_output: 10 axis: 2 }") +
         Layer("SoftmaxWithLoss", "loss", {"fc", "label"}, "loss", "softmax_param { axis: 2 }");
}

std::string Convolution(const std::string& name, const std::string& bottom, int64_t outputs, int64_t kernel,
                        int64_t stride) {
  return Layer("Convolution", name, {bottom}, name,
               StrCat("convolution_param { num_output: ", outputs, " kernel_size: ", kernel, " pad: ", kernel / 2,
                      " stride: ", stride, " bias_term: false }"));
}

std::string Normalized(const std::string& name) {
  return Layer("BatchNorm", name + "_bn", {name}, name) +
         Layer("Scale", name + "_scale", {name}, name, "scale_param { bias_term: true }");
}

// 6 n + 2 layers: three stages of n blocks.
std::string ResNet(int64_t layers) {
  std::string text = Input("x", {2, 3, 16, 16}) + Input("label", {2}) + Convolution("conv1", "x", 16, 3, 1) +
                     Normalized("conv1") + Layer("ReLU", "conv1_relu", {"conv1"}, "conv1");
  std::string x = "conv1";
  for (int stage = 0; stage < 3; ++stage) {
    const int64_t outputs = 16 << stage;
    for (int64_t block = 0; block < (layers - 2) / 6; ++block) {
      const std::string name = StrCat("stage", stage, "_", block);
      const bool halves = stage > 0 && block == 0;
      text += Convolution(name + "_a", x, outputs, 3, halves ? 2 : 1) + Normalized(name + "_a") +
              Layer("ReLU", name + "_a_relu", {name + "_a"}, name + "_a") +
              Convolution(name + "_b", name + "_a", outputs, 3, 1) + Normalized(name + "_b");
      if (halves) {
        text += Convolution(name + "_short", x, outputs, 1, 2);
        x = name + "_short";
      }
      text += Layer("Eltwise", name, {x, name + "_b"}, name) + Layer("ReLU", name + "_relu", {name}, name);
      x = name;
    }
  }
  return text + Layer("Pooling", "pool", {x}, "pool", "pooling_param { pool: AVE global_pooling: true }") +
         Layer("InnerProduct", "fc", {"pool"}, "fc", "inner_product_param { num_output: 10 }") +
         Layer("SoftmaxWithLoss", "loss", {"fc", "label"}, "loss");
}

double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Returns whether the plan holds; steps_per_unit: of the size before, 0 at first.
bool Measure(const std::string& kind, int64_t size, bool is_first, double& steps_per_unit) {
  const double begin = CpuSeconds();
  const NetParameter param = NetFromText(kind == "lstm" ? Lstm(size) : ResNet(size), "net.prototxt");
  const double parsed = CpuSeconds();
  CompileOptions options;
  double built = 0;
  options.on_pulse = [&] {  // for the first time when the graph is made and its gradients are added
    if (built == 0) built = CpuSeconds();
  };
  const auto net = MakeTimedNet(param, TRAIN, options);
  const double compiled = CpuSeconds();
  const Program& program = *net->program;
  const MemoryReport& memory = program.report().memory;
  std::string visits;
  for (const PassReport& pass : program.report().passes) {
    visits += StrCat(visits.empty() ? "" : ", ", "\"", pass.name, "\": ", pass.visits);
  }
  const auto steps = static_cast<double>(program.steps().size());
  std::printf(
      "%s  {\"net\": \"%s\", \"size\": %lld, \"steps\": %.0f, \"parse_s\": %.2f, \"graph_s\": %.2f, \"compile_s\": "
      "%.2f, \"visits\": {%s}, \"arena_bytes\": %lld, \"bound_bytes\": %lld}",
      is_first ? "" : ",\n", kind.c_str(), static_cast<long long>(size), steps, parsed - begin, built - parsed,
      compiled - built, visits.c_str(), static_cast<long long>(memory.arena_bytes),
      static_cast<long long>(memory.bound_bytes));
  std::fflush(stdout);
  const double now = steps / static_cast<double>(size);
  const bool holds = memory.arena_bytes >= memory.bound_bytes &&
                     (steps_per_unit == 0 || (now < 1.1 * steps_per_unit && now > 0.9 * steps_per_unit));
  steps_per_unit = now;
  return holds;
}

int Main(const std::vector<std::string>& words) {
  std::string kind;
  double steps_per_unit = 0;
  bool is_first = true;
  bool holds = true;
  std::printf("{\"what\": \"CPU seconds to read, build and compile a training step\", \"nets\": [\n");
  for (const std::string& word : words) {
    if (word == "lstm" || word == "resnet") {
      kind = word;
      steps_per_unit = 0;
      continue;
    }
    const int64_t size = std::atoll(word.c_str());
    if (kind.empty() || size < 8) {
      std::fprintf(stderr, "compile_bench: found %s where lstm or resnet and sizes from 8 on are wanted\n",
                   word.c_str());
      return 64;
    }
    holds = Measure(kind, size, is_first, steps_per_unit) && holds;
    is_first = false;
  }
  std::printf("\n]}\n");
  if (!holds) std::fprintf(stderr, "compile_bench: a plan is not what its length asks for\n");
  return holds ? 0 : 1;
}

}  // namespace
}  // namespace moka

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty()) {
    words = {"lstm", "250", "500", "1000", "2000", "4000", "resnet", "110", "254", "506", "1001"};
  }
  try {
    return moka::Main(words);
  } catch (const moka::Error& error) {
    std::fprintf(stderr, "compile_bench: %s\n", error.text().c_str());
    return 1;
  }
}
