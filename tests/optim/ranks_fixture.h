// Trainings by several ranks, as threads of a test.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/transport/region_transport.h"
#include "optim/run/trainer.h"
#include "tests/comm/world.h"
#include "trainer_fixture.h"

namespace moka {

class RanksTest : public TrainerTest {
 protected:
  struct Result {
    std::map<std::string, std::vector<float>> values;
    TrainResult end;
    TrainerState state;
    std::string plan;
  };
  static inline int samples = kSamples;  // of the task
  // Every rank trains on its part of each batch of 16, in a pipeline on all of it.
  static std::vector<Result> Train(int ranks, const std::string& solver, const SolverNets& nets,
                                   const std::function<void(int, TrainerOptions&)>& prepare = {},
                                   const std::function<void(int, Trainer&)>& before = {}) {
    std::vector<std::unique_ptr<Transport>> transports = MakeThreadWorld(ranks);
    std::vector<Result> results(static_cast<size_t>(ranks));
    RunRanks(transports, [&](Transport& transport) {
      const int rank = transport.rank();
      Communicator world(std::move(transports[static_cast<size_t>(rank)]), {}, std::chrono::seconds(30));
      try {
        TrainerOptions options;
        options.take_signals = false;
        options.world = &world;
        if (prepare) prepare(rank, options);
        Trainer trainer(Merged(solver), nets, std::move(options));
        const auto fill = [rank](Feed& feed) {
          const auto shares = static_cast<int>(feed.ranks());
          FillTask(feed, -1, shares > 1 ? rank : 0, shares, samples);
        };
        fill(trainer.train_net().feed());
        for (size_t i = 0; i < nets.tests.size(); ++i) fill(trainer.test_net(i).feed());
        if (before) before(rank, trainer);
        Result& result = results[static_cast<size_t>(rank)];
        result.end = trainer.Run();
        result.values = Everything(trainer);
        result.state = trainer.state();
        if (trainer.planner() != nullptr) result.plan = trainer.planner()->Describe();
      } catch (const Error& error) {
        world.Fail(error.what());
        throw;
      }
    });
    return results;
  }
  static SolverNets Plain(int batch = 16) { return Nets(1, Without(TaskNet(batch, false), "bn", "relu")); }
  static void ExpectNear(const std::map<std::string, std::vector<float>>& a,
                         const std::map<std::string, std::vector<float>>& b, float tolerance) {
    ASSERT_EQ(a.size(), b.size());
    for (const auto& [name, values] : a) {
      ASSERT_TRUE(b.contains(name)) << name;
      for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], b.at(name)[i], tolerance) << name << " " << i;
    }
  }
};

}  // namespace moka
