// Layers whose outputs are split among the ranks: training is that of one rank on the same batches, each rank has its
// rows only, checkpoints and tests see whole layers, and what cannot be split says so.
#include <algorithm>
#include <tuple>

#include "ranks_fixture.h"

namespace moka {
namespace {

constexpr int kClasses = 10;  // 4 and 3 and 3 of three ranks
constexpr int kHidden = 16;
constexpr int kIterations = 5;

class SplitColumnsTest : public RanksTest {
 protected:
  SplitColumnsTest() { samples = 48; }  // what 2, 3 and 4 ranks divide
  ~SplitColumnsTest() override { samples = kSamples; }

  // `fields` of layer ip2 (of four classes, with room for ten), `net_fields` of the net.
  static SolverNets Split(const std::string& fields = "multinode { model_parts: 0 }",
                          const std::string& net_fields = "") {
    std::string text = Without(TaskNet(12, false), "bn", "relu");
    const std::string outputs = "num_output: 4";
    text.replace(text.find(outputs), outputs.size(), StrCat("num_output: ", kClasses));
    const std::string begin = "layer { name: \"ip2\" ";
    text.replace(text.find(begin), begin.size(), StrCat(begin, fields, " "));
    return Nets(1, net_fields + text);
  }
  // The same with a layer between the classifier and its loss, which so gets whole rows of scores.
  static SolverNets SplitRows(const std::string& fields = "multinode { model_parts: 0 }") {
    SolverNets nets = Split(fields);
    for (NetParameter* net : {&nets.train, &nets.tests[0]}) {
      LayerParameter power;
      power.set_name("half");
      power.set_type("Power");
      power.add_bottom("ip2");
      power.add_top("half");
      power.mutable_power_param()->set_scale(0.5F);
      const int loss = net->layer_size() - 2;
      net->mutable_layer(loss)->set_bottom(0, "half");
      *net->add_layer() = power;
      std::rotate(net->mutable_layer()->begin() + loss, net->mutable_layer()->end() - 1, net->mutable_layer()->end());
    }
    return nets;
  }
  static std::string Short(const std::string& more) {
    return BaseSolver() + StrCat("max_iter: ", kIterations, " test_interval: 5 | ", more);
  }
  static void ExpectSameBlobs(const Result& split, const Result& whole, float tolerance, const std::string& what) {
    for (const char* name : {"ip1/0", "ip1/1", "ip2/0", "ip2/1"}) {
      const std::vector<float>& expected = whole.values.at(name);
      const std::vector<float>& found = split.values.at(name);
      ASSERT_EQ(found.size(), expected.size()) << what << " " << name;
      for (size_t i = 0; i < found.size(); ++i) {
        ASSERT_NEAR(found[i], expected[i], tolerance) << what << " " << name << " " << i;
      }
    }
    for (size_t i = 0; i < whole.state.loss_window.size(); ++i) {
      EXPECT_NEAR(split.state.loss_window[i], whole.state.loss_window[i], 1e-5) << what;
    }
  }
  static std::function<void(int, TrainerOptions&)> Into(RunFolder& run, int stop_after = 0) {
    return [&run, stop_after](int rank, TrainerOptions& options) {
      if (rank == 0) options.run = &run;
      if (stop_after > 0) options.stop_after = stop_after;
    };
  }
  static std::string ErrorOfTraining(const std::string& solver, const SolverNets& nets, int ranks = 2) {
    return ErrorOf([&] { Train(ranks, solver, nets); }).text;
  }
};

TEST_F(SplitColumnsTest, TrainingIsThatOfOneRank) {
  for (const char* type : {"type: \"SGD\"", "type: \"LARS\" lars_eta: 0.05", "type: \"Adam\" base_lr: 0.01",
                           "type: \"LAMB\" base_lr: 0.01", "clip_gradients: 0.3", "type: \"Nesterov\""}) {
    const std::string solver = Short(type);
    for (const auto& [net, split] : {std::pair(Split(""), Split()), std::pair(SplitRows(""), SplitRows())}) {
      const Result whole = Train(1, solver, net)[0];
      for (const int ranks : {2, 3, 4}) {
        for (const Result& result : Train(ranks, solver, split)) {
          ExpectSameBlobs(result, whole, 5e-5F, StrCat(type, " by ", ranks));
        }
      }
    }
  }
}

// If ranks ignore differently many labels, each divides by its own, as they do of whole rows.
TEST_F(SplitColumnsTest, IgnoredLabelsAreThoseOfTheirRank) {
  const std::string solver = Short("");
  const auto ignoring = [](SolverNets nets) {
    LayerParameter* loss = nets.train.mutable_layer(nets.train.layer_size() - 2);
    EXPECT_EQ(loss->name(), "loss");
    loss->mutable_loss_param()->set_ignore_label(3);
    return nets;
  };
  const std::vector<Result> whole = Train(3, solver, ignoring(Split("")));
  const std::vector<Result> split = Train(3, solver, ignoring(Split()));
  for (size_t r = 0; r < 3; ++r) ExpectSameBlobs(split[r], whole[r], 5e-5F, "ignored");
}

TEST_F(SplitColumnsTest, AWrongLabelIsNamed) {
  SolverNets nets = Split();
  for (LayerParameter& layer : *nets.train.mutable_layer()) {
    if (layer.name() == "ip2") layer.mutable_inner_product_param()->set_num_output(3);
  }
  nets.tests.clear();
  EXPECT_THAT(ErrorOfTraining("base_lr: 0.1 lr_policy: \"fixed\" max_iter: 3", nets),
              testing::HasSubstr("is not a class from 0 to 2"));
}

TEST_F(SplitColumnsTest, ARankHasItsRowsOnly) {
  const std::vector<Result> results = Train(3, Short(""), Split("multinode { model_parts: 3 num_nodes: 3 }"));
  std::ptrdiff_t row = 0;
  for (const std::ptrdiff_t rows : {4, 3, 3}) {
    const Result& result = results[static_cast<size_t>(row == 0 ? 0 : row == 4 ? 1 : 2)];
    const auto begin = result.values.at("ip2/0").begin() + row * kHidden;
    EXPECT_EQ(result.values.at("ip2/0@part"), std::vector<float>(begin, begin + rows * kHidden));
    EXPECT_EQ(result.values.at("ip2/0@part/@history").size(), static_cast<size_t>(rows * kHidden));
    EXPECT_EQ(result.values.at("ip2/1@part/@history").size(), static_cast<size_t>(rows));
    EXPECT_FALSE(result.values.contains("ip2/0/@history"));
    EXPECT_EQ(result.values.at("ip2/0"), results[0].values.at("ip2/0"));
    row += rows;
  }
}

// A blob that no test reads whole is whole only while it is looked at.
TEST_F(SplitColumnsTest, WithoutTestsNoRankKeepsWholeBlobs) {
  struct Watch : TrainObserver {
    void OnIteration(const TrainProgress&) override { found += trainer->store().Has("ip2/0") ? 1 : 0; }
    Trainer* trainer = nullptr;
    int found = 0;
  };
  SolverNets nets = Split();
  const Result expected = Train(2, Short(""), nets)[0];
  nets.tests.clear();
  std::vector<Watch> watches(2);
  const std::string solver =
      "base_lr: 0.1 lr_policy: \"fixed\" momentum: 0.9 weight_decay: 0.001 max_iter: 5 random_seed: 3";
  const std::vector<Result> results = Train(
      2, solver, nets,
      [&](int rank, TrainerOptions& options) { options.observer = &watches[static_cast<size_t>(rank)]; },
      [&](int rank, Trainer& trainer) { watches[static_cast<size_t>(rank)].trainer = &trainer; });
  for (size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(watches[r].found, 0);
    EXPECT_EQ(results[r].values.at("ip2/0"), expected.values.at("ip2/0")) << "gathered at the end";
  }
}

TEST_F(SplitColumnsTest, GradientsOfPartsCrossNothing) {
  const auto look = [](Trainer& trainer, std::string& order) {
    std::map<std::string, int> exchanged;
    for (const ExchangedGradient& gradient : trainer.train_net().exchange()->announced().all()) {
      exchanged[gradient.layer.starts_with("ip1") ? "ip1" : gradient.layer] += static_cast<int>(gradient.bytes);
    }
    EXPECT_EQ(exchanged["ip1"], (kFeatures * kHidden + kHidden) * 4);
    for (const StepReport& step : trainer.train_net().program().steps()) {
      if (step.layer == "ip2" || step.layer == "loss") order += step.op + " ";
    }
    return exchanged;
  };
  // Bytes are half of what a rank has of a tensor afterwards or before, as an all-reduce counts them.
  Train(2, Short(""), SplitRows(), {}, [&](int, Trainer& trainer) {
    std::string order;
    // Features [12,16] and outputs [6,10], each there and back.
    EXPECT_EQ(look(trainer, order)["ip2"], 2 * (12 * kHidden + 6 * kClasses) / 2 * 4) << order;
    EXPECT_LT(order.find("gather_rows"), order.find("exchange_columns")) << order;
    EXPECT_LT(order.find("exchange_rows"), order.find("scatter_rows")) << order;
  });
  Train(2, Short(""), Split(), {}, [&](int, Trainer& trainer) {
    std::string order;
    std::map<std::string, int> exchanged = look(trainer, order);
    // Features there and back; labels [12], of each rank three numbers of 12 rows, a gradient of each; the loss.
    EXPECT_EQ(exchanged["ip2"], 2 * 12 * kHidden / 2 * 4) << order;
    EXPECT_EQ(exchanged["loss"], (12 + 2 * 3 * 12 + 2) / 2 * 4 + 4) << order;
    EXPECT_EQ(order.find("exchange_"), std::string::npos) << order;
    EXPECT_LT(order.find("split_softmax_loss"), order.find("split_softmax_loss_backward")) << order;
  });
}

TEST_F(SplitColumnsTest, OneRankTrainsAsWithoutTheField) {
  EXPECT_EQ(Train(1, Short(""), Split("multinode { model_parts: 5 }"))[0].values,
            Train(1, Short(""), Split(""))[0].values);
}

TEST_F(SplitColumnsTest, ARangeOfLayersIsSplit) {
  const std::string range = "multinode { model_parallel { layer_from: \"ip1\" layer_to: \"loss\" } } ";
  const Result whole = Train(1, Short(""), Split("", range))[0];
  const std::vector<Result> results = Train(3, Short(""), Split("", range));
  ExpectSameBlobs(results[1], whole, 5e-5F, "range");
  EXPECT_EQ(results[0].values.at("ip1/0@part").size(), 6U * kFeatures);
  const std::vector<Result> first = Train(3, Short(""), Split("multinode { model_parts: 1 }", range));
  EXPECT_TRUE(first[0].values.contains("ip1/0@part"));
  EXPECT_FALSE(first[0].values.contains("ip2/0@part")) << "what a layer says itself counts";
}

TEST_F(SplitColumnsTest, SumsOverRanksAndNormsOverRanksGoOnBeside) {
  std::string text = TaskNet(12, false);
  text.insert(text.find("type: \"BatchNorm\"") + 17, " batch_norm_param { sync_ranks: 0 }");
  const std::string begin = "layer { name: \"ip2\" ";
  text.replace(text.find(begin), begin.size(), begin + "multinode { model_parts: 0 } ");
  const std::string solver = Short("type: \"LARS\" lars_eta: 0.05 deterministic: false");
  const Result whole = Train(1, solver, Nets(1, text))[0];
  ExpectSameBlobs(Train(2, solver, Nets(1, text))[1], whole, 1e-4F, "synced norms");
}

TEST_F(SplitColumnsTest, CheckpointsHaveWholeBlobsAndAnyNumberOfRanksGoesOn) {
  const std::string solver = Short("type: \"Adam\" base_lr: 0.01");
  const Result whole = Train(1, solver, Split())[0];
  RunFolder plain = NewRun("plain");
  Train(1, solver, Split(), Into(plain, 2));
  const std::optional<Checkpoint> expected = FindNewestValid(plain.checkpoints());
  ASSERT_TRUE(expected.has_value());
  for (const int ranks : {2, 3}) {
    RunFolder run = NewRun(StrCat("of", ranks));
    Train(ranks, solver, Split(), Into(run, 2));
    const std::optional<Checkpoint> found = FindNewestValid(run.checkpoints());
    ASSERT_TRUE(found.has_value());
    ASSERT_EQ(found->slots.size(), expected->slots.size());
    for (const auto& [slot, tensor] : expected->slots) {
      const auto it = std::ranges::find(found->slots, slot, [](const auto& one) { return one.first; });
      ASSERT_NE(it, found->slots.end()) << slot;
      ASSERT_EQ(it->second.shape, tensor.shape) << slot;
      for (size_t i = 0; i < tensor.values.size(); ++i) EXPECT_NEAR(it->second.values[i], tensor.values[i], 2e-5F);
    }
    for (const int others : {1, 2, 4}) {
      const std::vector<Result> resumed = Train(others, solver, Split(), [&](int, TrainerOptions& options) {
        options.resume = FindNewestValid(run.checkpoints());
      });
      for (const Result& result : resumed) ExpectSameBlobs(result, whole, 5e-5F, StrCat(ranks, " then ", others));
    }
  }
}

TEST_F(SplitColumnsTest, AResumedRunEndsBitIdentical) {
  const std::vector<Result> whole = Train(3, Short(""), Split());
  RunFolder run = NewRun();
  Train(3, Short(""), Split(), Into(run, 3));
  const std::vector<Result> resumed = Train(3, Short(""), Split(), [&](int, TrainerOptions& options) {
    options.resume = FindNewestValid(run.checkpoints());
  });
  for (size_t r = 0; r < 3; ++r) EXPECT_EQ(resumed[r].values, whole[r].values);
}

// The slots of all ranks are in Caffe's solver states, with sharded updates too, and any number of ranks reads them.
TEST_F(SplitColumnsTest, CaffesSolverStatesHaveWholeSlots) {
  const std::string task =
      "base_lr: 0.1 lr_policy: \"fixed\" momentum: 0.9 weight_decay: 0.001 max_iter: 6 random_seed: 3 ";
  SolverNets split = Split();
  SolverNets plain = Split("");
  split.tests.clear();
  plain.tests.clear();
  const Result whole = Train(1, task, plain)[0];
  const auto resume = [&](const std::string& prefix, int ranks, const std::string& fields, const SolverNets& nets) {
    return Train(ranks, task + fields, nets,
                 [&](int, TrainerOptions& options) { options.caffe_snapshot = prefix + "_iter_3.solverstate"; })[0];
  };
  const std::string sharded = "distributed { shard_updates: true }";
  for (const auto& [fields, nets, what] :
       {std::tuple(std::string(), split, std::string("split")), std::tuple(sharded, plain, std::string("sharded"))}) {
    const std::string prefix = At(what).string();
    Train(3, StrCat(task, fields, " snapshot: 3 snapshot_prefix: \"", prefix, "\""), nets);
    for (const int ranks : {1, 2}) ExpectSameBlobs(resume(prefix, ranks, fields, nets), whole, 5e-5F, what);
  }
}

// A gradient that overflows on the ranks that have it only is skipped by all.
TEST_F(SplitColumnsTest, AllRanksSkipAnOverflowTogether) {
  for (const char* scale : {"loss_scale: 3e38", "loss_scale: 64"}) {
    const Result whole = Train(3, Short(scale), Split(""))[0];
    for (const Result& result : Train(3, Short(scale), Split())) {
      EXPECT_EQ(result.state.skipped_updates, whole.state.skipped_updates) << scale;
      ExpectSameBlobs(result, whole, 5e-5F, scale);
    }
  }
}

TEST_F(SplitColumnsTest, WhatCannotBeSplitIsNamed) {
  const auto error = [](const std::string& fields, int ranks = 2) {
    return ErrorOfTraining(Short(""), Split(fields), ranks);
  };
  EXPECT_THAT(error("multinode { model_parts: 3 }"), testing::HasSubstr("3 parts, and there are 2 ranks"));
  EXPECT_THAT(error("multinode { model_parts: 3 }"), testing::HasSubstr("0 or 2"));
  EXPECT_THAT(error("multinode { model_parts: 2 num_nodes: 1 }"), testing::HasSubstr("parts on 1 nodes"));
  SolverNets loss = Split("");
  for (LayerParameter& layer : *loss.train.mutable_layer()) {
    if (layer.name() == "loss") layer.mutable_multinode()->set_model_parts(0);
  }
  EXPECT_THAT(ErrorOfTraining(Short(""), loss), testing::HasSubstr("those of SoftmaxWithLoss not"));
  SolverNets transposed = Split();
  for (LayerParameter& layer : *transposed.train.mutable_layer()) {
    if (layer.name() == "ip2") layer.mutable_inner_product_param()->set_transpose(true);
  }
  EXPECT_THAT(ErrorOfTraining(Short(""), transposed), testing::HasSubstr("no transpose"));
  SolverNets few = Split();
  for (LayerParameter& layer : *few.train.mutable_layer()) {
    if (layer.name() == "ip2") layer.mutable_inner_product_param()->set_num_output(2);
  }
  EXPECT_THAT(ErrorOfTraining(Short(""), few, 3), testing::HasSubstr("2 outputs are fewer than 3 ranks"));
  EXPECT_THAT(ErrorOfTraining(Short(""), Split("multinode { model_parts: 0 }",
                                               "multinode { model_parallel { layer_from: \"ip3\" } } ")),
              testing::HasSubstr("did you mean"));
}

TEST_F(SplitColumnsTest, WhatDoesNotGoWithItIsNamed) {
  for (const char* fields :
       {"iter_size: 2", "ema_decay: 0.9", "distributed { shard_updates: true }", "distributed { strategy: \"local\" }",
        "distributed { strategy: \"delayed\" delay: 1 }", "distributed { compression { method: \"sign\" } }"}) {
    EXPECT_THAT(ErrorOfTraining(Short(fields), Split()), testing::HasSubstr("multinode")) << fields;
  }
  SolverNets stages = Split("pipeline_stage: 1 multinode { model_parts: 0 }");
  EXPECT_THAT(ErrorOfTraining(Short(""), stages), testing::HasSubstr("cannot be split in a pipeline"));
  EXPECT_THAT(ErrorOf([&] {
                Train(2, Short(""), Split(), [](int, TrainerOptions& options) {
                  options.compile.device = Device{DeviceKind::kCuda, Device::kRehearsed};
                });
              }).text,
              testing::HasSubstr("split layers (multinode)"));
}

}  // namespace
}  // namespace moka
