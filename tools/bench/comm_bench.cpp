// All-reduce of Moka beside Open MPI's and Gloo's: the same ranks, sizes and values by turns in one run, results
// compared with the sums they must be. Started as
//
//   mpirun -np 4 comm_bench [--from 4096] [--to 268435456] [--factor 4] [--rounds 7] [--algorithm direct] [--json FILE]
//
// A time is the largest over ranks of one call; what is printed is the median over rounds.
#include <gloo/algorithm.h>
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <mpi.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "comm/algorithms/all_reduce_choice.h"
#include "comm/schedule/runner.h"
#include "comm/transport/communicator.h"
#include "comm/transport/mpi_world.h"
#include "core/error.h"
#include "core/median.h"

namespace moka {
namespace {

constexpr int64_t kMostRounds = 301;

struct Options {
  int64_t from = 4096;
  int64_t to = int64_t{256} << 20U;
  int64_t factor = 4;
  int rounds = 7;
  std::string algorithm = "direct";
  std::string json;
};

struct Contestant {
  std::string name;
  std::function<void(std::vector<float>&)> run;
};

std::shared_ptr<gloo::rendezvous::Context> OpenGloo(Communicator& world) {
  const std::string folder =
      world.Broadcast((std::filesystem::temp_directory_path() / ("comm_bench." + std::to_string(::getpid()))).string());
  std::filesystem::create_directories(folder);
  gloo::rendezvous::FileStore store(folder);
  auto context = std::make_shared<gloo::rendezvous::Context>(world.rank(), world.size());
  std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice("localhost");
  context->connectFullMesh(store, device);
  world.Barrier();
  if (world.is_first()) std::filesystem::remove_all(folder);
  return context;
}

// Microseconds of one call, the slowest rank's. Fills the values before and checks them after it.
double Time(Communicator& world, const Contestant& contestant, std::vector<float>& values) {
  const auto first = static_cast<float>(world.rank() + 1);
  for (size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<float>(i % 7);
  MPI_Barrier(MPI_COMM_WORLD);
  const auto begin = std::chrono::steady_clock::now();
  contestant.run(values);
  double us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
  MPI_Allreduce(MPI_IN_PLACE, &us, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  const int ranks = world.size();
  const float sum = static_cast<float>(ranks * (ranks + 1) / 2);
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] != sum + static_cast<float>(ranks) * static_cast<float>(i % 7)) {
      throw Error(ErrorKind::kVerification, contestant.name + " summed wrongly");
    }
  }
  return us;
}

int Bench(const Options& options) {
  const std::unique_ptr<Communicator> world = OpenWorld();
  const std::shared_ptr<gloo::rendezvous::Context> gloo_context = OpenGloo(*world);
  const AllReduceChoice choice = ChoiceOfAllReduce(options.algorithm, world->size(), world->group());
  Runner runner(world->transport(), choice.algorithm->make(choice.arrangement, world->rank()), Wire::kFloat32);
  uint32_t tag = 0;
  const std::vector<Contestant> contestants = {
      {"moka", [&](std::vector<float>& v) { runner.Run(Message(v), std::chrono::seconds(60)); }},
      {"openmpi",
       [](std::vector<float>& v) {
         MPI_Allreduce(MPI_IN_PLACE, v.data(), static_cast<int>(v.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
       }},
      {"gloo",
       [&](std::vector<float>& v) {
         gloo::AllreduceOptions allreduce(gloo_context);
         allreduce.setOutput(v.data(), v.size());
         allreduce.setReduceFunction(static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
         allreduce.setTag(++tag);
         gloo::allreduce(allreduce);
       }},
  };
  nlohmann::json report{{"ranks", world->size()}, {"algorithm", options.algorithm}};
  if (world->is_first())
    std::printf("%12s %12s %12s %12s %8s %8s\n", "bytes", "moka us", "openmpi us", "gloo us", "/openmpi", "/gloo");
  for (int64_t bytes = options.from; bytes <= options.to; bytes *= options.factor) {
    std::vector<float> values(static_cast<size_t>(bytes / 4));
    std::vector<std::vector<double>> times(contestants.size());
    // Small messages are over sooner than the machine is quiet, so they have more rounds.
    const int rounds =
        std::max<int>(options.rounds, static_cast<int>(std::min<int64_t>(kMostRounds, (int64_t{16} << 20U) / bytes)));
    for (int round = -1; round < rounds; ++round) {
      for (size_t c = 0; c < contestants.size(); ++c) {
        const double us = Time(*world, contestants[c], values);
        if (round >= 0) times[c].push_back(us);  // the first is to warm up
      }
    }
    if (!world->is_first()) continue;
    const double moka = Median(times[0]);
    const double mpi = Median(times[1]);
    const double gloo = Median(times[2]);
    std::printf("%12lld %12.1f %12.1f %12.1f %8.2f %8.2f\n", static_cast<long long>(bytes), moka, mpi, gloo, moka / mpi,
                moka / gloo);
    report["sizes"].push_back(
        {{"bytes", bytes}, {"moka_us", moka}, {"openmpi_us", mpi}, {"gloo_us", gloo}, {"rounds", rounds}});
  }
  if (world->is_first() && !options.json.empty()) std::ofstream(options.json) << report.dump(1) << "\n";
  return 0;
}

}  // namespace
}  // namespace moka

int main(int argc, char** argv) {
  moka::Options options;
  CLI::App app("All-reduce beside Open MPI's and Gloo's");
  app.add_option("--from", options.from, "bytes");
  app.add_option("--to", options.to, "bytes");
  app.add_option("--factor", options.factor, "between sizes");
  app.add_option("--rounds", options.rounds, "calls of each a size");
  app.add_option("--algorithm", options.algorithm, "of Moka");
  app.add_option("--json", options.json, "write the result there");
  CLI11_PARSE(app, argc, argv);
  try {
    return moka::Bench(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "comm_bench: %s\n", error.what());
    return 1;
  }
}
