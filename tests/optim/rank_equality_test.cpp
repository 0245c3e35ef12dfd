// Several ranks keep their promises: the weights and losses of one rank, whatever a loss is divided by; tests that
// begin at the first record and count every record once; data layers of one net in step.
#include "comm/transport/thread_ranks.h"
#include "core/log.h"
#include "data/pipeline/hdf5_pipeline.h"
#include "proto/weights/hdf5_file.h"
#include "ranks_fixture.h"

namespace moka {
namespace {

constexpr int kRows = 22;
constexpr int kColumns = 3;

// Metrics of the tests of a training, in order.
class TestsSeen : public TrainObserver {
 public:
  void OnTest(const TestReport& test) override {
    for (const OutputValue& output : test.outputs) values.push_back(output.value);
  }
  std::vector<double> values;
};

class RankEqualityTest : public RanksTest {
 protected:
  struct Trained {
    std::map<std::string, std::vector<float>> values;
    double loss = 0;
    std::vector<double> tests;
  };

  // rows.h5 has x [22,3], whose means over all rows are known, and labels y of which a third is ignored, unevenly.
  RankEqualityTest() {
    std::vector<float> x;
    std::vector<float> y;
    RandomStream random(7, 0);
    for (int i = 0; i < kRows; ++i) {
      for (int k = 0; k < kColumns; ++k) x.push_back(static_cast<float>(random.Normal(0, 2)));
      y.push_back(i % 12 < 7 && i % 2 == 0 ? 255.0F : static_cast<float>(i % 3));
    }
    for (int i = 0; i < kRows; ++i) mean_ += static_cast<double>(x[static_cast<size_t>(i * kColumns)]) / kRows;
    Hdf5Writer writer(At("rows.h5"));
    writer.AddFloats("x", Shape{kRows, kColumns}, x);
    writer.AddFloats("y", Shape{kRows}, y);
    writer.Commit();
    WriteFileAtomically(At("list.txt"), "rows.h5\n");
  }

  SolverNets NetsOf(const std::string& text, const std::string& test = {}) const {
    SolverNets nets;
    nets.train = NetFromText(text, "net.prototxt");
    nets.train.mutable_state()->set_phase(TRAIN);
    if (test.empty()) return nets;
    nets.tests.push_back(NetFromText(test, "net.prototxt"));
    nets.tests.back().mutable_state()->set_phase(TEST);
    return nets;
  }
  Trained TrainOn(int ranks, const std::string& solver, const SolverNets& nets) const {
    std::vector<std::unique_ptr<Communicator>> world = MakeThreadRanks(ranks);
    Trained trained;
    RunRanks(world, [&](Communicator& own) {
      try {
        TestsSeen seen;
        TrainerOptions options;
        options.take_signals = false;
        options.base_folder = folder_;
        options.observer = own.is_first() ? &seen : nullptr;
        if (ranks > 1) options.world = &own;
        Trainer trainer(Solver(solver), nets, std::move(options));
        trainer.Run();
        if (own.is_first()) trained = {Everything(trainer), trainer.state().smoothed_loss, seen.values};
      } catch (const Error& error) {
        own.Fail(error.what());
        throw;
      }
    });
    return trained;
  }
  static std::string Data(int batch) {
    return StrCat(R"(layer { name: "data" type: "HDF5Data" top: "x" top: "y"
                             hdf5_data_param { source: "list.txt" batch_size: )",
                  batch, " } }");
  }
  static std::string NetWith(const std::string& loss) {
    return Data(12) + R"(
      layer { name: "noise" type: "DummyData" top: "noise" dummy_data_param {
              shape { dim: 12 dim: 3 } data_filler { type: "gaussian" std: 0.3 } } }
      layer { name: "H" type: "DummyData" top: "H" dummy_data_param {
              shape { dim: 1 dim: 1 dim: 3 dim: 3 } data_filler { type: "constant" value: 0.7 } } }
      layer { name: "quiet" type: "Silence" bottom: "H" }
      layer { name: "noisy" type: "Eltwise" bottom: "x" bottom: "noise" top: "noisy" }
      layer { name: "ip" type: "InnerProduct" bottom: "noisy" top: "scores"
              inner_product_param { num_output: 3 weight_filler { type: "xavier" } } } )" +
           loss;
  }

