// The scaling simulator and the planner against real steps: ranks exchange a net's gradients through the production
// exchange over slow links, while sleeping the layers' times in place of computing; every planner, predicted beside
// measured.
//
//   step_bench PROFILE.tsv [--ranks 4] [--mbit 1000] [--latency-us 100] [--algorithm ring] [--steps 5] [--step-ms X]
//   tools/bench/links/run --mbit 1000 -- step_bench PROFILE.tsv [--latency-us 0] [--algorithm ring] ... [--json
//   FILE]
//
// Alone, ranks are threads with a card each, and links are made slow in this process; predictions know the links' shape
// and nothing that was measured. Started by mpirun, ranks are processes and links those that there are, with a latency
// more between hosts if asked for; predictions know what all-reduces of several sizes took on them before the first
// step, as a training's do. A step is a median, the slowest rank's; sums are checked.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "comm/algorithms/all_reduce_choice.h"
#include "comm/exchange/gradient_exchange.h"
#include "comm/simulate/model_profile.h"
#include "comm/simulate/virtual_costs.h"
#include "comm/transport/mpi_world.h"
#include "comm/transport/region_transport.h"
#include "comm/transport/shaped_transport.h"
#include "core/error.h"
#include "core/file.h"
#include "core/median.h"
#include "core/text.h"
#include "tools/measure/comm_bench.h"

namespace moka {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string profile;
  int ranks = 4;
  double mbit = 1000;
  double latency_us = 100;
  std::string algorithm = "ring";
  int steps = 5;
  double step_ms = 0;
  std::vector<std::string> planners;  // none: all
  std::string json;
};

// One rank's gradients in the order in which they end.
class Rank {
 public:
  Rank(Communicator& communicator, const FusionInput& input)
      : input_(input), communicator_(communicator), exchange_(communicator) {
    for (const ReadyGradient& gradient : input.gradients) {
      const int64_t count = gradient.bytes / 4;
      values_.emplace_back(static_cast<size_t>(count));
      ProgramSide(exchange_).Announce(static_cast<int64_t>(values_.size()), gradient.name,
                                      Tensor(TensorType{DType::kFloat32, Shape{count}, {}}, values_.back().data()));
    }
  }

  // Seconds from the start of the backward pass to the last sum, by step.
  std::vector<double> Run(const FusionPlan& plan, const AllReduceChoice& choice, int steps) {
    std::vector<int> ends;
    std::vector<Schedule> schedules;
    for (const Bucket& bucket : plan.buckets) {
      ends.push_back(static_cast<int>(bucket.first + bucket.count));
      schedules.push_back(choice.algorithm->make(choice.arrangement, communicator_.rank()));
    }
    exchange_.CheckAnnounced();
    exchange_.SetPlan(ends, schedules, Wire::kFloat32);
    std::vector<double> seconds;
    for (int step = 0; step <= steps; ++step) {  // the first warms up
      for (std::vector<float>& values : values_)
        std::ranges::fill(values, static_cast<float>(communicator_.rank() + 1));
      communicator_.Barrier();
      const double taken = Step();
      if (step > 0) seconds.push_back(taken);
    }
    return seconds;
  }

 private:
  double Step() {
    const Clock::time_point begin = Clock::now();
    const auto at = [&](double s) {
      return begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s));
    };
    for (size_t i = 0; i < values_.size(); ++i) {
      std::this_thread::sleep_until(at(input_.gradients[i].ready_s));
      ProgramSide(exchange_).Begin(static_cast<int64_t>(i) + 1);
    }
    std::this_thread::sleep_until(at(input_.backward_s));
    for (size_t i = 0; i < values_.size(); ++i) ProgramSide(exchange_).End(static_cast<int64_t>(i) + 1);
    const double taken = std::chrono::duration<double>(Clock::now() - begin).count();
    exchange_.Check();
    const int ranks = communicator_.size();
    const auto sum = static_cast<float>(ranks * (ranks + 1) / 2);
    for (const std::vector<float>& values : values_) {
      if (std::ranges::count(values, sum) != static_cast<std::ptrdiff_t>(values.size())) {
        throw Error(ErrorKind::kVerification, "a gradient is not the sum over the ranks");
      }
    }
    return taken;
  }

  const FusionInput& input_;
  Communicator& communicator_;
  std::vector<std::vector<float>> values_;
  GradientExchange exchange_;
};

