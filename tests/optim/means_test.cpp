// Means of weights and running statistics (ema_decay): their values, and who takes them.
#include <algorithm>
#include <cmath>

#include "optim/checkpoint/net_weights.h"
#include "optim/checkpoint/trained_weights.h"
#include "trainer_fixture.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

TEST_F(TrainerTest, TestsUseTheMeansOfTheWeights) {
  const auto trainer = Make(BaseSolver() + "ema_decay: 0.5 max_iter: 3 test_initialization: false test_interval: 3");
  trainer->Run();
  EXPECT_TRUE(trainer->store().Has("ip1/0/@ema"));
  const std::vector<OutputValue> with_means = trainer->test_net(0).Run(4);
  // The same weights through a test net of their own.
  ParameterStore& store = const_cast<ParameterStore&>(trainer->store());
  store.Set("ip2/0", std::vector<float>(64, 0.0F));
  const std::vector<OutputValue> again = trainer->test_net(0).Run(4);
  EXPECT_EQ(with_means.at(0).value, again.at(0).value);
  store.Set("ip2/0/@ema", std::vector<float>(64, 0.0F));
  store.Set("ip2/1/@ema", std::vector<float>(4, 0.0F));
  EXPECT_NEAR(trainer->test_net(0).Run(4).at(1).value, std::log(4), 1e-5);
}

// The mean of d = min(ema_decay, (1 + t) / (10 + t)) over what the statistics were after each iteration.
TEST_F(TrainerTest, RunningStatisticsHaveMeansToo) {
  for (const char* more : {"", "iter_size: 2 "}) {
    SCOPED_TRACE(more);
    const auto after = [&](int iterations) {
      auto trainer = Make(StrCat(BaseSolver(), more, "ema_decay: 0.15 max_iter: ", iterations));
      trainer->Run();
      return trainer;
    };
    const auto trainer = after(3);
    ParameterStore& store = const_cast<ParameterStore&>(trainer->store());
    for (const char* blob : {"bn/0", "bn/1", "bn/2"}) {
      std::vector<double> mean(store.Values(blob).size(), 0.0);  // they begin at 0
      for (int t = 0; t < 3; ++t) {
        const std::vector<float> newest = after(t + 1)->store().Values(blob);
        const double decay = std::min(0.15, (1.0 + t) / (10.0 + t));
        for (size_t i = 0; i < mean.size(); ++i) mean[i] = decay * mean[i] + (1 - decay) * double{newest[i]};
      }
      const std::vector<float> kept = store.Values(StrCat(blob, "/@ema"));
      ASSERT_EQ(kept.size(), mean.size());
      for (size_t i = 0; i < mean.size(); ++i) EXPECT_NEAR(kept[i], mean[i], 1e-6 + 1e-6 * std::abs(mean[i])) << blob;
    }
    const std::vector<OutputValue> with_means = trainer->test_net(0).Run(4);
    store.Set("bn/1", std::vector<float>(store.Values("bn/1").size(), 100.0F));
    EXPECT_EQ(trainer->test_net(0).Run(4).at(1).value, with_means.at(1).value);
    store.Set("bn/1/@ema", std::vector<float>(store.Values("bn/1").size(), 100.0F));
    EXPECT_NE(trainer->test_net(0).Run(4).at(1).value, with_means.at(1).value);
  }
}

// Checkpoints of earlier versions have means of weights alone.
TEST_F(TrainerTest, MeansOfStatisticsBeginWithTheNewest) {
  const std::string solver = BaseSolver() + "ema_decay: 0.5 max_iter: 4";
  RunFolder run = NewRun();
  TrainerOptions options;
  options.run = &run;
  options.stop_after = 3;
  Make(solver, options)->Run();
  TrainerOptions again;
  again.run = &run;
  again.resume = FindNewestValid(run.checkpoints());
  ASSERT_TRUE(again.resume.has_value());
  EXPECT_EQ(std::erase_if(again.resume->slots, [](const auto& slot) { return slot.first.starts_with("bn/"); }), 3U);
  const auto resumed = Make(solver, again);
  resumed->Run();
  const auto three = Make(BaseSolver() + "ema_decay: 0.5 max_iter: 3");
  three->Run();
  const std::vector<float> third = three->store().Values("bn/0");
  const std::vector<float> fourth = resumed->store().Values("bn/0");
  const std::vector<float> kept = resumed->store().Values("bn/0/@ema");
  constexpr float kDecay = 4.0F / 13;  // (1 + t) / (10 + t)
  for (size_t i = 0; i < kept.size(); ++i) EXPECT_NEAR(kept[i], kDecay * third[i] + (1 - kDecay) * fourth[i], 1e-6);
}

// moka test and infer take a run's checkpoint; what a converter writes of it has no state beside it.
TEST_F(TrainerTest, ACheckpointIsTestedByTheMeansOfItsWeights) {
  RunFolder run = NewRun();
  TrainerOptions options;
  options.run = &run;
  const auto trainer = Make(BaseSolver() + "ema_decay: 0.5 max_iter: 3 test_interval: 3", options);
  trainer->Run();
  const std::string file = (run.checkpoints() / "iter_0000003.safetensors").string();
  const std::vector<NetBlob>& blobs = trainer->test_net(0).blobs();
  const auto loaded = [&](auto load) {
    ParameterStore store;
    AddBlobs(blobs, 1, store);
    load(store);
    return store.Values("ip1/0");
  };
  const std::vector<float> means = trainer->store().Values("ip1/0/@ema");
  const std::vector<float> last = trainer->store().Values("ip1/0");
  EXPECT_NE(means, last);
  EXPECT_EQ(loaded([&](ParameterStore& store) { LoadTrainedWeights(file, blobs, store); }), means);
  EXPECT_EQ(loaded([&](ParameterStore& store) { LoadWeightFiles(file, blobs, store); }), last);
  fs::copy_file(file, At("alone.safetensors"));
  const std::string alone = At("alone.safetensors").string();
  EXPECT_EQ(loaded([&](ParameterStore& store) { LoadTrainedWeights(alone, blobs, store); }), last);
}

}  // namespace
}  // namespace moka
