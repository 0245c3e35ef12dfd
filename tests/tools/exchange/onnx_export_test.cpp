// Nets as ONNX: which nodes, attributes, shapes and constants small nets become, for which versions of its ops, and
// what is refused. Values of pooling, where Caffe's sizes are a trap, are computed by ONNX's meaning of them; those of
// whole nets by ONNX Runtime in tests/tools/scripts/onnx_test.py.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>

#include "core/file.h"
#include "core/text.h"
#include "graph/interpreter.h"
#include "tests/tools/exchange/exported_nets.h"
#include "tools/exchange/onnx_export.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(OnnxExport, AClassifierHasItsLayersNamesAndAnyBatch) {
  const OnnxModel model = Export(
      "dim: 3 dim: 9 dim: 9",
      Layer("conv", "Convolution", "data", "convolution_param { num_output: 4 kernel_size: 3 pad: 1 stride: 2 }") +
          "layer { name: 'relu' type: 'ReLU' bottom: 'conv' top: 'conv' }\n" +
          Layer("pool", "Pooling", "conv", "pooling_param { pool: MAX kernel_size: 3 stride: 2 }") +
          Layer("ip", "InnerProduct", "pool", "inner_product_param { num_output: 5 }") +
          Layer("prob", "Softmax", "ip", ""));
  EXPECT_THAT(TypesIn(model), ElementsAre("Conv", "Relu", "MaxPool", "Flatten", "Gemm", "Softmax"));
  const onnx::GraphProto& graph = model.proto.graph();
  ASSERT_EQ(graph.input_size(), 1);
  EXPECT_EQ(TextIn(graph.input(0)), "data [N,3,9,9]");
  ASSERT_EQ(graph.output_size(), 1);
  EXPECT_EQ(TextIn(graph.output(0)), "prob [N,5]");
  EXPECT_EQ(graph.node(0).output(0), "conv/conv");  // the ReLU writes the blob last, and has its name
  EXPECT_EQ(graph.node(1).output(0), "conv");
  EXPECT_THAT(IntsOf(graph.node(0), "pads"), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(IntsOf(graph.node(0), "strides"), ElementsAre(2, 2));
  ASSERT_NE(TensorOf(model, "conv/0"), nullptr);
  EXPECT_THAT(TensorOf(model, "conv/0")->dims, ElementsAre(4, 3, 3, 3));
  EXPECT_FLOAT_EQ(TensorOf(model, "conv/0")->floats[1], 0.75F);
  EXPECT_THAT(IntsOf(graph.node(4), "transB"), ElementsAre(1));
  EXPECT_EQ(model.proto.ir_version(), 8);
  EXPECT_EQ(model.proto.opset_import(0).version(), kUsualOpset);
}

TEST(OnnxExport, ABatchNormAndItsScaleAreOneNodeByTheRunningStatistics) {
  const OnnxModel model =
      Export("dim: 3 dim: 4 dim: 4", Layer("bn", "BatchNorm", "data", "batch_norm_param { eps: 0.01 }") +
                                         Layer("scale", "Scale", "bn", "scale_param { bias_term: true }"));
  ASSERT_THAT(TypesIn(model), ElementsAre("BatchNormalization"));
  const onnx::NodeProto& node = model.proto.graph().node(0);
  EXPECT_NEAR(FloatIn(node, "epsilon"), 0.01, 1e-8);
  ASSERT_EQ(node.input_size(), 5);
  EXPECT_EQ(node.input(1), "scale/0");
  EXPECT_EQ(node.input(2), "scale/1");
  // The sums 0.5, 0.75, 1 over the sum of weights 0.5.
  EXPECT_THAT(TensorOf(model, node.input(3))->floats, ElementsAre(1.0F, 1.5F, 2.0F));
  EXPECT_THAT(TensorOf(model, node.input(4))->floats, ElementsAre(1.0F, 1.5F, 2.0F));
}

