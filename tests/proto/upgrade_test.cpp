// Old spellings become the present ones, with their places.
#include "proto/upgrade/upgrade.h"

#include <gmock/gmock.h>

#include "core/text.h"
#include "proto/nets/net_file.h"
#include "proto/nets/solver_file.h"
#include "proto/text/places.h"
#include "proto/upgrade/spark_sources.h"
#include "tests/proto/errors_of.h"

namespace moka {
namespace {

using ::testing::HasSubstr;

NetParameter Plain(const std::string& text) {
  NetParameter net = NetFromText(text, "n");
  for (LayerParameter& layer : *net.mutable_layer()) layer.clear_origin();
  net.clear_origin();
  return net;
}

// Old and new text describe the same net.
void ExpectSame(const std::string& old_text, const std::string& new_text) {
  EXPECT_EQ(Plain(old_text).DebugString(), Plain(new_text).DebugString());
}

TEST(UpgradeNet, MovesV1LayersToLayers) {
  ExpectSame(R"(
    name: "v1"
    layers { name: "data" type: DATA top: "data" top: "label" data_param { source: "db" batch_size: 4 scale: 0.5 mean_file: "m" crop_size: 3 mirror: true }
             include { phase: TRAIN } }
    layers { name: "c" type: CONVOLUTION bottom: "data" top: "c" param: "w" param: "b" blob_share_mode: PERMISSIVE
             blobs_lr: 1 blobs_lr: 2 weight_decay: 1 weight_decay: 0 convolution_param { num_output: 2 kernel_size: 3 } }
    layers { name: "l" type: SOFTMAX_LOSS bottom: "c" bottom: "label" top: "l" loss_weight: 2 loss_param { ignore_label: 3 } })",
             R"(
    name: "v1"
    layer { name: "data" type: "Data" top: "data" top: "label" data_param { source: "db" batch_size: 4 }
            transform_param { scale: 0.5 mean_file: "m" crop_size: 3 mirror: true } include { phase: TRAIN } }
    layer { name: "c" type: "Convolution" bottom: "data" top: "c" param { name: "w" share_mode: PERMISSIVE lr_mult: 1 decay_mult: 1 }
            param { name: "b" lr_mult: 2 decay_mult: 0 } convolution_param { num_output: 2 kernel_size: 3 } }
    layer { name: "l" type: "SoftmaxWithLoss" bottom: "c" bottom: "label" top: "l" loss_weight: 2 loss_param { ignore_label: 3 } })");
}

TEST(UpgradeNet, LeavesTypesOfForksToTheLayersBuilder) {
  const NetParameter net = NetFromText(
      "layers {\n name: 'a' type: MULTI_SOFTMAX  top: 'x' }\nlayers { type: RELU name: 'b' sharpness: 3 }\n"
      "layers { name: 'c' top: 'y' type :\n  \"InnerProduct\" }\nlayers { type: ConvFixed }\n",
      "n");
  ASSERT_EQ(net.layer_size(), 4);
  EXPECT_EQ(net.layer(0).type(), "MultiSoftmax");
  EXPECT_EQ(net.layer(0).top(0), "x");
  EXPECT_EQ(PlaceOf(net.layer(0), "top[0]").ToString(), "n:2:33");
  EXPECT_EQ(net.layer(1).type(), "ReLU");
  EXPECT_EQ(UnknownFieldsOf(net.layer(1).origin()).size(), 1U);
  EXPECT_EQ(net.layer(2).type(), "InnerProduct");
  EXPECT_EQ(net.layer(2).top(0), "y");
  EXPECT_EQ(net.layer(3).type(), "ConvFixed");
  for (const LayerParameter& layer : net.layer()) EXPECT_FALSE(layer.origin().has_v1_type());
}

TEST(UpgradeNet, RefusesWordsThatAreNoLayerTypes) {
  for (const char* text : {"layers { type: 999 }", "layers { include { phase: TASTE } }", "layers { type: \"open }",
                           "layer { type: RELU }", "layers { pooling_param { pool: \"MAX\" } }"}) {
    EXPECT_THROW(NetFromText(text, "n"), Error) << text;
  }
}

TEST(UpgradeNet, KeepsPlacesUnderTheirNewNames) {
  const NetParameter net = NetFromText("layers {\n name: 'c' type: CONVOLUTION\n blobs_lr: 1\n blobs_lr: 2\n}\n", "n");
  EXPECT_EQ(PlaceOf(net.layer(0)).ToString(), "n:1:1");
  EXPECT_EQ(PlaceOf(net.layer(0), "param[1].lr_mult").ToString(), "n:4:2");
}

TEST(UpgradeNet, MovesV0LayersAndFoldsPadding) {
  ExpectSame(R"(
    name: "v0" input: "data" input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 8
    layers { layer { name: "pad1" type: "padding" pad: 2 } bottom: "data" top: "pad1" }
    layers { layer { name: "conv1" type: "conv" num_output: 4 kernelsize: 5 stride: 2 biasterm: false group: 2 blobs_lr: 1. weight_decay: 0.
                     weight_filler { type: "gaussian" std: 0.01 } } bottom: "pad1" top: "conv1" }
    layers { layer { name: "pool1" type: "pool" pool: AVE kernelsize: 3 stride: 2 } bottom: "conv1" top: "pool1" }
    layers { layer { name: "norm" type: "lrn" local_size: 5 alpha: 0.1 beta: 0.5 } bottom: "pool1" top: "norm" }
    layers { layer { name: "ip" type: "innerproduct" num_output: 10 } bottom: "norm" top: "ip" }
    layers { layer { name: "drop" type: "dropout" dropout_ratio: 0.2 } bottom: "ip" top: "ip" })",
             R"(
    name: "v0"
    layer { name: "input" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }
    layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1" param { lr_mult: 1 decay_mult: 0 }
            convolution_param { num_output: 4 pad: 2 kernel_size: 5 stride: 2 group: 2 bias_term: false weight_filler { type: "gaussian" std: 0.01 } } }
    layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1" pooling_param { pool: AVE kernel_size: 3 stride: 2 } }
    layer { name: "norm" type: "LRN" bottom: "pool1" top: "norm" lrn_param { local_size: 5 alpha: 0.1 beta: 0.5 } }
    layer { name: "ip" type: "InnerProduct" bottom: "norm" top: "ip" inner_product_param { num_output: 10 } }
    layer { name: "drop" type: "Dropout" bottom: "ip" top: "ip" dropout_param { dropout_ratio: 0.2 } })");
}

