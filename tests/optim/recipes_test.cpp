// The large-batch recipes of models/: each is read as `moka train` reads it, its nets are built as one of 256 ranks
// trains them, and its rates are those of the schedule it is taken from. And what they lean on: residual branches that
// start at zero, and roles that tell a normalisation's parameters from weights.
#include <algorithm>
#include <map>
#include <set>

#include "layers/net/net.h"
#include "optim/optimizers/lr_policy.h"
#include "optim/optimizers/update.h"
#include "optim/ranks/batch_policy.h"
#include "optim_fixture.h"

namespace moka {
namespace {

constexpr double kImages = 1281167;

struct Recipe {
  std::string file;
  int64_t batch;
  int64_t parameters;
  double epochs;  // of max_iter, to the nearest
  std::vector<std::pair<int64_t, double>> rates;
};

// low + (base - low) * (1 - i/n)^2
double Square(double base, double low, double i, double n) { return low + (base - low) * (1 - i / n) * (1 - i / n); }

// NVIDIA's and Intel's polynomial counts from 0 and is cut into by the ramp; MLPerf's counts from the warm-up's end.
std::vector<Recipe> Recipes() {
  constexpr int64_t kAlex = 60965224;
  constexpr int64_t kResNet = 25557032;
  return {
      {"alexnet_bn/solver_8k.prototxt",
       8192,
       kAlex,
       100,
       {{0, 1}, {300, 1 + 9 * 0.25}, {600, Square(10, 0, 600, 15600)}, {7800, 2.5}, {15600, 0}}},
      {"alexnet_bn/solver_16k.prototxt",
       16384,
       kAlex,
       100,
       {{0, 1}, {200, 1 + 23 * 0.25}, {400, Square(24, 0, 400, 7800)}, {3900, 6}, {7800, 0}}},
      {"alexnet_bn/solver_32k.prototxt",
       32768,
       kAlex,
       102,
       {{0, 1}, {200, 1 + 31 * 0.25}, {400, Square(32, 0, 400, 4000)}, {2000, 8}, {4000, 0}}},
      {"alexnet_bn/solver_32k_intel.prototxt",
       32768,
       kAlex,
       102,
       {{0, 1}, {200, 16.5}, {400, Square(32, 0, 400, 4000)}, {2000, 8}, {4000, 0}}},
      {"alexnet_bn/solver_64k.prototxt",
       65536,
       kAlex,
       95,
       {{0, 1}, {98, 1 + 44.25 * 0.25}, {196, Square(45.25, 0, 196, 1858)}, {929, 45.25 / 4}, {1858, 0}}},
      {"resnet50/solver_8k.prototxt",
       8192,
       kResNet,
       44,
       {{0, 0}, {157, 17.0 / 5}, {785, 17}, {3785, Square(17, 1e-4, 3000, 6095)}, {6880, 1e-4}}},
      {"resnet50/solver_16k.prototxt",
       16384,
       kResNet,
       48,
       {{0, 0}, {79, 5}, {395, 25}, {2395, Square(25, 1e-4, 2000, 3397)}, {3792, 1e-4}}},
      {"resnet50/solver_32k.prototxt",
       32768,
       kResNet,
       61,
       {{0, 0}, {320, 13.75}, {640, 27.5}, {1640, Square(27.5, 1e-4, 1000, 1731)}, {2371, 1e-4}}},
      {"resnet50/solver_64k.prototxt",
       65536,
       kResNet,
       90,
       {{0, 0}, {310, 24.699 / 2}, {620, 24.699}, {1120, Square(24.699, 1e-4, 500, 1133)}, {1753, 1e-4}}},
  };
}

BuiltNet Build(const NetParameter& net, int64_t side) {
  NetOptions options;
  options.state = net.state();
  options.data_types = [side](const LayerParameter& layer) {
    const int64_t batch = layer.data_param().batch_size();
    return std::vector<TensorType>{{DType::kFloat32, {batch, 3, side, side}, {}}, {DType::kFloat32, {batch}, {}}};
  };
  return BuildNet(net, options);
}

TEST(RecipesTest, AreReadAndBuiltAsOneOfManyRanks) {
  for (const Recipe& recipe : Recipes()) {
    SCOPED_TRACE(recipe.file);
    const SolverParameter solver = ReadSolver(StrCat(MOKA_SOURCE_DIR, "/models/", recipe.file));
    CheckLrPolicy(solver);
    CheckOptimizer(solver);
    const SolverNets nets = ReadSolverNets(solver);
    ASSERT_EQ(nets.tests.size(), 1U);
    const BuiltNet train = Build(NetOfRank(nets.train, 256), 227);
    const BuiltNet test = Build(nets.tests[0], 227);
    ASSERT_EQ(train.data.size(), 1U);
    const int64_t of_rank = train.data[0].param.data_param().batch_size();
    EXPECT_EQ(of_rank, 32);
    EXPECT_EQ(of_rank * 256 * solver.iter_size(), recipe.batch);
    int64_t count = 0;
    for (const NetBlob& blob : TrainedBlobs(train.blobs)) count += blob.shape.Count();
    EXPECT_EQ(count, recipe.parameters);
    EXPECT_NE(train.loss, kNoId);
    std::set<std::string> trained;
    for (const NetBlob& blob : train.blobs) trained.insert(blob.name);
    for (const NetBlob& blob : test.blobs) EXPECT_TRUE(trained.contains(blob.name)) << blob.name;
    const double epochs = static_cast<double>(solver.max_iter()) * static_cast<double>(recipe.batch) / kImages;
    EXPECT_NEAR(epochs, recipe.epochs, 0.5);
  }
}

TEST(RecipesTest, HaveTheRatesOfTheirSources) {
  for (const Recipe& recipe : Recipes()) {
    SCOPED_TRACE(recipe.file);
    const SolverParameter solver = ReadSolver(StrCat(MOKA_SOURCE_DIR, "/models/", recipe.file));
    for (const auto& [iteration, rate] : recipe.rates) {
      EXPECT_NEAR(LearningRate(solver, iteration), rate, 1e-6 * rate + 1e-12) << "iteration " << iteration;
    }
  }
}

TEST(RecipesTest, SmoothLabelsAndNormalizePool5WhereTheySaySo) {
  const auto nets = [](const std::string& file) {
    return ReadSolverNets(ReadSolver(StrCat(MOKA_SOURCE_DIR, "/models/", file)));
  };
  const auto smoothing = [](const NetParameter& net) {
    std::vector<float> found;
    for (const LayerParameter& layer : net.layer()) {
      if (layer.type() == "SoftmaxWithLoss") found.push_back(layer.loss_param().label_smoothing());
    }
    return found;
  };
  EXPECT_EQ(smoothing(nets("resnet50/solver_64k.prototxt").train), std::vector<float>{0.1F});
  EXPECT_EQ(smoothing(nets("resnet50/solver_64k.prototxt").tests[0]), std::vector<float>{0});
  EXPECT_EQ(smoothing(nets("resnet50/solver.prototxt").train), std::vector<float>{0});
  const auto norms = [](const NetParameter& net) {
    return std::ranges::count(net.layer(), std::string("BatchNorm"), &LayerParameter::type);
  };
  for (const auto& [file, count] :
       {std::pair("alexnet_bn/solver_32k.prototxt", 4), std::pair("alexnet_bn/solver_64k.prototxt", 5)}) {
    EXPECT_EQ(norms(nets(file).train), count) << file;
    EXPECT_EQ(norms(nets(file).tests[0]), count) << file;
  }
}

// The last scale before each sum of a branch and its shortcut is 0, every other is not.
TEST(RecipesTest, ResidualBranchesStartAtZero) {
  for (const auto& [folder, blocks] :
       {std::pair("resnet50", 16), std::pair("resnet101", 33), std::pair("resnet152", 50)}) {
    SCOPED_TRACE(folder);
    const SolverNets nets = ReadSolverNets(ReadSolver(StrCat(MOKA_SOURCE_DIR, "/models/", folder, "/solver.prototxt")));
    std::map<std::string, double> scales;  // top -> what its last scale starts at
    std::set<std::string> last_of_branches;
    for (const LayerParameter& layer : nets.train.layer()) {
      if (layer.type() == "Scale") scales[layer.top(0)] = double{layer.scale_param().filler().value()};
      if (layer.type() == "Eltwise") last_of_branches.insert(layer.bottom(1));
    }
    EXPECT_EQ(last_of_branches.size(), static_cast<size_t>(blocks));
    for (const auto& [top, value] : scales) EXPECT_EQ(value, last_of_branches.contains(top) ? 0 : 1) << top;
  }
}

// Every normalisation's scale and shift, and every bias, is told from the weights, fused forms too.
TEST(RecipesTest, NormalizationsAndBiasesAreNoWeights) {
  const NetParameter net = NetFromText(R"(
    layer { name: "in" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 4 dim: 4 } } }
    layer { name: "conv" type: "Convolution" bottom: "x" top: "c" convolution_param { num_output: 3 kernel_size: 1 } }
    layer { name: "bn" type: "BatchNorm" bottom: "c" top: "c" }
    layer { name: "scale" type: "Scale" bottom: "c" top: "c" scale_param { bias_term: true } }
    layer { name: "fused" type: "BatchNorm" bottom: "c" top: "f" batch_norm_param { scale_bias: true } }
    layer { name: "segnet" type: "BN" bottom: "f" top: "s" }
    layer { name: "norm" type: "Normalize" bottom: "s" top: "n" }
    layer { name: "bias" type: "Bias" bottom: "n" top: "b" }
    layer { name: "ip" type: "InnerProduct" bottom: "b" top: "y" inner_product_param { num_output: 2 } })",
                                       "net.prototxt");
  NetOptions options;
  options.state.set_phase(TRAIN);
  std::map<std::string, std::string> spared;
  std::set<std::string> weights;
  const BuiltNet built = BuildNet(net, options);
  for (const NetBlob& blob : TrainedBlobs(built.blobs)) {
    if (blob.role == ParameterRole::kWeight) {
      weights.insert(blob.name);
    } else {
      spared[blob.name] = blob.role == ParameterRole::kBias ? "bias" : "norm";
    }
  }
  EXPECT_EQ(weights, (std::set<std::string>{"conv/0", "ip/0"}));
  EXPECT_EQ(spared, (std::map<std::string, std::string>{{"bias/0", "bias"},
                                                        {"conv/1", "bias"},
                                                        {"fused/3", "norm"},
                                                        {"fused/4", "norm"},
                                                        {"ip/1", "bias"},
                                                        {"norm/0", "norm"},
                                                        {"scale/0", "norm"},
                                                        {"scale/1", "norm"},
                                                        {"segnet/0", "norm"},
                                                        {"segnet/1", "norm"}}));
}

}  // namespace
}  // namespace moka