// ONNX's mean or maximum over windows with explicit pads: a pad is no value for the maximum and a zero for the mean.
std::vector<double> PooledByOnnx(const OnnxModel& model, const std::vector<double>& x, int64_t side, int64_t out) {
  const onnx::NodeProto& node = model.proto.graph().node(0);
  const bool is_max = node.op_type() == "MaxPool";
  const int64_t kernel = IntsOf(node, "kernel_shape")[0];
  const int64_t stride = IntsOf(node, "strides")[0];
  const int64_t pad = IntsOf(node, "pads")[0];
  std::vector<double> y;
  for (int64_t place = 0; place < out * out; ++place) {
    double value = is_max ? -INFINITY : 0;
    for (int64_t k = 0; k < kernel * kernel; ++k) {
      const int64_t h = place / out * stride - pad + k / kernel;
      const int64_t w = place % out * stride - pad + k % kernel;
      if (h < 0 || w < 0 || h >= side || w >= side) continue;
      const double one = x[static_cast<size_t>(h * side + w)];
      value = is_max ? std::max(value, one) : value + one / static_cast<double>(kernel * kernel);
    }
    y.push_back(value);
  }
  if (model.proto.graph().node_size() == 1) return y;
  const OnnxTensor* factors = TensorOf(model, model.proto.graph().node(1).input(1));
  for (size_t i = 0; i < y.size(); ++i) y[i] *= static_cast<double>(factors->floats[i]);
  return y;
}

// Exports one pooling of a plane and compares its values by ONNX with those of the net.
void ExpectExactPooling(const std::string& kind, int64_t side, int64_t kernel, int64_t stride, int64_t pad) {
  const std::string fields =
      StrCat("pooling_param { pool: ", kind, " kernel_size: ", kernel, " stride: ", stride, " pad: ", pad, " }");
  SCOPED_TRACE(StrCat(fields, " of ", side));
  const int64_t last_begin = (side + 2 * pad - kernel + stride - 1) / stride * stride - pad;
  if (pad == 0 && last_begin >= side) return;  // refused: a window without a value
  const auto built = Build(StrCat("dim: 1 dim: ", side, " dim: ", side), Layer("y", "Pooling", "data", fields));
  const Graph& graph = built->net->graph;
  RefTensor x{graph.type(0), {}};
  for (int64_t i = 0; i < 2 * side * side; ++i) x.values.push_back(static_cast<double>(i * 37 % 101) - 20);
  const ValueId y = graph.outputs()[0].value;
  const std::vector<RefTensor> expected = Interpret(graph, {{ValueId{0}, x}}, std::vector<ValueId>{y});
  const int64_t out = graph.shape(y)[2];
  const OnnxModel model = Export(*built);
  const onnx::NodeProto& node = model.proto.graph().node(0);
  if (node.op_type().starts_with("Global")) return;  // a window over all of the plane
  EXPECT_THAT(IntsOf(node, "ceil_mode"), IsEmpty());
  const Ints pads = IntsOf(node, "pads");
  EXPECT_EQ((side + pads[0] + pads[2] - kernel) / stride + 1, out);
  const std::vector<double> found = PooledByOnnx(model, x.values, side, out);
  for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[0].values[i], 1e-5) << "at " << i;
}

TEST(OnnxExport, CaffesPoolingIsExactByExplicitPads) {
  for (int64_t side = 5; side <= 9; ++side) {
    for (int64_t kernel = 2; kernel <= 4; ++kernel) {
      for (int64_t windows = 0; windows < 3 * kernel; ++windows) {
        for (const char* kind : {"MAX", "AVE"})
          ExpectExactPooling(kind, side, kernel, 1 + windows / kernel, windows % kernel);
      }
    }
  }
}