TEST(UpgradeNet, ReadsFiveDimsAnInput) {
  ExpectSame(R"(
    input: "clip" input_dim: 2 input_dim: 3 input_dim: 16 input_dim: 8 input_dim: 9 layer { name: "r" type: "ReLU" bottom: "clip" top: "r" })",
             R"(
    layer { name: "input" type: "Input" top: "clip" input_param { shape { dim: 2 dim: 3 dim: 16 dim: 8 dim: 9 } } }
    layer { name: "r" type: "ReLU" bottom: "clip" top: "r" })");
}

TEST(UpgradeNet, MovesV0DataLayers) {
  ExpectSame(R"(
    layers { layer { name: "d" type: "data" source: "db" batchsize: 8 scale: 0.1 meanfile: "m" cropsize: 7 mirror: true rand_skip: 3 } top: "d" }
    layers { layer { name: "i" type: "images" source: "list" batchsize: 2 new_height: 32 new_width: 16 shuffle_images: true } top: "i" }
    layers { layer { name: "w" type: "window_data" source: "win" batchsize: 2 det_fg_threshold: 0.6 det_context_pad: 4 det_crop_mode: "square" } top: "w" }
    layers { layer { name: "o" type: "hdf5_output" hdf5_output_param { file_name: "f" } } bottom: "d" })",
             R"(
    layer { name: "d" type: "Data" top: "d" data_param { source: "db" batch_size: 8 rand_skip: 3 }
            transform_param { scale: 0.1 mean_file: "m" crop_size: 7 mirror: true } }
    layer { name: "i" type: "ImageData" top: "i" image_data_param { source: "list" batch_size: 2 new_height: 32 new_width: 16 shuffle: true } }
    layer { name: "w" type: "WindowData" top: "w" window_data_param { source: "win" batch_size: 2 fg_threshold: 0.6 context_pad: 4 crop_mode: "square" } }
    layer { name: "o" type: "HDF5Output" bottom: "d" hdf5_output_param { file_name: "f" } })");
}

