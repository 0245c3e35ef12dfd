// Run by mpirun: all algorithms between processes, through shared memory ("memory") or MPI's messages ("messages"), and
// what ranks tell each other. Exits with 0 if all is right on this rank.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "comm/algorithms/algorithm.h"
#include "comm/schedule/runner.h"
#include "comm/transport/clocks.h"
#include "comm/transport/mpi_world.h"
#include "core/error.h"
#include "core/text.h"
#include "core/trace.h"

namespace moka {
namespace {

void Expect(bool is_right, const std::string& what) {
  if (!is_right) throw Error(ErrorKind::kVerification, what);
}

void Check(Communicator& world) {
  const int ranks = world.size();
  Expect(ranks > 1 && IsLaunched(), "started by mpirun -np N, N > 1");
  const std::string long_text(1'000'003, 'x');
  Expect(world.Broadcast(world.rank() == 1 ? long_text : "", 1) == long_text, "a long text is broadcast");
  const std::vector<std::string> all = world.AllGather(StrCat("rank ", world.rank()));
  for (int rank = 0; rank < ranks; ++rank) Expect(all[static_cast<size_t>(rank)] == StrCat("rank ", rank), "gathered");
  Expect(world.group() == ranks, "all ranks are on this host");
  // Taken for clocks of different machines, which they are not.
  const ClockOffset clock = MeasureClock(world, {.id = {}, .now = NowMicros});
  Expect(std::abs(clock.micros) <= clock.error_micros + 1,
         StrCat("a clock that is off by 0 us is found off by ", clock.micros, " +- ", clock.error_micros, " us"));

  for (const AllReduceAlgorithm& algorithm : AllReduceAlgorithms()) {
    const Arrangement arrangement{.ranks = ranks, .group = ranks / 2, .dimensions = {ranks / 2, 2}};
    if (!algorithm.refuse(arrangement).empty()) continue;
    for (const Wire wire : {Wire::kFloat32, Wire::kFloat16, Wire::kBFloat16}) {
      Runner runner(world.transport(), algorithm.make(arrangement, world.rank()), wire);
      for (const int64_t count : {0, 1, 31, 1000, 300'007}) {
        std::vector<float> values(static_cast<size_t>(count));
        for (size_t i = 0; i < values.size(); ++i)
          values[i] = static_cast<float>(i % 8 + static_cast<size_t>(world.rank()));
        runner.Run(Message(std::span<float>(values)), std::chrono::seconds(30));
        for (size_t i = 0; i < values.size(); ++i) {
          const auto sum = static_cast<float>(static_cast<int>(i % 8) * ranks + ranks * (ranks - 1) / 2);
          Expect(values[i] == sum, StrCat(algorithm.name, " on ", NameOf(wire), " of ", count, " values"));
        }
      }
    }
  }
}

int Main(const std::string& way) {
  const std::unique_ptr<Communicator> world = OpenWorld({.shares_memory = way == "memory"});
  try {
    Check(*world);
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "rank %d: %s\n", world->rank(), error.what());
    world->Fail(error.what());
    return 1;
  }
}

}  // namespace
}  // namespace moka

int main(int argc, char** argv) {
  try {
    return moka::Main(argc > 1 ? argv[1] : "memory");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