LinkShape LatencyOf(const Options& options) {
  LinkShape shape;
  shape.latency = std::chrono::nanoseconds(static_cast<int64_t>(options.latency_us * 1e3));
  return shape;
}

// A step of ranks that are threads.
double StepOfThreads(const Options& options, const FusionInput& input, const FusionPlan& plan,
                     const AllReduceChoice& choice) {
  std::vector<std::unique_ptr<Transport>> world = MakeThreadWorld(options.ranks);
  std::vector<double> slowest(static_cast<size_t>(options.steps), 0);
  std::mutex mutex;
  {
    std::vector<std::jthread> threads;
    for (std::unique_ptr<Transport>& plain : world) {
      LinkShape shape = LatencyOf(options);
      shape.bytes_per_s = options.mbit * 1e6 / 8;
      threads.emplace_back([&, transport = std::make_unique<ShapedTransport>(std::move(plain), shape)]() mutable {
        Communicator communicator(std::move(transport));
        const std::vector<double> seconds = Rank(communicator, input).Run(plan, choice, options.steps);
        const std::scoped_lock lock(mutex);
        for (size_t i = 0; i < seconds.size(); ++i) slowest[i] = std::max(slowest[i], seconds[i]);
      });
    }
  }
  return Median(slowest) + input.other_s;
}

// The same of ranks that are processes; all get it.
double StepOfProcesses(const Options& options, Communicator& world, const FusionInput& input, const FusionPlan& plan,
                       const AllReduceChoice& choice) {
  std::vector<double> slowest = Rank(world, input).Run(plan, choice, options.steps);
  world.Max(slowest);
  return Median(slowest) + input.other_s;
}

// The world that mpirun has started, with a latency more between hosts if there is to be one.
std::unique_ptr<Communicator> OpenLaunched(const Options& options) {
  std::unique_ptr<Communicator> world = OpenWorld();
  if (options.latency_us == 0) return world;
  const std::vector<std::string> hosts = world->hosts();
  LinkShape shape = LatencyOf(options);
  for (const std::string& host : hosts) {
    shape.host_of.push_back(static_cast<int>(std::ranges::find(hosts, host) - hosts.begin()));
  }
  return std::make_unique<Communicator>(std::make_unique<ShapedTransport>(world->TakeTransport(), shape), hosts);
}

// Measures all-reduces between these ranks: sizes from 1 KiB on by fours, and all gradients together.
std::vector<CostPoint> Sweep(Communicator& world, const AllReduceChoice& choice, const FusionInput& input) {
  int64_t whole = 0;
  for (const ReadyGradient& gradient : input.gradients) whole += gradient.bytes;
  std::vector<CostPoint> points;
  const auto measure = [&](int64_t bytes, int iterations) {
    const CommBenchOptions options{
        .from_bytes = bytes, .to_bytes = bytes, .iterations = iterations, .warmup = 1, .checks = false};
    points.push_back({bytes, BenchAllReduce(world, choice, options).rows.front().us * 1e-6});
  };
  for (int64_t bytes = 1 << 10; bytes < whole; bytes *= 4) measure(bytes, bytes > 8 << 20 ? 3 : 15);
  measure(whole, 3);
  return points;
}

void PrintHead(int ranks, const std::string& links, const AllReduceChoice& choice, const FusionInput& input) {
  std::printf("%d ranks, %s, %s, a step of %.1f ms\n", ranks, choice.name.c_str(), links.c_str(),
              (input.other_s + input.backward_s) * 1e3);
  std::printf("%-8s %8s %13s %12s %8s %18s\n", "planner", "buckets", "predicted ms", "measured ms", "ratio",
              "exposed, measured");
}