TEST(UpgradeNet, TurnsInputShapesIntoALayerAtTheFront) {
  ExpectSame(
      "input: 'a' input_shape { dim: 2 dim: 5 } input: 'b' input_shape { dim: 2 } layer { name: 'r' type: 'ReLU' "
      "bottom: 'a' top: 'r' }",
      "layer { name: 'input' type: 'Input' top: 'a' top: 'b' input_param { shape { dim: 2 dim: 5 } shape { dim: 2 } } }"
      "layer { name: 'r' type: 'ReLU' bottom: 'a' top: 'r' }");
}

TEST(UpgradeNet, FreezesBatchNormStatistics) {
  const NetParameter net =
      NetFromText("layer { name: 'b' type: 'BatchNorm' param { lr_mult: 1 } param { } param { } }", "n");
  for (const ParamSpec& param : net.layer(0).param()) {
    EXPECT_EQ(param.lr_mult(), 0);
    EXPECT_EQ(param.decay_mult(), 0);
  }
}

TEST(UpgradeNet, ReadsBothKindsOfLayersInTheOrderOfTheFile) {
  ExpectSame(
      "layers { name: 'a' type: DATA data_param { batch_size: 2 mirror: true } } layer { name: 'b' type: 'ReLU' }\n"
      "layers { name: 'c' type: TANH } layers { name: 'd' type: \"PReLU\" }\nlayer { name: 'e' type: 'BNLL' }",
      "layer { name: 'a' type: 'Data' data_param { batch_size: 2 } transform_param { mirror: true } }\n"
      "layer { name: 'b' type: 'ReLU' } layer { name: 'c' type: 'TanH' } layer { name: 'd' type: 'PReLU' }\n"
      "layer { name: 'e' type: 'BNLL' }");
}