TEST(OnnxExport, ActivationsOfOnnxAreFoundAndOtherFormulasAreWrittenOut) {
  const auto types = [](const std::string& type, const std::string& fields, int64_t opset = kUsualOpset) {
    return TypesIn(Export("dim: 3 dim: 2 dim: 2", Layer("y", type, "data", fields), opset));
  };
  EXPECT_THAT(types("ReLU", ""), ElementsAre("Relu"));
  EXPECT_THAT(types("ReLU", "relu_param { negative_slope: 0.2 }"), ElementsAre("LeakyRelu"));
  EXPECT_THAT(types("PReLU", ""), ElementsAre("PRelu"));
  EXPECT_THAT(types("ELU", "elu_param { alpha: 0.5 }"), ElementsAre("Elu"));
  EXPECT_THAT(types("Sigmoid", ""), ElementsAre("Sigmoid"));
  EXPECT_THAT(types("TanH", ""), ElementsAre("Tanh"));
  EXPECT_THAT(types("AbsVal", ""), ElementsAre("Abs"));
  EXPECT_THAT(types("BNLL", ""), ElementsAre("Softplus"));
  EXPECT_THAT(types("Power", "power_param { power: 2 scale: 3 shift: 1 }"), testing::Not(IsEmpty()));
  EXPECT_THAT(types("Threshold", "threshold_param { threshold: 0.5 }"), ElementsAre("Greater", "Cast"));
  EXPECT_THAT(types("Dropout", ""), ElementsAre("Identity"));
}

TEST(OnnxExport, NodesAreThoseOfTheVersionThatIsAskedFor) {
  const std::string softmax = Layer("y", "Softmax", "data", "");
  EXPECT_THAT(TypesIn(Export("dim: 3 dim: 2 dim: 2", softmax, 12)), ElementsAre("Transpose", "Softmax", "Transpose"));
  EXPECT_THAT(TypesIn(Export("dim: 3 dim: 2 dim: 2", softmax, 13)), ElementsAre("Softmax"));
  const std::string slice =
      "layer { name: 's' type: 'Slice' bottom: 'data' top: 'a' top: 'b' slice_param { axis: 1 slice_point: 1 } }\n";
  const OnnxModel old = Export("dim: 3", slice, 11);
  EXPECT_THAT(IntsOf(NodeOf(old, "Split"), "split"), ElementsAre(1, 2));
  const OnnxModel split = Export("dim: 3", slice, 13);
  EXPECT_EQ(NodeOf(split, "Split").input_size(), 2);
  EXPECT_EQ(NodeOf(split, "Split").output_size(), 2);
  const std::string sum = Layer("y", "Reduction", "data", "reduction_param { axis: 1 }");
  EXPECT_THAT(IntsOf(NodeOf(Export("dim: 3", sum, 11), "ReduceSum"), "axes"), ElementsAre(1));
  EXPECT_EQ(NodeOf(Export("dim: 3", sum, 22), "ReduceSum").input_size(), 2);
}

TEST(OnnxExport, EveryLayerWithoutAFormIsToldAtItsPlace) {
  const std::string layers = Layer("first", "ArgMax", "data", "argmax_param { top_k: 2 axis: 1 }") +
                             Layer("fine", "ReLU", "data", "") +
                             Layer("second", "BatchNorm", "fine", "batch_norm_param { use_global_stats: false }");
  try {
    Export("dim: 3 dim: 2 dim: 2", layers);
    FAIL() << "nothing was refused";
  } catch (const ErrorList& list) {
    EXPECT_EQ(list.kind(), ErrorKind::kBadData);
    ASSERT_EQ(list.errors().size(), 2U);
    EXPECT_THAT(list.errors()[0].text(), HasSubstr("layer \"first\" cannot be exported to ONNX: top_k above 1"));
    EXPECT_THAT(list.errors()[1].text(), HasSubstr("layer \"second\""));
    EXPECT_THAT(list.errors()[1].text(), HasSubstr("\"batch_norm\""));
  }
}

TEST(OnnxExport, NetsThatCutTheirBatchAreExportedForOneBatch) {
  const std::string halves =
      "layer { name: 's' type: 'Slice' bottom: 'data' top: 'a' top: 'b' slice_param { axis: 0 } }\n";
  auto built = std::make_unique<Built>();
  built->batch = 2;
  built->net.emplace(BuildOne(InputOf(2, "dim: 4") + halves));
  built->other.emplace(BuildOne(InputOf(4, "dim: 4") + halves));
  ExportedNet net = built->Net();
  net.graphs.other_batch = 4;
  EXPECT_THROW(ExportOnnx(net, {}), ErrorList);
  net.graphs.other = nullptr;
  const OnnxModel model = ExportOnnx(net, {});
  EXPECT_EQ(TextIn(model.proto.graph().input(0)), "data [2,4]");
}

