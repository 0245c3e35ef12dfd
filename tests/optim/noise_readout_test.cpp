// The gradient noise scale read out of trainings: norms are those of gradients that the test computes by itself, ranks
// and iter_size agree, and what is trained stays the same bits.
#include <cmath>
#include <span>

#include "core/rng.h"
#include "data/pipeline/memory_pipeline.h"
#include "optim/run/run_folder.h"
#include "optim/step/gradient_norms.h"
#include "ranks_fixture.h"

namespace moka {
namespace {

constexpr int kClasses = 4;

// Samples with labels in no order, so that every rank's part is like the whole.
struct MadeUpData {
  std::vector<float> data;
  std::vector<float> labels;

  explicit MadeUpData(int count) {
    RandomStream random(7, 0);
    for (int i = 0; i < count; ++i) {
      const auto label = static_cast<int>(random.Below(kClasses));
      labels.push_back(static_cast<float>(label));
      for (int k = 0; k < kFeatures; ++k) {
        data.push_back(static_cast<float>(random.Normal(k % kClasses == label ? 1 : 0, 1)));
      }
    }
  }
  // Gives a rank every so-manieth sample.
  void Fill(Feed& feed, int rank, int ranks) const {
    std::vector<float> own_data;
    std::vector<float> own_labels;
    for (size_t i = static_cast<size_t>(rank); i < labels.size(); i += static_cast<size_t>(ranks)) {
      own_data.insert(own_data.end(), data.begin() + static_cast<std::ptrdiff_t>(i * kFeatures),
                      data.begin() + static_cast<std::ptrdiff_t>((i + 1) * kFeatures));
      own_labels.push_back(labels[i]);
    }
    dynamic_cast<MemoryPipeline&>(*feed.pipeline("data")).Fill(own_data, own_labels);
  }
};

// One layer and a softmax: its gradient fits into a few lines.
SolverNets Linear(int batch) {
  SolverNets nets;
  nets.train = NetFromText(
      StrCat("name: \"linear\" layer { name: \"data\" type: \"MemoryData\" top: \"data\" top: \"label\" "
             "memory_data_param { batch_size: ",
             batch, " channels: ", kFeatures,
             " height: 1 width: 1 } } layer { name: \"ip\" type: \"InnerProduct\" bottom: \"data\" top: \"ip\" "
             "inner_product_param { num_output: ",
             kClasses,
             " weight_filler { type: \"xavier\" } bias_filler { type: \"constant\" value: 0.1 } } } "
             "layer { name: \"loss\" type: \"SoftmaxWithLoss\" bottom: \"ip\" bottom: \"label\" top: \"loss\" }"),
      "net.prototxt");
  nets.train.mutable_state()->set_phase(TRAIN);
  return nets;
}

// The weights of that net.
struct LinearWeights {
  std::vector<float> weight;  // [kClasses, kFeatures]
  std::vector<float> bias;

  explicit LinearWeights(const ParameterStore& store) : weight(store.Values("ip/0")), bias(store.Values("ip/1")) {}