TEST(UpgradeNet, NamesTheFirstLayerOfTheOtherKind) {
  const auto warning = [](const std::string& text) {
    ::testing::internal::CaptureStderr();
    NetFromText(text, "n");
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(
      warning("layer { name: 'a' }\nlayer { name: 'b' }\n  layers { name: 'c' type: RELU }\nlayers { name: 'd' }"),
      HasSubstr("n:3:3: the older \"layers\" stands here beside \"layer\"; both are read, in the order of the "
                "file, but Caffe refuses such a net"));
  const std::string old_first = warning("layers { name: 'a' type: RELU } layer { name: 'b' }\nlayers { name: 'c' }");
  EXPECT_THAT(old_first, HasSubstr("n:1:33: \"layer\" stands here beside the older \"layers\""));
  EXPECT_THAT(old_first, ::testing::Not(HasSubstr("upgraded from")));
}

TEST(UpgradeNet, RefusesBothKindsOfLayersInABinaryNet) {
  NetParameter net;
  net.add_layer()->set_name("a");
  net.add_layers()->set_name("b");
  EXPECT_THAT(ErrorTextOf([&] { NetFromBinary(net.SerializeAsString(), "n"); }),
              HasSubstr("the net has both \"layer\" and the older \"layers\""));
}

TEST(UpgradeNet, LeavesNewNetsAlone) {
  NetParameter net;
  net.add_layer()->set_type("ReLU");
  EXPECT_FALSE(UpgradeNet(net, "n"));
}

TEST(UpgradeNet, RefusesWhatCaffeRefuses) {
  const auto error = [](const std::string& text) { return ErrorTextOf([&] { NetFromText(text, "n"); }); };
  EXPECT_THAT(error("layer { name: 'a' }\nlayers { layer { name: 'b' type: 'relu' } }"),
              HasSubstr("n:1:1: the net has both \"layer\" and the older \"layers\""));
  EXPECT_THAT(error("input: 'a' input_dim: 1 layer { name: 'r' }"),
              HasSubstr("n:1:12: the net has 1 input but 1 input_dim, expected 4"));
  EXPECT_THAT(error("input: 'a' input: 'b' input_shape { dim: 1 } layer { name: 'r' }"),
              HasSubstr("2 input but 1 input_shape"));
  EXPECT_THAT(error("layers { layer { name: 'x' type: 'convv' } }"),
              HasSubstr("unknown layer type \"convv\" in an old (V0) layer \"x\"; did you mean \"conv\"?"));
  EXPECT_THAT(error("layers { layer { name: 'x' type: 'relu' } bottom: 'none' }"),
              HasSubstr("bottom \"none\" of old layer \"x\" is made by no earlier layer"));
  EXPECT_THAT(
      error("input: 'd' input_dim: [1,1,1,1] layers { layer { name: 'p' type: 'padding' pad: 1 } bottom: 'd' top: 'p' }"
            "layers { layer { name: 'x' type: 'relu' } bottom: 'p' top: 'x' }"),
      HasSubstr("only conv and pool can take its padding"));
}

TEST(UpgradeSolver, MovesTheTypeEnum) {
  const SolverParameter solver = SolverFromText("solver_type: ADAGRAD base_lr: 0.1", "s");
  EXPECT_EQ(solver.type(), "AdaGrad");
  EXPECT_FALSE(solver.has_solver_type());
  EXPECT_EQ(SolverFromText("solver_type: RMSPROP", "s").type(), "RMSProp");
  EXPECT_THAT(ErrorTextOf([] { SolverFromText("type: 'SGD'\nsolver_type: SGD", "s"); }),
              HasSubstr("s:2:1: the solver has both"));
}

// data/lenet_memory_train_test.prototxt of CaffeOnSpark, in short.
std::string SparkLayer(const std::string& source_class, const std::string& source) {
  return StrCat("layer { name: \"data\" type: \"MemoryData\" top: \"data\" top: \"label\"\n  source_class: \"",
                source_class, "\"\n  memory_data_param { source: \"", source,
                "\" batch_size: 64 channels: 1 height: 28 width: 28 share_in_parallel: false }\n"
                "  transform_param { scale: 0.00390625 } }");
}

TEST(SparkSources, AnLmdbOnThisMachineIsReadAsData) {
  for (const char* source :
       {"file:/data/mnist_train_lmdb/", "file:///data/mnist_train_lmdb", "/data/mnist_train_lmdb"}) {
    const LayerParameter layer = NetFromText(SparkLayer("com.yahoo.ml.caffe.LMDB", source), "n").layer(0);
    EXPECT_EQ(layer.type(), "Data") << source;
    EXPECT_EQ(layer.data_param().source(), "/data/mnist_train_lmdb") << source;
    EXPECT_EQ(layer.data_param().backend(), DataParameter::LMDB);
    EXPECT_EQ(layer.data_param().batch_size(), 64U);
    EXPECT_FALSE(layer.has_memory_data_param());
    EXPECT_FALSE(layer.has_source_class());
    EXPECT_FLOAT_EQ(layer.transform_param().scale(), 0.00390625F);
    EXPECT_NO_THROW(RefuseSparkSource(layer));
  }
}

TEST(SparkSources, OtherSourcesAreRefusedWithWhatToImport) {
  const auto error = [](const std::string& text) {
    return ErrorTextOf([&] { RefuseSparkSource(NetFromText(text, "n").layer(0)); });
  };
  EXPECT_THAT(error(SparkLayer("com.yahoo.ml.caffe.LMDB", "hdfs:///mnist")),
              testing::HasSubstr("an LMDB at hdfs:///mnist"));
  EXPECT_THAT(error(SparkLayer("com.yahoo.ml.caffe.SeqImageDataSource", "file:/x")),
              testing::HasSubstr("a Hadoop sequence file of pictures"));
  for (const char* name : {"ImageDataFrame", "DataFrameSource"}) {
    EXPECT_THAT(error(SparkLayer(StrCat("com.yahoo.ml.caffe.", name), "file:/x")),
                testing::HasSubstr("a Spark data frame, which only CaffeOnSpark can"));
  }
  EXPECT_THAT(error(SparkLayer("org.example.Mine", "file:/x")), testing::HasSubstr("the class org.example.Mine"));
  const std::string cos =
      "layer { name: \"d\" type: \"CoSData\" top: \"x\"\n cos_data_param { batch_size: 3 source: \"file:/x\" top { "
      "name: "
      "\"input\" type: FLOAT_ARRAY channels: 3 sample_num_axes: 1 transpose: true } } }";
  EXPECT_THAT(error(cos),
              testing::AllOf(testing::HasSubstr("columns of a Spark data frame"), testing::HasSubstr("n:1:")));
}

}  // namespace
}  // namespace moka