nlohmann::ordered_json Print(const FusionInput& input, const FusionPlan& plan, double measured_s) {
  const double exposed_s = measured_s - input.other_s - input.backward_s;
  std::printf("%-8s %8zu %13.1f %12.1f %8.3f %15.1f ms\n", plan.planner.c_str(), plan.buckets.size(),
              plan.iteration_s * 1e3, measured_s * 1e3, measured_s / plan.iteration_s, exposed_s * 1e3);
  std::fflush(stdout);
  return {{"planner", plan.planner},
          {"buckets", plan.buckets.size()},
          {"predicted_ms", plan.iteration_s * 1e3},
          {"measured_ms", measured_s * 1e3},
          {"exposed_ms", exposed_s * 1e3}};
}

void Run(Options options) {
  ModelProfile profile = ProfileOfText(ReadFile(options.profile), options.profile);
  if (options.step_ms > 0) ScaleTo(profile, options.step_ms * 1e-3);
  const FusionInput input = FusionInputOf(profile, 4);
  constexpr int64_t kBucketBytes = int64_t{25} << 20U;
  if (options.planners.empty()) {
    for (const FusionPlanner& planner : FusionPlanners()) options.planners.emplace_back(planner.name);
  }
  nlohmann::ordered_json json{
      {"profile", options.profile}, {"steps", options.steps}, {"latency_us", options.latency_us}};
  if (!IsLaunched()) {
    Topology topology;
    topology.network = {options.latency_us * 1e-6, options.mbit * 1e6 / 8};
    topology.inside = {0, 1e12};
    const CostTable costs = VirtualCosts(topology, options.ranks, options.algorithm, 4);
    const AllReduceChoice choice = ChoiceOfAllReduce(options.algorithm, options.ranks, 1);
    json.update({{"algorithm", choice.name}, {"ranks", options.ranks}, {"mbit", options.mbit}});
    PrintHead(options.ranks, StrCat(options.mbit, " Mb/s, ", options.latency_us, " us"), choice, input);
    for (const std::string& planner : options.planners) {
      const FusionPlan plan = PlanFusion(planner, input, costs, kBucketBytes);
      json["planners"].push_back(Print(input, plan, StepOfThreads(options, input, plan, choice)));
    }
  } else {
    const std::unique_ptr<Communicator> world = OpenLaunched(options);
    const AllReduceChoice choice = ChoiceOfAllReduce(options.algorithm, world->size(), world->group());
    const std::vector<CostPoint> sweep = Sweep(*world, choice, input);
    CostTable costs;
    costs.Add(choice.name, CostCurve(sweep));
    const size_t hosts = std::set<std::string>(world->hosts().begin(), world->hosts().end()).size();
    json.update({{"algorithm", choice.name}, {"ranks", world->size()}, {"hosts", hosts}});
    for (const CostPoint& point : sweep) json["sweep"].push_back({{"bytes", point.bytes}, {"us", point.seconds * 1e6}});
    if (world->is_first()) {
      PrintHead(world->size(), StrCat(hosts, " hosts, ", options.latency_us, " us more"), choice, input);
    }
    for (const std::string& planner : options.planners) {
      const FusionPlan plan = PlanFusion(planner, input, costs, kBucketBytes);
      const double measured_s = StepOfProcesses(options, *world, input, plan, choice);
      if (world->is_first()) json["planners"].push_back(Print(input, plan, measured_s));
    }
    if (!world->is_first()) return;
  }
  if (!options.json.empty()) std::ofstream(options.json) << json.dump(1) << "\n";
}

}  // namespace
}  // namespace moka

int main(int argc, char** argv) {
  moka::Options options;
  CLI::App app("steps over links made slow, predicted and measured");
  app.add_option("profile", options.profile)->required();
  app.add_option("--ranks", options.ranks)->check(CLI::Range(2, 64));
  app.add_option("--mbit", options.mbit)->check(CLI::Range(0.1, 1e6));
  if (moka::IsLaunched()) options.latency_us = 0;
  app.add_option("--latency-us", options.latency_us)->check(CLI::Range(0.0, 1e6));
  app.add_option("--algorithm", options.algorithm);
  app.add_option("--steps", options.steps)->check(CLI::Range(1, 1000));
  app.add_option("--step-ms", options.step_ms)->check(CLI::Range(0.0, 1e6));
  app.add_option("--planners", options.planners)->delimiter(',');
  app.add_option("--json", options.json, "write the result there");
  CLI11_PARSE(app, argc, argv);
  try {
    moka::Run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