TEST(OnnxExport, ZeroChannelsOfAShortcutArePadding) {
  const OnnxModel model = Export("dim: 3 dim: 2 dim: 2", Layer("y", "Pad", "data",
                                                               "pad_param { paddings: 0 paddings: 0 "
                                                               "paddings: 2 paddings: 1 paddings: 0 "
                                                               "paddings: 0 paddings: 0 paddings: 0 }"));
  ASSERT_THAT(TypesIn(model), ElementsAre("Pad"));
  EXPECT_THAT(TensorOf(model, model.proto.graph().node(0).input(1))->ints, ElementsAre(0, 2, 0, 0, 0, 1, 0, 0));
  EXPECT_EQ(TextIn(model.proto.graph().output(0)), "y [N,6,2,2]");
}

TEST(OnnxExport, PixelsArePreparedInFrontOfTheNet) {
  const auto built = Build("dim: 3 dim: 2 dim: 2", Layer("y", "ReLU", "data", ""));
  OnnxOptions options;
  options.metadata = {{"task", "CLASSIFY"}};
  options.preparation = OnnxPreparation{.input = "data", .reverses_channels = true};
  options.preparation->mean = {.name = "mean", .dims = {1, 3, 1, 1}, .floats = {104, 117, 123}};
  options.preparation->factor = {.name = "factor", .dims = {1, 3, 1, 1}, .floats = {2, 2, 2}};
  const OnnxModel model = ExportOnnx(built->Net(), options);
  EXPECT_THAT(TypesIn(model), ElementsAre("Gather", "Sub", "Mul", "Relu"));
  EXPECT_EQ(TextIn(model.proto.graph().input(0)), "data [N,3,2,2]");
  EXPECT_THAT(TensorOf(model, model.proto.graph().node(0).input(1))->ints, ElementsAre(2, 1, 0));
  EXPECT_EQ(model.proto.graph().node(3).input(0), model.proto.graph().node(2).output(0));
  EXPECT_EQ(model.proto.metadata_props(0).key(), "task");
}

TEST(OnnxExport, WeightsGoIntoAFileOfTheirOwnAtMultiplesOfAPage) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "onnx_external";
  CreateFolders(folder);
  OnnxModel model = Export("dim: 3 dim: 4 dim: 4",
                           Layer("conv", "Convolution", "data", "convolution_param { num_output: 4 kernel_size: 3 }"));
  const std::vector<float> weights = TensorOf(model, "conv/0")->floats;
  const auto written = WriteOnnxModel(folder / "net.onnx", std::move(model), true);
  ASSERT_THAT(written, ElementsAre(folder / "net.onnx", folder / "net.onnx.data"));
  onnx::ModelProto read;
  ASSERT_TRUE(read.ParseFromString(ReadFile(folder / "net.onnx")));
  const std::string data = ReadFile(folder / "net.onnx.data");
  for (const onnx::TensorProto& tensor : read.graph().initializer()) {
    EXPECT_EQ(tensor.data_location(), onnx::TensorProto::EXTERNAL);
    ASSERT_EQ(tensor.external_data_size(), 3);
    EXPECT_EQ(tensor.external_data(0).value(), "net.onnx.data");
    const int64_t offset = std::stoll(tensor.external_data(1).value());
    EXPECT_EQ(offset % kOnnxAlignment, 0);
    if (tensor.name() != "conv/0") continue;
    EXPECT_EQ(std::memcmp(data.data() + offset, weights.data(), weights.size() * sizeof(float)), 0);
  }
}