  double mean_ = 0;  // of the first column
};

// The random numbers that each rank draws are rows of one batch's.
TEST_F(RankEqualityTest, RandomDummyDataIsOneBatchAmongTheRanks) {
  const std::string solver =
      "base_lr: 0.02 lr_policy: \"fixed\" momentum: 0.9 max_iter: 5 random_seed: 3 average_loss: 5";
  const SolverNets nets = NetsOf(NetWith(R"(layer { name: "loss" type: "SoftmaxWithLoss" bottom: "scores" bottom: "y"
                                                    top: "loss" loss_param { ignore_label: 255 } })"));
  const Trained one = TrainOn(1, solver, nets);
  for (const int ranks : {2, 3}) {
    const Trained several = TrainOn(ranks, solver, nets);
    SCOPED_TRACE(StrCat(ranks, " ranks"));
    ExpectNear(several.values, one.values, 1e-5F);
    EXPECT_NEAR(several.loss, one.loss, 2e-5 * std::max(1.0, std::abs(one.loss)));
  }
}

TEST_F(RankEqualityTest, CountsThatCannotMeetAreSaid) {
  const auto said = [&](const std::string& fields, int ranks) {
    const std::string text = NetWith(StrCat(R"(layer { name: "loss" type: "SoftmaxWithLoss" bottom: "scores" bottom: "y"
                                                       top: "loss" loss_param { )",
                                            fields, " } }"));
    SetStderrLevel(LogLevel::kWarning);
    testing::internal::CaptureStderr();
    (void)TrainOn(ranks, "base_lr: 0.02 lr_policy: \"fixed\" max_iter: 1 random_seed: 3 iter_size: 2", NetsOf(text));
    return testing::internal::GetCapturedStderr().find(
               "layer \"loss\" divides by what each rank's own part of a batch has") != std::string::npos;
  };
  EXPECT_TRUE(said("ignore_label: 255", 2));
  EXPECT_FALSE(said("ignore_label: 255", 1));
  EXPECT_FALSE(said("ignore_label: 255 normalization: NONE", 2));
  EXPECT_FALSE(said("ignore_label: 255 normalization: FULL", 2));
}

TEST_F(RankEqualityTest, AMatrixOfAsManyClassesAsTheBatchStaysWhole) {
  std::string text = NetWith(R"(layer { name: "loss" type: "InfogainLoss" bottom: "scores" bottom: "y" bottom: "H"
                                        top: "loss" loss_param { ignore_label: 255 } })");
  const auto replace = [&](const std::string& from, const std::string& to) {
    ASSERT_NE(text.find(from), std::string::npos) << from;
    text.replace(text.find(from), from.size(), to);
  };
  replace("dim: 1 dim: 1 dim: 3 dim: 3", "dim: 12 dim: 12");
  replace("num_output: 3", "num_output: 12");
  const std::string solver = "base_lr: 0.02 lr_policy: \"fixed\" max_iter: 3 random_seed: 3";
  const Trained one = TrainOn(1, solver, NetsOf(text));
  ExpectNear(TrainOn(2, solver, NetsOf(text)).values, one.values, 1e-5F);
}

