// The zoo's nets build in both phases and deployed, with the numbers of parameters their papers and READMEs give.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "core/text.h"
#include "layers/net/net.h"
#include "proto/nets/net_file.h"

namespace moka {
namespace {

struct ZooNet {
  std::string folder;
  int64_t size;  // image side
  int64_t channels;
  int64_t trained;  // parameters of train_val.prototxt, statistics left out
  int64_t deployed;
  int64_t tested = 0;  // where inference leaves out some of what is tested
};

const ZooNet kZoo[] = {
    {"alexnet", 227, 3, 60965224, 60965224},     {"alexnet_bn", 227, 3, 60966600, 60966600},
    {"cifar10_full", 32, 3, 89578, 89578},       {"cifar10_quick", 32, 3, 145578, 145578},
    {"cifar10_resnet20", 32, 3, 269722, 269722}, {"cifar10_resnet9", 32, 3, 6573120, 6573120},
    {"googlenet", 224, 3, 13378280, 6998552},    {"lenet", 28, 1, 431080, 431080},
    {"resnet101", 224, 3, 44549160, 44549160},   {"resnet152", 224, 3, 60192808, 60192808},
    {"resnet50", 224, 3, 25557032, 25557032},    {"vgg16", 224, 3, 138357544, 138357544},
};

// Nets whose inference is derived from train_val.prototxt; `deployed` is what the test net has in stage "deploy".
const ZooNet kDerived[] = {
    {"cifar10_fast", 32, 3, 285792, 285792},
    {"cifar10_resnet56", 32, 3, 853018, 853018},
    {"clothing_resnet", 96, 3, 1230058, 1230058},
    {"densenet121", 224, 3, 7978856, 7978856},
    {"densenet169", 224, 3, 14149480, 14149480},
    {"densenet201", 224, 3, 20013928, 20013928},
    {"googlenet_bn", 224, 3, 13385816, 7005832},
    {"mnist_fast", 28, 1, 57744, 57744},
    {"mnist_autoencoder", 28, 1, 2837314, 1418280, 2837314},
    {"mnist_siamese", 28, 1, 431102, 431102},
    {"mobilenet_v1", 224, 3, 4231976, 4231976},
    {"mobilenet_v2", 224, 3, 3504872, 3504872},
    {"resnet101_v15", 224, 3, 44549160, 44549160},
    {"resnet152_v15", 224, 3, 60192808, 60192808},
    {"resnet18", 224, 3, 11689512, 11689512},
    {"resnet34", 224, 3, 21797672, 21797672},
    {"resnet50_v15", 224, 3, 25557032, 25557032},
    {"resnext50", 224, 3, 25028904, 25028904},
    {"squeezenet10", 227, 3, 1248424, 1248424},
    {"squeezenet11", 227, 3, 1235496, 1235496},
    {"vgg19", 224, 3, 143667240, 143667240},
    {"wide_resnet50", 224, 3, 68883240, 68883240},
};

BuiltNet Build(const ZooNet& zoo, const std::string& file, Phase phase, const std::string& stage = {}) {
  NetOptions options;
  options.state.set_phase(phase);
  if (!stage.empty()) options.state.add_stage(stage);
  options.data_types = [&](const LayerParameter& layer) {
    const int64_t batch = layer.data_param().batch_size();
    std::vector<TensorType> types{{DType::kFloat32, {batch, zoo.channels, zoo.size, zoo.size}, {}},
                                  {DType::kFloat32, {batch}, {}}};
    types.resize(static_cast<size_t>(layer.top_size()));
    return types;
  };
  return BuildNet(ReadNet(StrCat(MOKA_SOURCE_DIR, "/models/", zoo.folder, "/", file)), options);
}

int64_t Trained(const BuiltNet& net) {
  int64_t count = 0;
  for (const NetBlob& blob : net.blobs) {
    if (!blob.shared && blob.role != ParameterRole::kStatistic) count += blob.shape.Count();
  }
  return count;
}

TEST(ZooTest, EveryNetBuildsWithItsParameters) {
  for (const ZooNet& zoo : kZoo) {
    SCOPED_TRACE(zoo.folder);
    const BuiltNet train = Build(zoo, "train_val.prototxt", TRAIN);
    const BuiltNet test = Build(zoo, "train_val.prototxt", TEST);
    const BuiltNet deploy = Build(zoo, "deploy.prototxt", TEST);
    Verify(train.graph, "BuildNet");
    Verify(test.graph, "BuildNet");
    Verify(deploy.graph, "BuildNet");
    EXPECT_EQ(Trained(train), zoo.trained);
    EXPECT_EQ(Trained(deploy), zoo.deployed);
    EXPECT_NE(train.loss, kNoId);
    ASSERT_EQ(deploy.outputs.size(), 1U);
    const Shape& y = deploy.graph.shape(deploy.outputs[0].value);
    EXPECT_EQ(y[1], zoo.size > 100 ? 1000 : 10);
  }
}

TEST(ZooTest, NetsWithoutDeployFilesBuildWithTheirParameters) {
  for (const ZooNet& zoo : kDerived) {
    SCOPED_TRACE(zoo.folder);
    const BuiltNet train = Build(zoo, "train_val.prototxt", TRAIN);
    const BuiltNet test = Build(zoo, "train_val.prototxt", TEST);
    const BuiltNet deploy = Build(zoo, "train_val.prototxt", TEST, "deploy");
    for (const BuiltNet* net : {&train, &test, &deploy}) Verify(net->graph, "BuildNet");
    EXPECT_EQ(Trained(train), zoo.trained);
    EXPECT_EQ(Trained(test), zoo.tested > 0 ? zoo.tested : zoo.deployed);
    EXPECT_EQ(Trained(deploy), zoo.deployed);
    EXPECT_NE(train.loss, kNoId);
    std::map<std::string, Shape> shapes;
    for (const NetBlob& blob : train.blobs) shapes[blob.name] = blob.shape;
    for (const NetBlob& blob : deploy.blobs) EXPECT_EQ(shapes[blob.name], blob.shape) << blob.name;
  }
}

TEST(ZooTest, TowersShareTheirParametersAndOneIsDeployed) {
  const ZooNet& zoo = *std::ranges::find(kDerived, "mnist_siamese", &ZooNet::folder);
  const BuiltNet train = Build(zoo, "train_val.prototxt", TRAIN);
  EXPECT_EQ(std::ranges::count(train.blobs, true, &NetBlob::shared), 10);
  const BuiltNet deploy = Build(zoo, "train_val.prototxt", TEST, "deploy");
  EXPECT_EQ(deploy.blobs.size(), 10U);
  const auto point = std::ranges::find(deploy.outputs, "feat", &BuiltNet::Output::name);
  ASSERT_NE(point, deploy.outputs.end());
  EXPECT_EQ(deploy.graph.shape(point->value), Shape({100, 2}));
}

TEST(ZooTest, RegressionsAreOneInnerProduct) {
  for (const auto& [folder, features] : {std::pair("auto_mpg", 8), std::pair("wine_quality", 11)}) {
    SCOPED_TRACE(folder);
    NetOptions options;
    options.state.set_phase(TRAIN);
    options.data_types = [columns = int64_t{features}](const LayerParameter& layer) {
      const int64_t batch = layer.data_param().batch_size();
      return std::vector<TensorType>{{DType::kFloat32, {batch, layer.name() == "target" ? 1 : columns, 1, 1}, {}}};
    };
    const std::string path = StrCat(MOKA_SOURCE_DIR, "/models/", folder, "/");
    const BuiltNet train = BuildNet(ReadNet(path + "train_val.prototxt"), options);
    EXPECT_EQ(Trained(train), features + 1);
    EXPECT_NE(train.loss, kNoId);
    EXPECT_EQ(Trained(BuildNet(ReadNet(path + "deploy.prototxt"), {})), features + 1);
  }
}

TEST(ZooTest, TestAndTrainNetsNameTheSameParameters) {
  for (const ZooNet& zoo : kZoo) {
    SCOPED_TRACE(zoo.folder);
    std::map<std::string, Shape> shapes;
    for (const NetBlob& blob : Build(zoo, "train_val.prototxt", TRAIN).blobs) shapes[blob.name] = blob.shape;
    for (const NetBlob& blob : Build(zoo, "train_val.prototxt", TEST).blobs) EXPECT_EQ(shapes[blob.name], blob.shape);
  }
}

TEST(ZooTest, ResNet50HasTheShapesOfThePaper) {
  const BuiltNet net = Build(kZoo[9], "deploy.prototxt", TEST);
  std::map<Shape, int, bool (*)(const Shape&, const Shape&)> found(
      [](const Shape& a, const Shape& b) { return a.ToString() < b.ToString(); });
  for (const auto& [name, value] : net.trace) ++found[net.graph.shape(value).With(0, 1)];
  for (const Shape& shape : {Shape{1, 64, 112, 112}, Shape{1, 256, 56, 56}, Shape{1, 512, 28, 28},
                             Shape{1, 1024, 14, 14}, Shape{1, 2048, 7, 7}, Shape{1, 2048, 1, 1}, Shape{1, 1000}}) {
    EXPECT_GT(found[shape], 0) << shape.ToString();
  }
}

}  // namespace
}  // namespace moka
