// The zoo's nets build in both phases and deployed, with the numbers of parameters their papers and READMEs give.
#include <gtest/gtest.h>

#include <map>

#include "core/text.h"
#include "layers/net.h"
#include "proto/net_file.h"

namespace moka {
namespace {

struct ZooNet {
  std::string folder;
  int64_t size;  // image side
  int64_t channels;
  int64_t trained;  // parameters of train_val.prototxt, statistics left out
  int64_t deployed;
};

const ZooNet kZoo[] = {
    {"alexnet", 227, 3, 60965224, 60965224},
    {"alexnet_bn", 227, 3, 60966600, 60966600},
    {"cifar10_full", 32, 3, 89578, 89578},
    {"cifar10_quick", 32, 3, 145578, 145578},
    {"cifar10_resnet20", 32, 3, 269722, 269722},
    {"cifar10_resnet9", 32, 3, 6573120, 6573120},
    {"googlenet", 224, 3, 13378280, 6998552},
    {"lenet", 28, 1, 431080, 431080},
    {"resnet101", 224, 3, 44549160, 44549160},
    {"resnet152", 224, 3, 60192808, 60192808},
    {"resnet50", 224, 3, 25557032, 25557032},
    {"vgg16", 224, 3, 138357544, 138357544},
};

BuiltNet Build(const ZooNet& zoo, const std::string& file, Phase phase) {
  NetOptions options;
  options.state.set_phase(phase);
  options.data_types = [&](const LayerParameter& layer) {
    const int64_t batch = layer.data_param().batch_size();
    return std::vector<TensorType>{{DType::kFloat32, {batch, zoo.channels, zoo.size, zoo.size}, {}},
                                   {DType::kFloat32, {batch}, {}}};
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