// Two convolutions with a ReLU and a pooling between them, whose ranges are known.
std::unique_ptr<Built> BuildOnIntegers(double bias_units = 1) {
  auto ranges = std::make_shared<Quantization>();
  ranges->convolutions["first"] = {
      .input_low = 0, .input_high = 2.55, .output_low = 0, .output_high = 510, .weights = {2, 2 / bias_units}};
  ranges->convolutions["second"] = {
      .input_low = 0, .input_high = 510, .output_low = -127, .output_high = 127, .weights = {2}};
  return Build("dim: 1 dim: 4 dim: 4",
               Layer("first", "Convolution", "data", "convolution_param { num_output: 2 kernel_size: 3 pad: 1 }") +
                   Layer("relu", "ReLU", "first", "") +
                   Layer("pool", "Pooling", "relu", "pooling_param { pool: MAX kernel_size: 2 stride: 2 }") +
                   Layer("second", "Convolution", "pool", "convolution_param { num_output: 1 kernel_size: 2 }"),
               true, ranges);
}

// The first constant whose name ends so.
const OnnxTensor& TensorWith(const OnnxModel& model, const std::string& end) {
  const auto found = std::ranges::find_if(model.tensors, [&](const OnnxTensor& t) { return t.name.ends_with(end); });
  EXPECT_NE(found, model.tensors.end()) << end;
  return *found;
}

TEST(OnnxExport, ConvolutionsOnIntegersArePairsOfQuantizeAndDequantize) {
  const OnnxModel model = Export(*BuildOnIntegers());
  EXPECT_THAT(TypesIn(model),
              ElementsAre("QuantizeLinear", "DequantizeLinear", "DequantizeLinear", "DequantizeLinear", "Conv", "Relu",
                          "QuantizeLinear", "DequantizeLinear", "MaxPool", "QuantizeLinear", "DequantizeLinear",
                          "DequantizeLinear", "DequantizeLinear", "Conv"));
  const OnnxTensor& weights = TensorWith(model, "/weights");
  EXPECT_EQ(weights.stored, DType::kInt8);
  EXPECT_EQ(weights.dims, (Ints{2, 1, 3, 3}));
  // 0.5, 0.75, .. 2 in units of 2/127.
  EXPECT_EQ(Ints(weights.ints.begin(), weights.ints.begin() + 7), (Ints{32, 48, 64, 79, 95, 111, 127}));
  const OnnxTensor& bias = TensorWith(model, "/bias");
  EXPECT_EQ(bias.stored, DType::kInt32);
  // 0.5 and 0.75 in units of 0.01 * 2/127.
  EXPECT_EQ(bias.ints, (Ints{3175, 4763}));
  // Steps of the input, of the first convolution's result behind its ReLU, and of the same behind the pooling.
  std::vector<float> steps;
  for (const onnx::NodeProto& node : model.proto.graph().node()) {
    if (node.op_type() != "QuantizeLinear") continue;
    steps.push_back(TensorOf(model, node.input(1))->floats.at(0));
    EXPECT_EQ(TensorOf(model, node.input(2))->stored, DType::kUInt8);
  }
  EXPECT_THAT(steps, ElementsAre(0.01F, 2, 2));
}

TEST(OnnxExport, ABiasThatNoIntegerOf32BitsIsStaysReal) {
  const OnnxModel model = Export(*BuildOnIntegers(1e12));
  EXPECT_THAT(TensorWith(model, "/bias").floats, ElementsAre(0.5F, 0.75F));
}

TEST(OnnxExport, IntegersWantAnOpsetThatKnowsAScaleAChannel) {
  EXPECT_THROW(Export(*BuildOnIntegers(), 12), ErrorList);
}

TEST(OnnxExport, IntegersLieInTheFileAsTheirType) {
  const std::filesystem::path file = std::filesystem::temp_directory_path() / StrCat("moka_int8_", getpid(), ".onnx");
  WriteOnnxModel(file, Export(*BuildOnIntegers()), false);
  onnx::ModelProto proto;
  ASSERT_TRUE(proto.ParseFromString(ReadFile(file)));
  std::filesystem::remove(file);
  int64_t bytes = 0;
  for (const onnx::TensorProto& tensor : proto.graph().initializer()) {
    if (!tensor.name().ends_with("/weights")) continue;
    EXPECT_EQ(tensor.data_type(), onnx::TensorProto::INT8);
    bytes += std::ssize(tensor.raw_data());
  }
  EXPECT_EQ(bytes, 2 * 9 + 2 * 4);
}

}  // namespace
}  // namespace moka