  // The gradient of the mean loss of samples first, first + step, ..: of the weight, then of the bias.
  std::vector<double> Gradient(const MadeUpData& from, int first, int step, int count) const {
    std::vector<double> sum(static_cast<size_t>(kClasses * (kFeatures + 1)), 0);
    for (int n = 0; n < count; ++n) {
      const auto sample = static_cast<size_t>(first + n * step);
      const std::span<const float> x(from.data.data() + sample * kFeatures, kFeatures);
      std::vector<double> p(kClasses);
      double all = 0;
      for (size_t c = 0; c < p.size(); ++c) {
        double logit = double{bias[c]};
        for (size_t k = 0; k < x.size(); ++k) logit += double{weight[c * kFeatures + k]} * double{x[k]};
        all += p[c] = std::exp(logit);
      }
      for (size_t c = 0; c < p.size(); ++c) {
        const double dy = (p[c] / all - (static_cast<size_t>(from.labels[sample]) == c ? 1 : 0)) / count;
        for (size_t k = 0; k < x.size(); ++k) sum[c * kFeatures + k] += dy * double{x[k]};
        sum[kClasses * kFeatures + c] += dy;
      }
    }
    return sum;
  }
};

double SquaresOf(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return sum;
}

const std::string kSolver = "base_lr: 0.1 lr_policy: \"fixed\" momentum: 0.9 max_iter: 2 random_seed: 3 ";
// None of these is in the norms.
const std::string kBesides = "weight_decay: 0.5 clip_gradients: 0.001 loss_scale: 8 ";

void ExpectNorms(const std::optional<GradientNorms>& found, const GradientNorms& expected) {
  ASSERT_TRUE(found.has_value());
  EXPECT_NEAR(found->of_part, expected.of_part, 1e-6 * expected.of_part);
  EXPECT_NEAR(found->of_all, expected.of_all, 1e-6 * expected.of_part);
  EXPECT_EQ(found->part_samples, expected.part_samples);
  EXPECT_EQ(found->all_samples, expected.all_samples);
}

class NoiseReadoutTest : public RanksTest {
 protected:
  // A training of one rank on that data.
  static std::unique_ptr<Trainer> Alone(const std::string& solver, const SolverNets& nets, const MadeUpData& data) {
    TrainerOptions options;
    options.take_signals = false;
    auto trainer = std::make_unique<Trainer>(Merged(solver), nets, std::move(options));
    data.Fill(trainer->train_net().feed(), 0, 1);
    return trainer;
  }
};

TEST_F(NoiseReadoutTest, RanksHaveTheNormsOfTheirOwnGradientsAndOfTheMean) {
  constexpr int kBatch = 16;
  const MadeUpData data(64);
  for (const int ranks : {2, 4}) {
    for (const int batches : {1, 2}) {
      SCOPED_TRACE(StrCat(ranks, " ranks, iter_size ", batches));
      const auto look = [&](int rank, Trainer& trainer) {
        data.Fill(trainer.train_net().feed(), rank, ranks);
        const LinearWeights weights(trainer.store());
        trainer.train_net().Step(0);
        const int own = kBatch / ranks * batches;
        GradientNorms expected{.part_samples = own, .all_samples = own * ranks};
        for (int r = 0; r < ranks; ++r) {
          expected.of_part += SquaresOf(weights.Gradient(data, r, ranks, own)) / ranks;
        }
        expected.of_all = SquaresOf(weights.Gradient(data, 0, 1, own * ranks));
        ExpectNorms(trainer.train_net().norms(), expected);
      };
      Train(ranks, StrCat(kSolver, kBesides, "noise_scale_interval: 1 iter_size: ", batches), Linear(kBatch), {}, look);
    }
  }
}

TEST_F(NoiseReadoutTest, OneRankHasTheNormsOfItsFirstBatchAndOfTheMean) {
  const MadeUpData data(64);
  const auto trainer = Alone(kSolver + kBesides + "noise_scale_interval: 1 iter_size: 4", Linear(8), data);
  for (int iteration = 0; iteration < 2; ++iteration) {
    const LinearWeights weights(trainer->store());
    const int first = 32 * iteration;
    trainer->train_net().Step(iteration);
    ExpectNorms(trainer->train_net().norms(), {.of_part = SquaresOf(weights.Gradient(data, first, 1, 8)),
                                               .of_all = SquaresOf(weights.Gradient(data, first, 1, 32)),
                                               .part_samples = 8,
                                               .all_samples = 32});
  }
}

TEST_F(NoiseReadoutTest, OnlyUpdatesOfTheIntervalAreMeasured) {
  const MadeUpData data(64);
  const auto alone = Alone(kSolver + "noise_scale_interval: 3 iter_size: 2", Linear(8), data);
  for (int i = 0; i < 7; ++i) {
    alone->train_net().Step(i);
    EXPECT_EQ(alone->train_net().norms().has_value(), i % 3 == 0) << i;
  }
  Train(2, kSolver + "noise_scale_interval: 3", Linear(16), {}, [](int, Trainer& trainer) {
    for (int i = 0; i < 7; ++i) {
      trainer.train_net().Step(i);
      EXPECT_EQ(trainer.train_net().norms().has_value(), i % 3 == 0) << i;
    }
  });
}

// The exchange sums where gradients lie: whoever comes later reads the sum.
TEST_F(NoiseReadoutTest, ARankReadsItsGradientsBeforeTheyAreSummed) {
  Train(2, BaseSolver() + "max_iter: 1 noise_scale_interval: 1", Plain(), {}, [](int, Trainer& trainer) {
    int read = 0;
    int begun = 0;
    int ended = 0;
    constexpr int kGradients = 4;
    for (const StepReport& step : trainer.train_net().program().steps()) {
      if (step.op == "square_sum") ++read;
      if (step.op == "all_reduce_begin" && begun < kGradients) {
        ++begun;
        EXPECT_LE(begun, read) << step.layer;
      }
      if (step.op == "all_reduce_end") ++ended;
      if (ended == 0) {
        EXPECT_LE(read, kGradients);
      }
    }
    EXPECT_EQ(begun, kGradients);
    EXPECT_EQ(read, kGradients + 1) << "those of ranks one by one, the sums together";
  });
}

// The weights stay as they are, so all updates draw from one distribution, which the test knows: the data.
TEST_F(NoiseReadoutTest, RanksAndBatchesOfOneRankComeToTheSameScale) {
  constexpr int kUpdates = 1600;
  constexpr int kBatch = 16;
  const MadeUpData data(kUpdates * kBatch);
  const std::string solver =
      StrCat(kSolver, "| base_lr: 0 noise_scale_interval: 1 noise_scale_decay: 0.9999 max_iter: ", kUpdates);
  std::unique_ptr<LinearWeights> weights;
  const std::vector<Result> results = Train(4, solver, Linear(kBatch), {}, [&](int rank, Trainer& trainer) {
    data.Fill(trainer.train_net().feed(), rank, 4);
    if (rank == 0) weights = std::make_unique<LinearWeights>(trainer.store());
  });
  const auto alone = Alone(solver + " iter_size: 4", Linear(kBatch / 4), data);
  alone->Run();

  const double square = SquaresOf(weights->Gradient(data, 0, 1, kUpdates * kBatch));
  double variance = -square;
  for (int i = 0; i < kUpdates * kBatch; ++i) {
    variance += SquaresOf(weights->Gradient(data, i, 1, 1)) / (kUpdates * kBatch);
  }
  for (const GradientNoise& noise : {results[0].state.noise, results[3].state.noise, alone->state().noise}) {
    EXPECT_EQ(noise.measured, kUpdates);
    EXPECT_NEAR(noise.gradient_variance(), variance, 0.1 * variance);
    EXPECT_NEAR(noise.gradient_square(), square, 0.15 * square);
  }
  EXPECT_EQ(results[0].state.noise, results[3].state.noise);
}

TEST_F(NoiseReadoutTest, WhatIsTrainedIsTheSameBitsWithIt) {
  for (const char* more : {"", "type: \"Adam\" base_lr: 0.01 clip_gradients: 0.5", "type: \"LARS\" iter_size: 2"}) {
    for (const int ranks : {2, 4}) {
      const std::string solver = BaseSolver() + more;
      const Result plain = Train(ranks, solver, Nets())[0];
      for (const char* interval : {"1", "4"}) {
        SCOPED_TRACE(StrCat(ranks, " ranks, interval ", interval, " ", more));
        const Result measured = Train(ranks, StrCat(solver, " noise_scale_interval: ", interval), Nets())[0];
        EXPECT_EQ(measured.values, plain.values);
        EXPECT_EQ(measured.state.loss_window, plain.state.loss_window);
        EXPECT_GT(measured.state.noise.measured, 0);
      }
    }
  }
  const std::string solver = BaseSolver() + "iter_size: 3 max_iter: 12";
  const auto plain = Make(solver);
  plain->Run();
  const auto measured = Make(solver + " noise_scale_interval: 2");
  measured->Run();
  EXPECT_EQ(Everything(*measured), Everything(*plain));
  EXPECT_EQ(measured->state().noise.measured, 6);
}

TEST_F(NoiseReadoutTest, AResumedRunGoesOnWithItsMeans) {
  const std::string solver = BaseSolver() + "noise_scale_interval: 3";
  const Result whole = Train(2, solver, Nets())[0];
  EXPECT_EQ(whole.state.noise.measured, 10);
  RunFolder run = NewRun();
  Train(2, solver, Nets(), [&](int rank, TrainerOptions& options) {
    if (rank == 0) options.run = &run;
    options.stop_after = 17;
  });
  const std::vector<Result> resumed = Train(2, solver, Nets(), [&](int rank, TrainerOptions& options) {
    if (rank == 0) options.run = &run;
    options.resume = FindNewestValid(run.checkpoints());
  });
  for (const Result& result : resumed) {
    EXPECT_EQ(result.values, whole.values);
    EXPECT_EQ(result.state.noise, whole.state.noise);
  }
  int lines = 0;
  for (const MetricLine& line : ReadMetrics(run.path())) {
    for (const auto& [name, value] : line.metrics) {
      if (name == "gradient_variance") ++lines;
    }
  }
  EXPECT_EQ(lines, 6) << "one a display";
}

TEST_F(NoiseReadoutTest, AResumedRunMayMeasureMoreOrLess) {
  const std::string solver = BaseSolver() + "iter_size: 2 max_iter: 8 | ";
  RunFolder run = NewRun();
  {
    TrainerOptions options;
    options.run = &run;
    options.stop_after = 4;
    Make(solver + "noise_scale_interval: 1", std::move(options))->Run();
  }
  TrainerOptions options;
  options.run = &run;
  options.resume = FindNewestValid(run.checkpoints());
  const auto resumed = Make(solver + "noise_scale_interval: 2 noise_scale_decay: 0.5", std::move(options));
  resumed->Run();
  EXPECT_EQ(resumed->state().noise.measured, 4 + 2);
}

TEST_F(NoiseReadoutTest, WhereThereIsNothingToCompareItIsRefused) {
  const std::string solver = kSolver + "\n noise_scale_interval: 5 ";
  const Caught alone = ErrorOf([&] { Trainer(Solver(solver), Linear(8), {}); });
  EXPECT_EQ(alone.kind, ErrorKind::kConfig);
  EXPECT_THAT(alone.text, testing::HasSubstr("solver.prototxt:2:2: noise_scale_interval compares the gradients of "));
  for (const auto& [more, word] :
       {std::pair{"distributed { strategy: \"local\" }", "strategy \"local\""},
        std::pair{"distributed { strategy: \"delayed\" }", "strategy \"delayed\""},
        std::pair{"distributed { shard_updates: true }", "shard_updates"},
        std::pair{"distributed { compression { method: \"sign\" } }", "compression of gradients"}}) {
    const Caught ranks = ErrorOf([&] { CheckNoiseScale(Solver(solver + more), 2, false); });
    EXPECT_EQ(ranks.kind, ErrorKind::kUnavailable);
    EXPECT_THAT(ranks.text,
                testing::HasSubstr(StrCat("solver.prototxt:2:2: noise_scale_interval does not work with ", word)));
  }
  EXPECT_THAT(ErrorOf([&] { Train(2, solver + "distributed { strategy: \"local\" }", Linear(16)); }).text,
              testing::HasSubstr("noise_scale_interval does not work with strategy \"local\""));
  const Caught pipeline = ErrorOf([&] { CheckNoiseScale(Solver(solver + "iter_size: 4"), 1, true); });
  EXPECT_THAT(pipeline.text, testing::HasSubstr("does not work with pipeline_stage"));
  const Caught turns =
      ErrorOf([&] { RefuseBesideTurns(Solver(solver + "turn { name: \"a\" }"), SolverNets(), 1, Compute::kFloat32); });
  EXPECT_THAT(turns.text, testing::HasSubstr("solver.prototxt:2:2: noise_scale_interval does not work with turn"));
  EXPECT_NO_THROW(CheckNoiseScale(Solver(kSolver), 1, true));
}

}  // namespace
}  // namespace moka
