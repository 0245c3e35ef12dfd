// The scaling simulator against real steps: ranks that are threads exchange a net's gradients through the production
// exchange over links made slow on purpose, while sleeping the layers' times in place of computing; every planner,
// predicted beside measured.
//
//   step_bench PROFILE.tsv [--ranks 4] [--mbit 1000] [--latency-us 100] [--algorithm ring] [--steps 5] [--step-ms X]
//
// Predictions know the links' shape and nothing that was measured here. A rank's card is its own. A step is a median,
// the slowest rank's; sums are checked.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/all_reduce_choice.h"
#include "comm/gradient_exchange.h"
#include "comm/region_transport.h"
#include "comm/shaped_transport.h"
#include "comm/simulate/model_profile.h"
#include "comm/simulate/virtual_costs.h"
#include "core/error.h"
#include "core/file.h"

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
};

// One rank's gradients in the order in which they end.
class Rank {
 public:
  Rank(std::unique_ptr<Transport> transport, const FusionInput& input)
      : input_(input), communicator_(std::move(transport)), exchange_(communicator_) {
    for (const ReadyGradient& gradient : input.gradients) {
      const int64_t count = gradient.bytes / 4;
      values_.emplace_back(static_cast<size_t>(count));
      exchange_.Announce(static_cast<int64_t>(values_.size()), gradient.name,
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
      exchange_.Begin(static_cast<int64_t>(i) + 1);
    }
    std::this_thread::sleep_until(at(input_.backward_s));
    for (size_t i = 0; i < values_.size(); ++i) exchange_.End(static_cast<int64_t>(i) + 1);
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
  Communicator communicator_;
  std::vector<std::vector<float>> values_;
  GradientExchange exchange_;
};

double MeasuredStep(const Options& options, const FusionInput& input, const FusionPlan& plan,
                    const AllReduceChoice& choice) {
  std::vector<std::unique_ptr<Transport>> world = MakeThreadWorld(options.ranks);
  std::vector<double> slowest(static_cast<size_t>(options.steps), 0);
  std::mutex mutex;
  {
    std::vector<std::jthread> threads;
    for (std::unique_ptr<Transport>& plain : world) {
      auto shaped = std::make_unique<ShapedTransport>(
          std::move(plain),
          LinkShape{.latency = std::chrono::nanoseconds(static_cast<int64_t>(options.latency_us * 1e3)),
                    .bytes_per_s = options.mbit * 1e6 / 8,
                    .host_of = {}});
      threads.emplace_back([&, transport = std::move(shaped)]() mutable {
        Rank rank(std::move(transport), input);
        const std::vector<double> seconds = rank.Run(plan, choice, options.steps);
        const std::scoped_lock lock(mutex);
        for (size_t i = 0; i < seconds.size(); ++i) slowest[i] = std::max(slowest[i], seconds[i]);
      });
    }
  }
  std::ranges::nth_element(slowest, slowest.begin() + options.steps / 2);
  return slowest[static_cast<size_t>(options.steps / 2)] + input.other_s;
}

void Run(const Options& options) {
  ModelProfile profile = ProfileOfText(ReadFile(options.profile), options.profile);
  if (options.step_ms > 0) ScaleTo(profile, options.step_ms * 1e-3);
  const FusionInput input = FusionInputOf(profile, 4);
  Topology topology;
  topology.network = {options.latency_us * 1e-6, options.mbit * 1e6 / 8};
  topology.inside = {0, 1e12};
  const CostTable costs = VirtualCosts(topology, options.ranks, options.algorithm, 4);
  const AllReduceChoice choice = ChoiceOfAllReduce(options.algorithm, options.ranks, 1);
  std::printf("%d ranks, %s, %g Mb/s, %g us, a step of %.1f ms\n", options.ranks, choice.name.c_str(), options.mbit,
              options.latency_us, (input.other_s + input.backward_s) * 1e3);
  std::printf("%-8s %8s %13s %12s %8s %18s\n", "planner", "buckets", "predicted ms", "measured ms", "ratio",
              "exposed, measured");
  for (const FusionPlanner& planner : FusionPlanners()) {
    const FusionPlan plan = PlanFusion(planner.name, input, costs, int64_t{25} << 20U);
    const double measured = MeasuredStep(options, input, plan, choice);
    std::printf("%-8s %8zu %13.1f %12.1f %8.3f %15.1f ms\n", plan.planner.c_str(), plan.buckets.size(),
                plan.iteration_s * 1e3, measured * 1e3, measured / plan.iteration_s,
                (measured - input.other_s - input.backward_s) * 1e3);
  }
}

}  // namespace
}  // namespace moka

int main(int argc, char** argv) {
  moka::Options options;
  CLI::App app("steps over links made slow, predicted and measured");
  app.add_option("profile", options.profile)->required();
  app.add_option("--ranks", options.ranks)->check(CLI::Range(2, 64));
  app.add_option("--mbit", options.mbit)->check(CLI::Range(0.1, 1e6));
  app.add_option("--latency-us", options.latency_us)->check(CLI::Range(0.0, 1e6));
  app.add_option("--algorithm", options.algorithm);
  app.add_option("--steps", options.steps)->check(CLI::Range(1, 1000));
  app.add_option("--step-ms", options.step_ms)->check(CLI::Range(0.0, 1e6));
  CLI11_PARSE(app, argc, argv);
  try {
    moka::Run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
