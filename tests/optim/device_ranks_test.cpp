// Training by several ranks on rehearsed GPUs: sums of gradients are work of streams there, recorded with the rest of a
// step, and what the ranks compute is what one rank does on the CPU or alone on such a GPU.
#include <gmock/gmock.h>

#include <cstdlib>

#include "comm/device/nccl_all_reduce.h"
#include "data/pipeline/memory_pipeline.h"
#include "ranks_fixture.h"

namespace moka {
namespace {

constexpr Device kRehearsed{DeviceKind::kCuda, Device::kRehearsed};

class DeviceRanksTest : public RanksTest {
 protected:
  void SetUp() override {
    RanksTest::SetUp();
    if (CudaRuntime().empty()) GTEST_SKIP() << "this moka was built without CUDA";
  }
  static std::vector<Result> TrainOnDevices(int ranks, const std::string& solver, const SolverNets& nets,
                                            const std::function<void(int, TrainerOptions&)>& prepare = {},
                                            const std::function<void(int, Trainer&)>& before = {}) {
    const auto on_device = [&](int rank, TrainerOptions& options) {
      options.compile.device = kRehearsed;
      if (prepare) prepare(rank, options);
    };
    return Train(ranks, solver, nets, on_device, before);
  }
};

TEST_F(DeviceRanksTest, TrainAsOneRankDoesOnTheWholeBatch) {
  for (const char* more : {"", "type: \"Adam\" base_lr: 0.01 ema_decay: 0.9"}) {
    const std::string solver = BaseSolver() + more;
    TrainerOptions options;
    options.compile.device = kRehearsed;
    const auto alone = Make(solver, std::move(options), Plain());
    const TrainResult expected = alone->Run();
    for (const int ranks : {2, 4}) {
      const std::vector<Result> results = TrainOnDevices(ranks, solver, Plain());
      for (const Result& result : results) EXPECT_EQ(result.values, results[0].values);
      ExpectNear(results[0].values, Everything(*alone), 5e-5F);
      EXPECT_NEAR(results[0].state.smoothed_loss, alone->state().smoothed_loss, 1e-5);
      EXPECT_EQ(results[0].end.best, expected.best);
    }
  }
}

TEST_F(DeviceRanksTest, TrainAsRanksOnCpusDo) {
  const std::vector<Result> on_cpus = Train(2, BaseSolver(), Nets(1, TaskNet(16, false)));
  const std::vector<Result> results = TrainOnDevices(2, BaseSolver(), Nets(1, TaskNet(16, false)));
  ExpectNear(results[0].values, on_cpus[0].values, 1e-4F);
}

TEST_F(DeviceRanksTest, SeveralBatchesAnIterationAreExchangedOnce) {
  const std::string solver = BaseSolver() + "max_iter: 12";
  const auto alone = Make(solver, {}, Plain());
  alone->Run();
  const std::vector<Result> results = TrainOnDevices(2, solver + " iter_size: 2", Plain(8));
  EXPECT_EQ(results[0].values, results[1].values);
  const auto& weights = results[0].values.at("ip1/0");
  for (size_t i = 0; i < weights.size(); ++i) EXPECT_NEAR(weights[i], alone->store().Values("ip1/0")[i], 5e-5) << i;
}

TEST_F(DeviceRanksTest, NormsOfGradientsAreThoseOnCpusAndChangeNoWeight) {
  for (const char* more : {"", "iter_size: 2 loss_scale: 8 "}) {
    const std::string solver = BaseSolver() + "max_iter: 7 " + more;
    const std::string measuring = solver + "noise_scale_interval: 2";
    const std::vector<Result> results = TrainOnDevices(2, measuring, Plain(8));
    EXPECT_EQ(results[0].values, TrainOnDevices(2, solver, Plain(8))[0].values) << more;
    const GradientNoise expected = Train(2, measuring, Plain(8))[0].state.noise;
    for (const Result& result : results) {
      const GradientNoise& noise = result.state.noise;
      EXPECT_EQ(noise.measured, 4) << more;
      EXPECT_NEAR(noise.gradient_sum, expected.gradient_sum, 1e-3 * expected.variance_sum) << more;
      EXPECT_NEAR(noise.variance_sum, expected.variance_sum, 1e-3 * expected.variance_sum) << more;
    }
  }
}

// Steps are recorded under three plans one after the other.
TEST_F(DeviceRanksTest, TheResultDoesNotDependOnHowGradientsAreJoined) {
  const auto with = [&](const std::string& fusion) {
    return TrainOnDevices(2, BaseSolver() + "distributed { bucket_bytes: 100 fusion: \"" + fusion + "\" }", Nets())[0];
  };
  const Result single = with("single");
  EXPECT_THAT(single.plan, testing::HasSubstr("in 1 bucket"));
  for (const char* fusion : {"none", "fixed", "optimal"}) {
    const Result other = with(fusion);
    EXPECT_EQ(other.values, single.values) << fusion;
    EXPECT_EQ(other.state.loss_window, single.state.loss_window) << fusion;
  }
}

TEST_F(DeviceRanksTest, TimesOfBucketsAreThoseOfTheStreams) {
  const auto look = [](int /*rank*/, Trainer& trainer) {
    GradientExchange& exchange = *trainer.train_net().exchange();
    for (int i = 0; i < 3; ++i) {
      trainer.train_net().Step(i);
      EXPECT_EQ(exchange.Times().iterations, i + 1);
    }
    const std::vector<BucketTimes> times = exchange.Times().buckets;
    ASSERT_GE(times.size(), 2U);
    for (size_t b = 0; b < times.size(); ++b) {
      EXPECT_LE(times[b].ready_s, times[b].begin_s);
      EXPECT_LE(times[b].begin_s, times[b].end_s);
      if (b > 0) {
        EXPECT_LE(times[b - 1].end_s, times[b].begin_s);
      }
    }
    EXPECT_GE(exchange.Times().exposed_s, 0);
    double before = 0;
    for (const ExchangedGradient& gradient : exchange.announced().all()) {
      EXPECT_GE(gradient.ready_s, before);
      before = gradient.ready_s;
    }
    EXPECT_GT(before, 0);
    exchange.device()->TakeTimesOfGradients(false);
  };
  TrainOnDevices(2, BaseSolver() + "max_iter: 4 distributed { fusion: \"none\" }", Plain(), {}, look);
}

TEST_F(DeviceRanksTest, AResumedRunEndsBitIdentical) {
  const std::string solver = BaseSolver() + "type: \"Adam\" base_lr: 0.01";
  const Result whole = TrainOnDevices(2, solver, Nets())[0];
  RunFolder run = NewRun();
  TrainOnDevices(2, solver, Nets(), [&](int rank, TrainerOptions& options) {
    if (rank == 0) options.run = &run;
    options.stop_after = 17;
  });
  const std::vector<Result> resumed = TrainOnDevices(2, solver, Nets(), [&](int rank, TrainerOptions& options) {
    if (rank == 0) options.run = &run;
    options.resume = FindNewestValid(run.checkpoints());
  });
  for (const Result& result : resumed) {
    EXPECT_EQ(result.values, whole.values);
    EXPECT_EQ(result.end.iteration, 30);
  }
}

TEST_F(DeviceRanksTest, OneRanksErrorEndsAllWithItsName) {
  try {
    TrainOnDevices(4, BaseSolver(), Plain(), {}, [](int rank, Trainer& trainer) {
      if (rank != 1) return;
      auto* pipeline = dynamic_cast<MemoryPipeline*>(trainer.train_net().feed().pipeline("data"));
      ASSERT_NE(pipeline, nullptr);
      pipeline->Fill(std::vector<float>(4 * kFeatures, 1.0F), std::vector<float>{0, 1, 9, 3});
    });
    FAIL() << "rank 1 has bad data";
  } catch (const Error& error) {  // rank 0's: the first
    EXPECT_EQ(error.kind(), ErrorKind::kPeer);
    EXPECT_THAT(error.text(), testing::HasSubstr("rank 1 on this host"));
    EXPECT_THAT(error.text(), testing::HasSubstr("label 9"));
  }
}

TEST_F(DeviceRanksTest, ARankThatIsSilentIsNamedAfterTheDeadline) {
  std::vector<std::unique_ptr<Transport>> transports = MakeThreadWorld(2);
  RunRanks(transports, [&](Transport& transport) {
    const int rank = transport.rank();
    Communicator world(std::move(transports[static_cast<size_t>(rank)]), {}, std::chrono::seconds(30));
    TrainerOptions options;
    options.take_signals = false;
    options.compile.device = kRehearsed;
    options.world = &world;
    Trainer trainer(Merged(BaseSolver() + "distributed { deadline_s: 0.25 }"), Plain(), std::move(options));
    FillTask(trainer.train_net().feed(), -1, rank, 2);
    trainer.train_net().Step(0);
    if (rank == 1) return;
    try {
      trainer.train_net().Step(1);
      ADD_FAILURE() << "rank 1 has left";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kPeer);
      EXPECT_THAT(error.text(), testing::HasSubstr("rank 0 has waited 0.25 s for rank 1"));
      EXPECT_THAT(error.text(), testing::HasSubstr("from layer \""));
    }
  });
}

// On GPUs of the machine, two ranks on one where there is no second and NCCL can.
TEST_F(DeviceRanksTest, TwoRanksOnGpusTrainAsOneDoes) {
  ::setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  if (const std::string missing = MissingNccl(2); !missing.empty()) GTEST_SKIP() << missing;
  const auto gpus = static_cast<int>(FindCuda().gpus.size());
  TrainerOptions options;
  options.compile.device = {DeviceKind::kCuda, 0};
  const auto alone = Make(BaseSolver(), std::move(options), Plain());
  alone->Run();
  const auto on_gpus = [&](int rank, TrainerOptions& of_rank) {
    of_rank.compile.device = {DeviceKind::kCuda, rank % gpus};
  };
  const std::vector<Result> results = Train(2, BaseSolver(), Plain(), on_gpus);
  EXPECT_EQ(results[0].values, results[1].values);
  ExpectNear(results[0].values, Everything(*alone), 1e-4F);
  EXPECT_THAT(results[0].plan, testing::HasSubstr("nccl"));
}

}  // namespace
}  // namespace moka