TEST_F(RankEqualityTest, ConstantLabelsOfABatchAreDivided) {
  const std::string text = Data(12) + R"(
      layer { name: "ones" type: "DummyData" top: "ones" dummy_data_param {
              shape { dim: 12 } data_filler { type: "constant" value: 1 } } }
      layer { name: "quiet" type: "Silence" bottom: "y" }
      layer { name: "ip" type: "InnerProduct" bottom: "x" top: "scores"
              inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
      layer { name: "loss" type: "SoftmaxWithLoss" bottom: "scores" bottom: "ones" top: "loss" })";
  const std::string solver = "base_lr: 0.02 lr_policy: \"fixed\" max_iter: 3 random_seed: 3";
  const Trained one = TrainOn(1, solver, NetsOf(text));
  ExpectNear(TrainOn(2, solver, NetsOf(text)).values, one.values, 1e-5F);
}

std::string TestNetOf(const std::string& data) {
  return data + R"(
      layer { name: "quiet" type: "Silence" bottom: "y" }
      layer { name: "first" type: "Slice" bottom: "x" top: "a" top: "b" slice_param { axis: 1 slice_point: 1 } }
      layer { name: "silence" type: "Silence" bottom: "b" }
      layer { name: "ip" type: "InnerProduct" bottom: "a" top: "ip" inner_product_param {
              num_output: 1 bias_term: false weight_filler { type: "constant" value: 1 } } }
      layer { name: "mean" type: "Reduction" bottom: "ip" top: "mean" loss_weight: 1
              reduction_param { operation: MEAN } })";
}

TEST_F(RankEqualityTest, ATestBeginsAtTheFirstRecordAndCountsEachOnce) {
  const std::string solver = "base_lr: 0 lr_policy: \"fixed\" max_iter: 6 random_seed: 3 test_interval: 2 test_iter: ";
  struct Cut {
    int batch;
    int batches;
  };
  // Batches that end with the records, behind them by less than a batch, and a single one that is too long.
  for (const Cut& cut : {Cut{11, 2}, Cut{8, 3}, Cut{6, 4}, Cut{4, 6}, Cut{20, 2}, Cut{30, 1}}) {
    const SolverNets nets = NetsOf(TestNetOf(Data(12)), TestNetOf(Data(cut.batch)));
    for (const int ranks : {1, 2, 3}) {
      const Trained trained = TrainOn(ranks, StrCat(solver, cut.batches), nets);
      ASSERT_EQ(trained.tests.size(), 4U);
      for (const double value : trained.tests) {
        EXPECT_NEAR(value, mean_, 1e-5) << cut.batch << " x " << cut.batches << " by " << ranks << " ranks";
      }
    }
  }
}

TEST_F(RankEqualityTest, RanksTestBatchesAsOneMakesThem) {
  // The mean over the valid labels of each batch depends on which records are in it.
  const std::string text = R"(
      layer { name: "ip" type: "InnerProduct" bottom: "x" top: "scores"
              inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
      layer { name: "loss" type: "SoftmaxWithLoss" bottom: "scores" bottom: "y" top: "loss"
              loss_param { ignore_label: 255 } })";
  const std::string solver = "base_lr: 0 lr_policy: \"fixed\" max_iter: 2 random_seed: 3 test_interval: 1 test_iter: 4";
  const SolverNets nets = NetsOf(Data(12) + text, Data(6) + text);
  const Trained one = TrainOn(1, solver, nets);
  for (const int ranks : {2, 4}) {
    const Trained several = TrainOn(ranks, solver, nets);
    ASSERT_EQ(several.tests.size(), one.tests.size());
    for (size_t i = 0; i < one.tests.size(); ++i) EXPECT_NEAR(several.tests[i], one.tests[i], 1e-6) << ranks;
  }
}

class PairedLayersTest : public FolderTest {
 protected:
  static LayerParameter Layer(const std::string& name, const std::string& fields, const std::string& source = {}) {
    return NetFromText(StrCat("layer { name: \"", name, "\" type: \"Data\" top: \"", name, "\" data_param { source: \"",
                              source.empty() ? name : source, "\" batch_size: 4 backend: LMDB ", fields, " }"),
                       "net.prototxt")
        .layer(0);
  }
  static Feed FeedOf() {
    PipelineOptions options;
    options.seed = 11;
    options.base_folder = std::filesystem::path(MOKA_SOURCE_DIR) / "tests/cases/paired-shuffle";
    return Feed("train", options);
  }
};

