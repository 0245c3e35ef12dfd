// Several ranks train by every loss as one does on the whole batch: whatever a sum is divided by, whatever labels are
// ignored, whichever layer a loss weight stands on. What cannot be equal says so, and a new loss layer is found here.
#include <cmath>
#include <ostream>
#include <set>

#include "comm/transport/region_transport.h"
#include "core/log.h"
#include "graph/op.h"
#include "layers/net/layer.h"
#include "layers/net/manual_page.h"
#include "layers/net/net.h"
#include "proto/weights/hdf5_file.h"
#include "tests/comm/world.h"
#include "trainer_fixture.h"

namespace moka {
namespace {

constexpr int kRows = 24;
constexpr int kBatch = 12;
constexpr int kClasses = 3;

struct LossCase {
  std::string name;
  std::string layers;  // on scores and other [N,3] and the data
  std::string solver = {};
};

void PrintTo(const LossCase& loss, std::ostream* out) { *out << loss.name; }

// label: classes; ragged: classes, of which many are 255 on some ranks and none on others; target, near: vectors;
// holes: targets with -1; gaps: with 9 and NaN in the places of `unknown`; same: 0 or 1; weight: of a row; part: 1, 0,
// -1, -2.
void WriteTask(const std::filesystem::path& folder) {
  Hdf5Writer writer(folder / "task.h5");
  RandomStream random(7, 0);
  const auto add = [&](const std::string& name, int64_t columns, const std::function<double(int, int)>& value) {
    std::vector<float> values;
    for (int row = 0; row < kRows; ++row) {
      for (int column = 0; column < columns; ++column) values.push_back(static_cast<float>(value(row, column)));
    }
    writer.AddFloats(name, columns == 1 ? Shape{kRows} : Shape{kRows, columns}, values);
  };
  add("x", 6, [&](int, int) { return random.Normal(0, 1); });
  add("label", 1, [](int row, int) { return row * 7 % kClasses; });
  // Even rows, which are the first of two ranks', lose most of their labels.
  add("ragged", 1, [](int row, int) { return row % 2 == 0 && row % 8 != 0 ? 255 : row * 5 % kClasses; });
  add("target", 3, [&](int, int) { return random.Normal(0, 1); });
  add("holes", 3, [](int row, int column) { return row % 2 == 0 && column > 0 ? -1 : (row + column) % 2; });
  add("gaps", 3, [](int row, int column) { return row % 3 == 0 && column < 2 ? 9 : 0.25 * column; });
  add("unknown", 3, [](int row, int column) { return row % 3 == 0 && column < 2 ? std::nan("") : 0.25 * column; });
  add("same", 1, [](int row, int) { return row % 5 < 2 ? 1 : 0; });
  add("weight", 1, [](int row, int) { return 0.25 * (row % 4) + (row % 2); });
  add("part", 1, [](int row, int) { return row % 2 == 0 ? (row % 4 == 0 ? -2 : 0) : 1; });
  writer.Commit();
  WriteFileAtomically(folder / "list.txt", (folder / "task.h5").string() + "\n");
}

std::string Layer(const std::string& type, const std::string& bottoms, const std::string& more) {
  std::string text = StrCat("layer { name: \"loss\" type: \"", type, "\"");
  for (const std::string& bottom : Split(bottoms, ' ')) text += StrCat(" bottom: \"", bottom, "\"");
  return StrCat(text, " top: \"loss\" ", more, " }");
}

std::vector<LossCase> LossCases() {
  std::vector<LossCase> cases;
  const auto add = [&](const std::string& name, const std::string& type, const std::string& bottoms,
                       const std::string& more = {}) {
    cases.push_back({StrCat(type, name), Layer(type, bottoms, more)});
  };
  const std::vector<std::pair<std::string, std::string>> modes = {
      {"", ""},
      {"Valid", "normalization: VALID"},
      {"Full", "normalization: FULL"},
      {"Batch", "normalization: BATCH_SIZE"},
      {"None", "normalization: NONE"},
      {"Fixed", "normalization: PRE_FIXED pre_fixed_normalizer: 7"},
  };
  for (const auto& [name, mode] : modes) {
    for (const char* type :
         {"SoftmaxWithLoss", "SoftmaxWithLossOHEM", "WeightedSoftmaxWithLoss", "focalSoftmaxWithLoss"}) {
      add(name, type, "scores label", StrCat("loss_param { ", mode, " }"));
      add(name + "Ignoring", type, "scores ragged", StrCat("loss_param { ignore_label: 255 ", mode, " }"));
    }
    add(name + "Weighted", "SoftmaxWithLoss", "scores ragged weight",
        StrCat("loss_param { ignore_label: 255 ", mode, " }"));
    add(name, "SigmoidCrossEntropyLoss", "scores holes", StrCat("loss_param { ", mode, " }"));
    add(name + "Ignoring", "SigmoidCrossEntropyLoss", "scores holes",
        StrCat("loss_param { ignore_label: -1 ", mode, " }"));
    add(name, "InfogainLoss", "scores label H", StrCat("loss_param { ", mode, " }"));
    add(name + "Ignoring", "InfogainLoss", "scores ragged H", StrCat("loss_param { ignore_label: 255 ", mode, " }"));
  }
  for (const bool valid : {false, true}) {
    const std::string name = valid ? "OldValid" : "OldBatch";
    const std::string mode = StrCat("normalize: ", valid ? "true" : "false");
    for (const char* type : {"SoftmaxWithLoss", "WeightedSoftmaxWithLoss"})
      add(name, type, "scores ragged", StrCat("loss_param { ignore_label: 255 ", mode, " }"));
    add(name, "SigmoidCrossEntropyLoss", "scores holes", StrCat("loss_param { ignore_label: -1 ", mode, " }"));
  }
  add("OneClass", "WeightedSoftmaxWithLoss", "scores ragged",
      "loss_param { ignore_label: 255 } softmax_param { pos_cid: 1 pos_mult: 3 }");
  add("Classes", "SoftmaxWithLoss", "scores label",
      "loss_param { weight_by_label_freqs: true class_weighting: 1 class_weighting: 2 class_weighting: 0.5 }");
  add("Smoothed", "SoftmaxWithLoss", "scores label", "loss_param { label_smoothing: 0.1 }");
  add("Twice", "SoftmaxWithLoss", "scores ragged", "loss_weight: 2 loss_param { ignore_label: 255 }");
  for (const char* type : {"EuclideanLoss", "L1Loss", "SmoothL1Loss", "AbsLoss", "ManhattanLoss",
                           "CosineSimilarityLoss", "MultiSigmoidCrossEntropyLoss"}) {
    add("", type, "scores target");
  }
  add("", "SigmoidCrossEntropyBalanceLoss", "scores holes");
  add("Missing", "EuclideanLoss6", "scores gaps target");
  add("Unknown", "L1Loss", "scores unknown", "l1_loss_param { normalize_by_num_entries: true }");
  add("Squares", "HingeLoss", "scores label", "hinge_loss_param { norm: L2 }");
  add("", "HingeLoss", "scores label");
  add("", "MultinomialLogisticLoss", "probability label");
  add("", "ContrastiveLoss", "scores other same");
  add("", "MineContrastiveLoss", "scores other same");
  add("", "TripletLoss", "scores other target");
  add("", "GanLoss", "scores");
  add("", "OftenMtcnnEuclideanLoss", "scores target part");
  add("", "K1_EuclideanLoss", "scores other");
  for (const char* operation : {"SUM", "ASUM", "SUMSQ", "MEAN"}) {
    for (const int axis : {0, 1}) {
      add(StrCat(operation, axis), "Reduction", "scores",
          StrCat("loss_weight: 0.1 reduction_param { operation: ", operation, " axis: ", axis, " coeff: 0.5 }"));
    }
  }
  add("OfEachSample", "AbsVal", "scores", "loss_weight: 0.05");
  add("OfEachSample", "Power", "scores", "loss_weight: 0.1 power_param { power: 2 }");
  cases.push_back({"TwoLosses", Layer("SoftmaxWithLoss", "scores ragged", "loss_param { ignore_label: 255 }") +
                                    "layer { name: \"more\" type: \"EuclideanLoss\" bottom: \"other\" bottom: "
                                    "\"target\" top: \"more\" loss_weight: 0.3 }"});
  cases.push_back({"SumThroughPower",
                   "layer { name: \"sum\" type: \"Reduction\" bottom: \"scores\" top: \"sum\" "
                   "reduction_param { operation: SUMSQ } }" +
                       Layer("Power", "sum", "loss_weight: 1 power_param { scale: 0.1 }")});
  cases.push_back({"SeveralBatches", Layer("SoftmaxWithLoss", "scores label", ""), "iter_size: 2"});
  return cases;
}

class RankLossesTest : public TrainerTest, public testing::WithParamInterface<LossCase> {
 protected:
  struct Result {
    std::map<std::string, std::vector<float>> values;
    std::vector<double> losses;
    std::vector<OutputValue> outputs;  // of the last batch
  };
  SolverNets NetsOf(const LossCase& loss) const {
    std::string tops;
    for (const char* top : {"x", "label", "ragged", "target", "holes", "gaps", "unknown", "same", "weight", "part"}) {
      tops += StrCat(" top: \"", top, "\"");
    }
    const std::string net = StrCat(
        "layer { name: \"data\" type: \"HDF5Data\"", tops, " hdf5_data_param { source: \"", At("list.txt").string(),
        "\" batch_size: ", kBatch, " } }\n",
        "layer { name: \"H\" type: \"DummyData\" top: \"H\" dummy_data_param { shape { dim: 1 dim: 1 dim: 3 dim: 3 } "
        "data_filler { type: \"constant\" value: 0.5 } } }\n",
        "layer { name: \"ip\" type: \"InnerProduct\" bottom: \"x\" top: \"scores\" inner_product_param { num_output: 3 "
        "weight_filler { type: \"xavier\" } } }\n",
        "layer { name: \"ip2\" type: \"InnerProduct\" bottom: \"x\" top: \"other\" inner_product_param { num_output: 3 "
        "weight_filler { type: \"xavier\" } } }\n",
        "layer { name: \"p\" type: \"Softmax\" bottom: \"scores\" top: \"probability\" }\n", loss.layers);
    SolverNets nets;
    nets.train = NetFromText(net, "net.prototxt");
    nets.train.mutable_state()->set_phase(TRAIN);
    return nets;
  }
  static SolverParameter SolverOf(const LossCase& loss) {
    return Merged(StrCat(
        "base_lr: 0.05 lr_policy: \"fixed\" momentum: 0.9 max_iter: 4 random_seed: 1 average_loss: 1 |", loss.solver));
  }
  static Result Run(const SolverParameter& solver, const SolverNets& nets, Communicator* world) {
    TrainerOptions options;
    options.take_signals = false;
    options.world = world;
    Result result;
    class Losses : public TrainObserver {
     public:
      explicit Losses(std::vector<double>& losses) : losses_(losses) {}
      void OnIteration(const TrainProgress& progress) override { losses_.push_back(progress.loss); }

     private:
      std::vector<double>& losses_;
    } observer(result.losses);
    options.observer = &observer;
    Trainer trainer(solver, nets, std::move(options));
    trainer.Run();
    result.values = Everything(trainer);
    result.outputs = trainer.train_net().Outputs();
    return result;
  }
  static std::vector<Result> RunAll(int ranks, const SolverParameter& solver, const SolverNets& nets) {
    std::vector<std::unique_ptr<Transport>> transports = MakeThreadWorld(ranks);
    std::vector<Result> results(static_cast<size_t>(ranks));
    RunRanks(transports, [&](Transport& transport) {
      const auto rank = static_cast<size_t>(transport.rank());
      Communicator world(std::move(transports[rank]), {}, std::chrono::seconds(30));
      try {
        results[rank] = Run(solver, nets, &world);
      } catch (const Error& error) {
        world.Fail(error.what());
        throw;
      }
    });
    return results;
  }
};

TEST_P(RankLossesTest, SeveralRanksTrainAsOneDoes) {
  WriteTask(At(""));
  const SolverNets nets = NetsOf(GetParam());
  const SolverParameter solver = SolverOf(GetParam());
  const Result alone = Run(solver, nets, nullptr);
  ASSERT_EQ(alone.losses.size(), 4U);
  EXPECT_NE(alone.losses.front(), alone.losses.back()) << "it learns";
  for (const int ranks : {2, 3}) {
    const std::vector<Result> results = RunAll(ranks, solver, nets);
    for (size_t i = 0; i < alone.losses.size(); ++i) {
      EXPECT_NEAR(results[0].losses[i], alone.losses[i], 1e-5 * std::max(1.0, std::abs(alone.losses[i])))
          << ranks << " ranks, iteration " << i;
    }
    for (const auto& [name, values] : alone.values) {
      const std::vector<float>& others = results[0].values.at(name);
      ASSERT_EQ(others.size(), values.size());
      for (size_t i = 0; i < values.size(); ++i) {
        ASSERT_NEAR(others[i], values[i], 1e-5F * std::max(1.0F, std::abs(values[i])))
            << ranks << " ranks, " << name << " " << i;
      }
      EXPECT_EQ(results.back().values.at(name), others) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Losses, RankLossesTest, testing::ValuesIn(LossCases()),
                         [](const testing::TestParamInfo<LossCase>& each) { return each.param.name; });

class RankAccuraciesTest : public RankLossesTest {};

// The log has the mean of what the ranks' train nets put out.
TEST_F(RankAccuraciesTest, SharesOfLabelsAreThoseOfTheWholeBatch) {
  WriteTask(At(""));
  const LossCase loss{"Accuracies",
                      Layer("SoftmaxWithLoss", "scores ragged", "loss_param { ignore_label: 255 }") +
                          "layer { name: \"a\" type: \"Accuracy\" bottom: \"scores\" bottom: \"ragged\" top: \"share\" "
                          "top: \"share_of_class\" accuracy_param { ignore_label: 255 } }"
                          "layer { name: \"b\" type: \"Accuracy\" bottom: \"scores\" bottom: \"label\" top: "
                          "\"share_all\" top: \"share_all_of_class\" }"};
  const SolverNets nets = NetsOf(loss);
  const SolverParameter solver = SolverOf(loss);
  const Result alone = Run(solver, nets, nullptr);
  for (const int ranks : {2, 3}) {
    const std::vector<Result> results = RunAll(ranks, solver, nets);
    std::map<std::string, std::vector<double>> means;
    for (const Result& result : results) {
      std::map<std::string, size_t> next;
      for (const OutputValue& output : result.outputs) {
        if (!output.name.starts_with("share")) continue;
        std::vector<double>& values = means[output.name];
        const size_t i = next[output.name]++;
        values.resize(std::max(values.size(), i + 1));
        values[i] += output.value / ranks;
      }
    }
    ASSERT_EQ(means.size(), 4U);
    std::map<std::string, size_t> next;
    for (const OutputValue& output : alone.outputs) {
      if (!output.name.starts_with("share")) continue;
      EXPECT_NEAR(means.at(output.name).at(next[output.name]++), output.value, 1e-6) << ranks << " " << output.name;
    }
    EXPECT_EQ(next.size(), 4U);
  }
}

// Losses of each item alone, divided by the number of items or by another count whose parts on the ranks give the same
// mean: these need data that the sweep above does not have.
const std::set<std::string>& MeansOfItems() {
  static const std::set<std::string> types = {
      "CenterGridLoss",  // with BATCH_SIZE; otherwise it says so
      "CTCLoss",
      "CtcLoss",
      "WarpCTCLoss",
      "DiceCoefLoss",
      "KLDivLoss",
      "NSSLoss",
      "VoxelSoftmaxLoss",
      "RegionLoss",
      "Yolov3",
      "YoloSeg",
      "GeneralContrastiveLoss",
      "GeneralTripletLoss",
      "SmoothL1LossOHEM",
      "InterClass",
  };
  return types;
}

// Whether a net of the page's example has a loss that its layer declares.
std::optional<BuiltNet> BuiltExample(const LayerDef& layer, int64_t ranks) {
  NetParameter net = NetFromText(ManualPageOf(layer.type).example, "example");
  NetOptions options;
  options.state.set_phase(TRAIN);
  options.feeds_python_data = true;
  options.ranks = ranks;
  options.asks_ranks = ranks > 1;
  try {
    return BuildNet(net, options);
  } catch (const Error&) {
    return std::nullopt;  // its data are files, which the example does not bring
  }
}

TEST(RankLossesCatalogTest, EveryLossLayerIsSweptCountedOrTold) {
  std::set<std::string> swept;
  for (const LossCase& loss : LossCases()) {
    const std::string mark = "type: \"";
    for (size_t at = loss.layers.find(mark); at != std::string::npos; at = loss.layers.find(mark, at + 1)) {
      const size_t begin = at + mark.size();
      swept.insert(loss.layers.substr(begin, loss.layers.find('"', begin) - begin));
    }
  }
  int losses = 0;
  for (const LayerDef& layer : AllLayers()) {
    const std::optional<BuiltNet> alone = BuiltExample(layer, 1);
    if (!alone || alone->loss == kNoId) continue;
    const bool is_declared = std::ranges::any_of(alone->param.layer(), [&](const LayerParameter& each) {
      return each.type() == layer.type && each.loss_weight_size() == 0;
    });
    if (!is_declared) continue;
    ++losses;
    EXPECT_TRUE(alone->unequal.empty()) << layer.type;
    const std::optional<BuiltNet> of_two = BuiltExample(layer, 2);
    ASSERT_TRUE(of_two) << layer.type;
    const std::vector<NodeId> nodes = of_two->graph.TopologicalOrder();
    const bool counts =
        std::ranges::any_of(nodes, [&](NodeId id) { return of_two->graph.node(id).op->name == "mean_over_ranks"; });
    EXPECT_TRUE(counts || !of_two->unequal.empty() || swept.contains(layer.type) || MeansOfItems().contains(layer.type))
        << layer.type << ": several ranks must compute its loss as one does; sweep it above, or NoteUnequal";
  }
  EXPECT_GE(losses, 30);
}

TEST_F(TrainerTest, CountsThatRanksCannotAskForAreTold) {
  NetOptions options;
  options.ranks = 2;
  options.state.set_phase(TRAIN);
  const NetParameter net = NetFromText(
      R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 3 } } }
         layer { name: "l" type: "Input" top: "l" input_param { shape { dim: 4 } } }
         layer { name: "valid" type: "SoftmaxWithLoss" bottom: "x" bottom: "l" top: "loss" loss_param { ignore_label: 9 } })",
      "net");
  const BuiltNet built = BuildNet(net, options);
  ASSERT_EQ(built.unequal.size(), 1U);
  EXPECT_EQ(built.unequal[0].first, "valid");
  EXPECT_NE(built.unequal[0].second.find("iter_size"), std::string::npos);
}

}  // namespace
}  // namespace moka
