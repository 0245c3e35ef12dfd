// Target tokens a second of tools/bench/nets/seq2seq: forward, backward and plain SGD, or the teacher-forced forward
// pass; random tokens, the same in every run. Verifies that the loss falls while the same batch is learned.
// Usage: seq2seq_bench train|infer FOLDER [STEPS [ROUNDS [profile]]]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "core/error.h"
#include "core/rng.h"
#include "core/text.h"
#include "graph/program.h"
#include "layers/net/net.h"
#include "optim/checkpoint/net_weights.h"
#include "optim/step/training_graph.h"
#include "proto/nets/net_file.h"

namespace moka {
namespace {

constexpr uint64_t kSeed = 1;
constexpr int64_t kVocabulary = 8000;

struct Bench {
  ParameterStore store;
  std::unique_ptr<Program> program;
};

void AddTraining(BuiltNet& net, ParameterStore& store) {
  SolverParameter solver;
  solver.set_base_lr(0.1F);
  solver.set_lr_policy("fixed");
  BuildTrainingGraph(net, {.solver = solver, .param = net.param}, store);
}

void MakeBench(Bench& bench, const std::string& folder, bool train) {
  NetOptions options;
  options.state.set_phase(train ? TRAIN : TEST);
  BuiltNet net = BuildNet(ReadNet(folder + (train ? "/train_val.prototxt" : "/deploy.prototxt")), options);
  AddBlobs(net.blobs, kSeed, bench.store);
  AddKept(net, "bench", bench.store);
  if (train) {
    AddTraining(net, bench.store);
  } else {
    for (const BuiltNet::Output& output : net.outputs) net.graph.AddOutput(output.name, output.value);
  }
  CompileOptions compile;
  compile.inference = !train;
  compile.releases_states = !train;
  bench.program = Compile(std::move(net.graph), bench.store, compile);
  RandomStream random(kSeed, StableHash("tokens"));
  for (const char* name : {"source", "target", "next", "cont", "zero", "lr"}) {
    if (!bench.program->HasInput(name)) continue;
    const std::string_view input = name;
    const bool is_token = input == "source" || input == "target" || input == "next";
    const float value = input == "cont" ? 1.0F : input == "lr" ? 0.1F : 0.0F;
    for (float& v : bench.program->input(name).as<float>()) {
      v = is_token ? static_cast<float>(std::floor(random.Uniform(0, kVocabulary))) : value;
    }
  }
}

double Seconds(Program& program, int steps) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < steps; ++i) program.Run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Milliseconds a kernel row of each op, most first.
void PrintProfile(Program& program, int steps) {
  std::vector<double> ms(program.steps().size(), 0);
  std::map<std::string, double> sums;
  for (int i = 0; i < steps; ++i) {
    program.RunTimed(ms);
    for (size_t k = 0; k < ms.size(); ++k) {
      const StepReport& step = program.steps()[k];
      if (step.kernel != "alias") sums[StrCat(step.op, " ", step.kernel, " ", step.pass, " ", step.types)] += ms[k];
    }
  }
  std::vector<std::pair<double, std::string>> lines;
  for (const auto& [text, sum] : sums) lines.emplace_back(sum / steps, text);
  std::ranges::sort(lines, std::greater<>());
  for (const auto& [sum, text] : lines) std::printf("%9.3f ms  %.150s\n", sum, text.c_str());
}

int Main(int count, char** arguments) {
  if (count < 3) throw Error(ErrorKind::kUsage, "usage: seq2seq_bench train|infer FOLDER [STEPS [ROUNDS [profile]]]");
  const bool train = std::string_view(arguments[1]) == "train";
  const int steps = count > 3 ? std::atoi(arguments[3]) : 8;
  const int rounds = count > 4 ? std::atoi(arguments[4]) : 5;
  Bench bench;
  MakeBench(bench, arguments[2], train);
  Program& program = *bench.program;
  program.Run();
  const double first_loss = train ? double{program.output("@loss").as<float>()[0]} : 0;
  Seconds(program, 2);
  std::vector<double> rates;
  for (int i = 0; i < rounds; ++i) rates.push_back(steps * 1280 / Seconds(program, steps));
  std::ranges::sort(rates);
  std::printf("moka %s: %.0f target tokens/s [%.0f..%.0f], arena %.0f MiB, %zu steps\n", arguments[1],
              rates[rates.size() / 2], rates.front(), rates.back(),
              static_cast<double>(program.report().memory.arena_bytes) / (1 << 20), program.steps().size());
  if (train) {
    const double loss = program.output("@loss").as<float>()[0];
    std::printf("loss %.5f -> %.5f\n", first_loss, loss);
    if (!(loss < first_loss)) throw Error(ErrorKind::kInternal, "the loss did not fall");
  }
  if (count > 5) PrintProfile(program, 3);
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