TEST_F(PairedLayersTest, ShuffleSkipCropAndMirrorAlike) {
  for (const char* fields : {"shuffle: true }", "rand_skip: 9 }", "shuffle: true rand_skip: 9 }",
                             "shuffle: true } transform_param { mirror: true }", "shuffle_pool_size: 3 }",
                             "shuffle: true } sampling_param { block: 2 window: 2 }"}) {
    Feed feed = FeedOf();
    const DataTypes types = feed.types();
    const TensorType type = types(Layer("pictures", fields))[0];
    types(Layer("labels", fields));
    OwnedTensor pictures(type);
    OwnedTensor labels(type);
    for (int batch = 0; batch < 12; ++batch) {
      feed.pipeline("pictures")->Next({{pictures.tensor()}});
      feed.pipeline("labels")->Next({{labels.tensor()}});
      const std::span<const float> a = pictures.tensor().as<float>();
      const std::span<const float> b = labels.tensor().as<float>();
      EXPECT_TRUE(std::ranges::equal(a, b)) << fields << " batch " << batch;
    }
  }
}

// Two towers of a net that read one set want other records; a layer with other fields sees the same ones otherwise.
TEST_F(PairedLayersTest, TheSameLayerAgainHasAnOrderOfItsOwn) {
  Feed feed = FeedOf();
  const DataTypes types = feed.types();
  testing::internal::CaptureStderr();
  types(Layer("pictures", "shuffle: true }"));
  types(Layer("again", "shuffle: true } include { phase: TRAIN }", "pictures"));
  types(Layer("mirrored", "shuffle: true } transform_param { mirror: true }", "pictures"));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  int64_t same = 0;
  for (int64_t n = 0; n < 12; ++n) {
    EXPECT_EQ(feed.pipeline("mirrored")->RecordAt(n), feed.pipeline("pictures")->RecordAt(n));
    same += feed.pipeline("again")->RecordAt(n) == feed.pipeline("pictures")->RecordAt(n) ? 1 : 0;
  }
  EXPECT_LT(same, 6);
}

TEST_F(PairedLayersTest, OrdersThatDifferAreSaid) {
  SetStderrLevel(LogLevel::kWarning);
  for (const auto& [first, second, is_said] : {std::tuple{"shuffle: true }", "shuffle: false }", true},
                                               {"rand_skip: 5 }", "rand_skip: 9000 }", true},
                                               {"shuffle: true }", "shuffle: true }", false},
                                               {"shuffle: false }", "shuffle: false }", false}}) {
    Feed feed = FeedOf();
    const DataTypes types = feed.types();
    testing::internal::CaptureStderr();
    types(Layer("pictures", first));
    types(Layer("labels", second));
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(
        said.find("layers \"pictures\" and \"labels\" have 12 records each, in different orders") != std::string::npos,
        is_said)
        << first << second << said;
  }
}

// The rows of one HDF5 file are shuffled as a database's records are, in every epoch.
TEST_F(RankEqualityTest, AnHdf5FileAndADatabaseAreShuffledAlike) {
  const Permutation second(kRows, 77, 1);
  const LayerParameter layer = NetFromText(Data(2), "net.prototxt").layer(0);
  LayerParameter shuffled = layer;
  shuffled.mutable_hdf5_data_param()->set_shuffle(true);
  PipelineOptions options;
  options.base_folder = folder_;
  Hdf5Pipeline pipeline(shuffled, options, 77);
  for (int n = 0; n < kRows; ++n) {
    EXPECT_EQ(pipeline.RecordAt(kRows + n), static_cast<int64_t>(second(static_cast<uint64_t>(n)))) << n;
  }
}

}  // namespace
}  // namespace moka
