// ONNX models as nets: which layers, fields and weights small graphs become, with the number of images open, and what
// is refused. Values are checked against ONNX Runtime in tests/tools/scripts/onnx_import_test.py.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/file.h"
#include "core/text.h"
#include "proto/content.h"
#include "tools/exchange/import/fold.h"
#include "tools/exchange/import/onnx_import.h"
#include "tools/exchange/import/onnx_tensors.h"
#include "tools/exchange/import/shape_rules.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kImage = "dim { dim_param: 'N' } dim { dim_value: 4 } dim { dim_value: 9 } dim { dim_value: 7 }";

// The bytes of a model of opset 17 whose graph is this text; the input is "x".
std::string Bytes(const std::string& graph, const std::string& dims = kImage, const std::string& outputs = "y") {
  std::string text =
      StrCat("ir_version: 8 producer_name: 'test' opset_import { domain: '' version: 17 } graph { name: 'g' ", graph,
             " input { name: 'x' type { tensor_type { elem_type: 1 shape { ", dims, " } } } }");
  for (const std::string& output : Split(outputs, ' '))
    text += StrCat(" output { name: '", output, "' type { tensor_type { elem_type: 1 } } }");
  onnx::ModelProto model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text + " }", &model)) << text;
  return model.SerializeAsString();
}

OnnxFile FileOf(const std::string& bytes) { return OnnxFileFromBytes(bytes, "model.onnx", "."); }

ImportedNet Imported(const std::string& graph, const std::string& dims = kImage, const std::string& outputs = "y") {
  return ImportOnnx(FileOf(Bytes(graph, dims, outputs)), {});
}

std::string Node(const std::string& type, const std::string& inputs, const std::string& output,
                 const std::string& attributes = {}) {
  std::string text = StrCat("node { op_type: '", type, "' name: '", type, "_node' ");
  for (const std::string& input : Split(inputs, ' ')) text += StrCat("input: '", input, "' ");
  for (const std::string& one : Split(output, ' ')) text += StrCat("output: '", one, "' ");
  return text + attributes + " }\n";
}

std::string List(const std::string& name, const std::string& values) {
  return StrCat("attribute { name: '", name, "' type: INTS ints: [", values, "] } ");
}

// A constant of ones.
std::string Ones(const std::string& name, const Ints& dims) {
  std::string text = StrCat("initializer { name: '", name, "' data_type: 1 ");
  for (const int64_t dim : dims) text += StrCat("dims: ", dim, " ");
  for (int64_t i = 0; i < CountOf(dims); ++i) text += "float_data: 1 ";
  return text + "}\n";
}

std::string Whole(const std::string& name, const Ints& values) {
  std::string text = StrCat("initializer { name: '", name, "' data_type: 7 dims: ", values.size(), " ");
  for (const int64_t value : values) text += StrCat("int64_data: ", value, " ");
  return text + "}\n";
}

std::vector<std::string> TypesIn(const ImportedNet& imported) {
  std::vector<std::string> types;
  for (const LayerParameter& layer : imported.net.layer()) {
    if (layer.type() != "Input") types.push_back(layer.type());
  }
  return types;
}

const LayerParameter& LayerOfType(const ImportedNet& imported, const std::string& type) {
  for (const LayerParameter& layer : imported.net.layer()) {
    if (layer.type() == type) return layer;
  }
  ADD_FAILURE() << "no layer " << type;
  return imported.net.layer(0);
}

// Returns the texts of all errors of an import, one a line.
std::string ErrorOf(const std::string& bytes) {
  try {
    ImportOnnx(FileOf(bytes), {});
  } catch (const ErrorList& errors) {
    std::string text;
    for (const Error& error : errors.errors()) text += StrCat(error.what(), "\n");
    return text;
  } catch (const Error& error) {
    return error.what();
  }
  return "imported";
}

TEST(OnnxImport, AClassifierKeepsNamesAndAnyNumberOfImages) {
  const ImportedNet imported = Imported(
      Ones("conv.weight", {6, 4, 3, 3}) + Ones("conv.bias", {6}) + Ones("fc.weight", {5, 6 * 9 * 7}) +
      Ones("fc.bias", {5}) + Node("Conv", "x conv.weight conv.bias", "/conv/Conv_output_0", List("pads", "1,1,1,1")) +
      Node("Relu", "/conv/Conv_output_0", "r") + Node("Flatten", "r", "f") +
      Node("Gemm", "f fc.weight fc.bias", "y", "attribute { name: 'transB' type: INT i: 1 }"));
  EXPECT_THAT(TypesIn(imported), ElementsAre("Convolution", "ReLU", "InnerProduct"));
  EXPECT_TRUE(imported.is_batch_open);
  EXPECT_EQ(imported.net.layer(0).input_param().shape(0).dim(0), 1);
  const LayerParameter& conv = LayerOfType(imported, "Convolution");
  EXPECT_EQ(conv.name(), "conv");
  EXPECT_EQ(conv.top(0), "conv/Conv");
  EXPECT_EQ(conv.convolution_param().num_output(), 6U);
  EXPECT_THAT(conv.convolution_param().pad(), ElementsAre(1U));
  ASSERT_EQ(imported.weights.size(), 4U);
  EXPECT_EQ(imported.weights[2].layer, "fc");
  EXPECT_EQ(imported.weights[2].shape, (Shape{5, 378}));
  EXPECT_THAT(imported.outputs, ElementsAre("y"));
}

TEST(OnnxImport, APadOfOneSideIsAFieldOfThatSide) {
  const ImportedNet imported = Imported(Ones("w", {6, 4, 3, 3}) + Node("Conv", "x w", "y", List("pads", "0,1,2,0")));
  const ConvolutionParameter& p = LayerOfType(imported, "Convolution").convolution_param();
  EXPECT_EQ(p.pad_t(), 0U);
  EXPECT_EQ(p.pad_l(), 1U);
  EXPECT_EQ(p.pad_b(), 2U);
  EXPECT_EQ(p.pad_r(), 0U);
  EXPECT_FALSE(p.bias_term());
}

TEST(OnnxImport, PoolingIsCaffesWhereItsWindowsAreTheSame) {
  const auto pooled = [](const std::string& attributes) {
    return LayerOfType(Imported(Node("MaxPool", "x", "y", attributes)), "Pooling").pooling_param();
  };
  // 9 and 7 pixels: windows of 3 by 2 fill them, so that rounding up is rounding down.
  EXPECT_FALSE(pooled(List("kernel_shape", "3,3") + List("strides", "2,2")).has_round_mode());
  EXPECT_EQ(pooled(List("kernel_shape", "2,2") + List("strides", "2,2")).round_mode(), PoolingParameter::FLOOR);
  // The exporter's spelling of Caffe's last windows: a pad behind.
  const PoolingParameter up = pooled(List("kernel_shape", "2,2") + List("strides", "2,2") + List("pads", "0,0,1,1"));
  EXPECT_FALSE(up.has_round_mode());
  EXPECT_EQ(up.pad_size(), 0);
}

TEST(OnnxImport, StepsOfAnActivationAreOneLayer) {
  const std::string one = "initializer { name: 'one' data_type: 1 float_data: 1 }\n";
  const std::string half = "initializer { name: 'half' data_type: 1 float_data: 0.5 }\n";
  const std::string root = "initializer { name: 'root' data_type: 1 float_data: 1.4142135 }\n";
  EXPECT_THAT(TypesIn(Imported(Node("Sigmoid", "x", "s") + Node("Mul", "x s", "y"))), ElementsAre("Swish"));
  EXPECT_THAT(TypesIn(Imported(one + half + root + Node("Div", "x root", "a") + Node("Erf", "a", "b") +
                               Node("Add", "b one", "c") + Node("Mul", "x c", "d") + Node("Mul", "d half", "y"))),
              ElementsAre("GELU"));
  // The sigmoid is an output, too: it stays.
  EXPECT_THAT(TypesIn(Imported(Node("Sigmoid", "x", "s") + Node("Mul", "x s", "y"), kImage, "y s")),
              ElementsAre("Sigmoid", "Eltwise"));
}

TEST(OnnxImport, NumbersAndChannelsAreFieldsAndBlobs) {
  const std::string two = "initializer { name: 'two' data_type: 1 float_data: 2 }\n";
  EXPECT_EQ(LayerOfType(Imported(two + Node("Mul", "x two", "y")), "Power").power_param().scale(), 2);
  EXPECT_EQ(LayerOfType(Imported(two + Node("Pow", "x two", "y")), "Power").power_param().power(), 2);
  EXPECT_EQ(LayerOfType(Imported(two + Node("Div", "x two", "y")), "Formula").formula_param().formula(), "x0/2");
  const ImportedNet scaled = Imported(Ones("c", {4, 1, 1}) + Node("Mul", "x c", "y"));
  EXPECT_EQ(LayerOfType(scaled, "Scale").scale_param().axis(), 1);
  EXPECT_EQ(scaled.weights.at(0).shape, (Shape{4}));
  EXPECT_THAT(TypesIn(Imported(Ones("c", {4, 1, 7}) + Node("Add", "x c", "y"))), ElementsAre("Parameter", "Add"));
}

TEST(OnnxImport, AShapeThatIsComputedFollowsTheImages) {
  const ImportedNet imported = Imported(
      Whole("zero", {0}) + Whole("rest", {2, -1}) + Node("Shape", "x", "s") + Node("Gather", "s zero", "n") +
      Node("Concat", "n rest", "to", "attribute { name: 'axis' type: INT i: 0 }") + Node("Reshape", "x to", "y"));
  const BlobShape& shape = LayerOfType(imported, "Reshape").reshape_param().shape();
  EXPECT_THAT(shape.dim(), ElementsAre(0, 2, 126));
}

TEST(OnnxImport, ImagesThatAreJoinedLeaveOneDimensionOpen) {
  const ImportedNet imported = Imported(Whole("to", {-1, 7}) + Node("Reshape", "x to", "y"));
  EXPECT_THAT(LayerOfType(imported, "Reshape").reshape_param().shape().dim(), ElementsAre(-1, 7));
}

TEST(OnnxImport, PartsThatNobodyReadsAreSilenced) {
  const ImportedNet imported = Imported(Whole("b", {1}) + Whole("e", {3}) + Whole("a", {1}) +
                                        Node("Slice", "x b e a", "s") + Node("Relu", "s", "y"));
  EXPECT_THAT(TypesIn(imported), ElementsAre("Slice", "ReLU", "Silence"));
  EXPECT_THAT(LayerOfType(imported, "Slice").slice_param().slice_point(), ElementsAre(1U, 3U));
}

TEST(OnnxImport, AllThatHasNoFormIsToldAtOnceWithItsNodes) {
  const std::string text = ErrorOf(
      Bytes(Node("TopK", "x", "a") + Node("NonZero", "a", "b") + Node("Relu", "b", "c") + Node("Loop", "c", "y")));
  EXPECT_THAT(text, HasSubstr("op TopK has no form in layers here: node \"TopK_node\""));
  EXPECT_THAT(text, HasSubstr("op NonZero has no form in layers here: node \"NonZero_node\""));
  EXPECT_THAT(text, HasSubstr("op Loop has no form in layers here: node \"Loop_node\""));
}

TEST(OnnxImport, NodesInAnyOrderAndNodesWithoutUse) {
  const ImportedNet imported =
      Imported(Node("Relu", "a", "y") + Node("Abs", "x", "a") + Node("NonMaxSuppression", "x", "unused"));
  EXPECT_THAT(TypesIn(imported), ElementsAre("AbsVal", "ReLU"));
}

TEST(OnnxImport, AnOutputThatIsAnInputHasALayerOfItsOwn) {
  const ImportedNet imported = Imported(Node("Identity", "x", "y"));
  EXPECT_THAT(TypesIn(imported), ElementsAre("Split"));
  EXPECT_THAT(imported.outputs, ElementsAre("y"));
}

TEST(OnnxImport, CirclesAndStrangersAreNamed) {
  EXPECT_THAT(ErrorOf(Bytes(Node("Add", "x b", "a") + Node("Relu", "a", "b") + Node("Abs", "b", "y"))),
              HasSubstr("circle"));
  EXPECT_THAT(ErrorOf(Bytes(Node("Add", "x w", "y") + Ones("ww", {4, 1, 1}))),
              HasSubstr("reads \"w\", which nothing makes; did you mean \"ww\""));
}

TEST(OnnxImport, ShapesMayBeGivenInPlaceOfTheFiles) {
  const std::string bytes = Bytes(Node("Relu", "x", "y"), "dim { dim_param: 'N' } dim { dim_param: 'width' }");
  const std::string text = ErrorOf(bytes);
  EXPECT_THAT(text, HasSubstr("leaves dimension 1 (width) open"));
  EXPECT_THAT(text, HasSubstr("--shape x=?x?, with numbers for ?"));
  const ImportedNet imported = ImportOnnx(FileOf(bytes), {.shapes = {{"x", {2, 5}}}});
  EXPECT_FALSE(imported.is_batch_open);
  EXPECT_THAT(imported.net.layer(0).input_param().shape(0).dim(), ElementsAre(2, 5));
  EXPECT_THROW(ImportOnnx(FileOf(bytes), {.shapes = {{"z", {2, 5}}}}), Error);
}

TEST(OnnxImport, AFileIsKnownByItsContent) {
  const std::string bytes = Bytes(Node("Relu", "x", "y"));
  EXPECT_EQ(RecognizeContent(bytes), Content::kOnnx);
  EXPECT_THAT(std::string(Describe(Content::kOnnx)), HasSubstr("moka import"));
  // A solver's state: an iteration, a file's name, blobs.
  EXPECT_EQ(RecognizeContent(std::string("\x08\x05\x12\x03net\x1a\x02\x0a\x00", 13)), Content::kSolverState);
}

TEST(OnnxImport, ARepeatedConstantIsMadeWholeOnce) {
  const ImportedNet imported = Imported(Ones("c", {1, 4, 1, 1}) + Whole("s", {1, 4, 9, 7}) +
                                        Node("Expand", "c s", "e") + Node("Identity", "e", "same") +
                                        Node("Max", "x e", "a") + Node("Max", "a same", "b") + Node("Max", "b e", "y"));
  const std::vector<std::string> types = TypesIn(imported);
  EXPECT_EQ(std::ranges::count(types, "Parameter"), 1) << testing::PrintToString(types);
  EXPECT_EQ(std::ranges::count(types, "Formula"), 3) << testing::PrintToString(types);
}

TEST(OnnxImport, AnOutputThatIsARepeatedConstantHasItsWholeShape) {
  const ImportedNet imported = Imported(
      Ones("c", {1, 4}) + Whole("s", {3, 4}) + Node("Expand", "c s", "e") + Node("Relu", "x", "y"), kImage, "y e");
  EXPECT_EQ(imported.weights.at(0).shape, (Shape{3, 4}));
}

TEST(OnnxImport, ARecurrenceFollowsTheImagesOrHasPlainMarks) {
  const std::string weights = Ones("w", {1, 8, 3}) + Ones("r", {1, 8, 2}) + Ones("b", {1, 16});
  const std::string any = "dim { dim_param: 'N' } dim { dim_value: 4 } dim { dim_value: 3 }";
  const std::string fixed = "dim { dim_value: 4 } dim { dim_value: 2 } dim { dim_value: 3 }";
  const ImportedNet open =
      Imported(weights + Node("Transpose", "x", "t", List("perm", "1,0,2")) + Node("LSTM", "t w r b", "y"), any);
  EXPECT_TRUE(open.is_batch_open);
  EXPECT_TRUE(LayerOfType(open, "LSTM").recurrent_param().expose_hidden());
  EXPECT_EQ(LayerOfType(open, "LSTM").bottom_size(), 4);
  const ImportedNet plain = Imported(weights + Node("LSTM", "x w r b", "y"), fixed);
  EXPECT_THAT(TypesIn(plain), ElementsAre("ContinuationIndicator", "LSTM", "Reshape"));
  ASSERT_EQ(plain.weights.size(), 3U);
  EXPECT_EQ(plain.weights[1].values, std::vector<float>(8, 2));  // both of ONNX's biases
  const ImportedNet back = Imported(
      weights + Node("LSTM", "x w r b", "y", "attribute { name: 'direction' type: STRING s: 'reverse' }"), fixed);
  EXPECT_THAT(TypesIn(back), ElementsAre("Reverse", "ContinuationIndicator", "LSTM", "Reverse", "Reshape"));
}

TEST(OnnxImport, APlainRecurrenceIsOneWhoseGatesStandStill) {
  const ImportedNet imported = Imported(Ones("w", {1, 2, 3}) + Ones("r", {1, 2, 2}) + Node("RNN", "x w r", "y"),
                                        "dim { dim_value: 4 } dim { dim_value: 2 } dim { dim_value: 3 }");
  EXPECT_THAT(TypesIn(imported), ElementsAre("ContinuationIndicator", "GRU", "Reshape"));
  EXPECT_THAT(imported.weights.at(1).values, ElementsAre(100, 100, -100, -100, 0, 0));
  EXPECT_THAT(imported.weights.at(0).values, ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1));
}

TEST(OnnxImport, ADropoutOfATrainingIsRefusedOfConstantsToo) {
  const std::string flag = "initializer { name: 't' data_type: 9 int32_data: 1 }\n";
  EXPECT_THAT(ErrorOf(Bytes(Ones("c", {1, 4, 9, 7}) + Ones("r", {}) + flag + Node("Dropout", "c r t", "d") +
                            Node("Add", "x d", "y"))),
              HasSubstr("it drops values, as in training"));
}

TEST(OnnxImport, NodesAreCountedBeforeAnyIsComputed) {
  OnnxFile file = FileOf(Bytes(Ones("c", {1}) + Node("Relu", "x", "y")));
  onnx::NodeProto negation;
  negation.set_op_type("Neg");
  negation.add_input("c");
  negation.add_output("n");
  file.nodes.insert(file.nodes.begin(), 50'000, negation);
  EXPECT_THROW(ImportOnnx(std::move(file), {}), Error);
}

TEST(OnnxImport, AWholeNumberThatNoFloatIsIsRefused) {
  EXPECT_THAT(ErrorOf(Bytes(Whole("p", {16'777'217}) + Node("Pow", "x p", "y"))),
              HasSubstr("16777217, which no float is"));
}

// A scale and, of a type, a zero point.
std::string Steps(const std::string& name, double scale, const std::string& type, int zero = 0) {
  return StrCat("initializer { name: '", name, "_s' data_type: 1 float_data: ", scale, " }\ninitializer { name: '",
                name, "_z' data_type: ", type, " int32_data: ", zero, " }\n");
}
// x rounded to 8 bits and back: "x_r".
std::string Rounded(const std::string& x, const std::string& steps) {
  return Node("QuantizeLinear", StrCat(x, " ", steps, "_s ", steps, "_z"), x + "_q") +
         Node("DequantizeLinear", StrCat(x, "_q ", steps, "_s ", steps, "_z"), x + "_r");
}
// Weights of int8, the number of each of two outputs everywhere, with a scale for each: "c.weight".
constexpr const char* kInt8Weights =
    "initializer { name: 'w' data_type: 3 dims: 2 dims: 4 dims: 1 dims: 1 "
    "int32_data: [127,127,127,-127,64,64,64,64] }\n"
    "initializer { name: 'w_s' data_type: 1 dims: 2 float_data: [0.5,0.25] }\n"
    "initializer { name: 'w_z' data_type: 3 dims: 2 int32_data: [0,0] }\n";
std::string Weights() {
  return kInt8Weights + Node("DequantizeLinear", "w w_s w_z", "c.weight", "attribute { name: 'axis' type: INT i: 0 }");
}

TEST(OnnxImport, APairOfRoundingsIsNothingAndItsLevelsAreRanges) {
  const ImportedNet imported = Imported(Weights() + Steps("a", 0.5, "2") + Steps("b", 2, "3") + Rounded("x", "a") +
                                            Node("Conv", "x_r c.weight", "c") + Rounded("c", "b") +
                                            Node("Sigmoid", "c_r", "s") + Node("Abs", "s", "y"),
                                        kImage);
  EXPECT_THAT(TypesIn(imported), ElementsAre("Convolution", "Sigmoid", "AbsVal"));
  EXPECT_THAT(imported.weights.at(0).values, ElementsAre(63.5, 63.5, 63.5, -63.5, 16, 16, 16, 16));
  ASSERT_EQ(imported.ranges.convolutions.size(), 1U);
  const ConvolutionRanges& ranges = imported.ranges.convolutions.at("c");
  EXPECT_EQ(ranges.input_low, 0);
  EXPECT_EQ(ranges.input_high, 127.5);
  EXPECT_EQ(ranges.output_low, -256);
  EXPECT_EQ(ranges.output_high, 254);
  EXPECT_THAT(ranges.weights, ElementsAre(63.5, 16));
  EXPECT_NE(ranges.checksum, 0U);
}

TEST(OnnxImport, ARoundingThatCutsOffWhatIsNegativeIsAReLU) {
  const std::string convolution = Weights() + Node("Conv", "x c.weight", "c");
  EXPECT_THAT(TypesIn(Imported(convolution + Steps("a", 2, "2") + Rounded("c", "a") + Node("Abs", "c_r", "y"))),
              ElementsAre("Convolution", "ReLU", "AbsVal"));
  // With a ReLU in front there is no second one, and with a zero point nothing is cut off.
  EXPECT_THAT(TypesIn(Imported(convolution + Node("Relu", "c", "r") + Steps("a", 2, "2") + Rounded("r", "a") +
                               Node("Abs", "r_r", "y"))),
              ElementsAre("Convolution", "ReLU", "AbsVal"));
  EXPECT_THAT(TypesIn(Imported(convolution + Steps("a", 2, "2", 128) + Rounded("c", "a") + Node("Abs", "c_r", "y"))),
              ElementsAre("Convolution", "AbsVal"));
}

TEST(OnnxImport, SignedStepsOfWhatIsNeverNegativeBeginAtZero) {
  const ImportedNet imported = Imported(Weights() + Steps("a", 2, "3") + Node("Relu", "x", "r") +
                                        Node("MaxPool", "r", "p", List("kernel_shape", "2,2")) + Rounded("p", "a") +
                                        Node("Conv", "p_r c.weight", "y"));
  const ConvolutionRanges& ranges = imported.ranges.convolutions.at("c");
  EXPECT_EQ(ranges.input_low, 0);
  EXPECT_EQ(ranges.input_high, 254);
  // Nothing rounds the result: the range is that of its largest sum.
  EXPECT_EQ(ranges.output_high, 4 * 63.5 * 254);
}

TEST(OnnxImport, OfTwoThatAreSummedTheRoundedOneComesLast) {
  const std::string other = Ones("d.weight", {2, 4, 1, 1});
  const ImportedNet imported =
      Imported(Weights() + other + Steps("a", 0.5, "2") + Steps("b", 2, "3") + Steps("e", 4, "2") + Rounded("x", "a") +
               Node("Conv", "x_r c.weight", "c") + Rounded("c", "b") + Node("Conv", "x_r d.weight", "d") +
               Node("Add", "c_r d", "s") + Node("Relu", "s", "t") + Rounded("t", "e") + Node("Abs", "t_r", "y"));
  EXPECT_EQ(imported.net.layer(1).name(), "d");
  EXPECT_EQ(imported.net.layer(2).name(), "c");
  EXPECT_EQ(imported.ranges.convolutions.at("c").output_high, 254);
  // The other does the work of the sum and the ReLU.
  EXPECT_EQ(imported.ranges.convolutions.at("d").output_low, 0);
  EXPECT_EQ(imported.ranges.convolutions.at("d").output_high, 4 * 255);
}

TEST(OnnxImport, AConvolutionWithABatchNormOfItsOwnHasNoRanges) {
  const std::string norm = Ones("g", {2}) + Ones("h", {2}) + Ones("m", {2}) + Ones("v", {2});
  const ImportedNet imported =
      Imported(Weights() + norm + Steps("a", 0.5, "2") + Rounded("x", "a") + Node("Conv", "x_r c.weight", "c") +
               Node("BatchNormalization", "c g h m v", "y"));
  EXPECT_THAT(imported.ranges.convolutions, IsEmpty());
}

TEST(OnnxImport, IntegersThatALayerWouldReadAreRefused) {
  const std::string rounded = Steps("a", 0.5, "2") + Rounded("x", "a");
  EXPECT_THAT(ErrorOf(Bytes(rounded + Node("MaxPool", "x_q", "y", List("kernel_shape", "2,2")))),
              HasSubstr("op MaxPool cannot be imported: it takes the 8-bit integers of \"x_q\""));
  EXPECT_THAT(ErrorOf(Bytes(rounded + Node("Cast", "x_q", "y", "attribute { name: 'to' type: INT i: 1 }"))),
              HasSubstr("it takes the 8-bit integers"));
  EXPECT_THAT(ErrorOf(Bytes(rounded + Node("Identity", "x_r", "y"), kImage, "y x_q")),
              HasSubstr("output \"x_q\" is 8-bit integers"));
  EXPECT_THAT(ErrorOf(Bytes(rounded + Steps("b", 0.25, "2") + Node("DequantizeLinear", "x_q b_s b_z", "y"))),
              HasSubstr("another scale or zero point than the QuantizeLinear in front"));
  EXPECT_THAT(ErrorOf(Bytes(Steps("c", 1, "6") + Node("QuantizeLinear", "x c_s c_z", "q") +
                            Node("DequantizeLinear", "q c_s c_z", "y"))),
              HasSubstr("another type than int8 and uint8"));
  EXPECT_THAT(ErrorOf(Bytes(Node("DynamicQuantizeLinear", "x", "q s z") + Node("DequantizeLinear", "q s z", "y"))),
              HasSubstr("op DynamicQuantizeLinear has no form in layers here"));
}

TEST(OnnxFold, NumbersOfHostileFilesDoNotOverflow) {
  const auto fold = [](const std::string& type, const std::vector<OnnxTensor>& inputs) {
    onnx::NodeProto node;
    node.set_op_type(type);
    node.add_output("y");
    FoldBudget budget(1 << 20);
    std::vector<const OnnxTensor*> in;
    for (const OnnxTensor& input : inputs) in.push_back(&input);
    return Fold({.node = node, .opset = 17, .in = std::move(in), .budget = budget})->front();
  };
  constexpr int64_t kHuge = int64_t{1} << 62;
  const OnnxTensor none = WholeTensor({0, 4}, {});
  EXPECT_THROW(fold("Tile", {none, WholeTensor({2}, {1, kHuge})}), Error);
  EXPECT_THROW(fold("Transpose", {WholeTensor({0, kHuge, 4}, {})}), Error);
  EXPECT_THROW(fold("Concat", {WholeTensor({kHuge, 0}, {}), WholeTensor({kHuge, 0}, {})}), Error);
  const OnnxTensor three = WholeTensor({3}, {5, 6, 7});
  const auto one = [](int64_t number) { return WholeTensor({1}, {number}); };
  EXPECT_EQ(fold("Slice", {three, one(1), one(INT64_MAX), one(0), one(INT64_MAX)}).ints, Ints{6});
  EXPECT_THAT(fold("Range", {one(INT64_MAX), one(INT64_MIN), one(1)}).ints, IsEmpty());
  EXPECT_EQ(fold("Range", {one(INT64_MIN), one(INT64_MAX), one(kHuge)}).ints, (Ints{INT64_MIN, -kHuge, 0, kHuge}));
}

TEST(OnnxShapeRules, SlicesAreThoseOfNumpy) {
  const auto slice = [](int64_t begin, int64_t end, int64_t step) {
    const SliceAxis s = SlicesOf({10}, {begin}, {end}, {0}, {step}).at(0);
    return Ints{s.begin, s.count};
  };
  EXPECT_EQ(slice(2, 7, 1), (Ints{2, 5}));
  EXPECT_EQ(slice(-3, INT64_MAX, 1), (Ints{7, 3}));
  EXPECT_EQ(slice(1, 10, 4), (Ints{1, 3}));
  EXPECT_EQ(slice(-1, INT64_MIN + 1, -1), (Ints{9, 10}));
  EXPECT_EQ(slice(8, 2, -3), (Ints{8, 2}));
  EXPECT_EQ(slice(5, 5, 1)[1], 0);
  EXPECT_THROW(slice(0, 5, 0), Error);
  EXPECT_EQ(ReshapedDims({2, 3, 4}, {0, -1}, false), (Ints{2, 12}));
  EXPECT_THROW(ReshapedDims({2, 3, 4}, {5, -1}, false), Error);
  EXPECT_EQ(SplitSizes(7, std::nullopt, 3), (Ints{3, 3, 1}));
}

TEST(OnnxTensors, ValuesBesideTheFileStayBesideIt) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / StrCat("moka_onnx_import_", getpid());
  std::filesystem::create_directories(folder);
  WriteFileAtomically(folder / "w.bin", std::string(8, '\0'));
  const auto read = [&](const std::string& location, const std::string& more) {
    onnx::TensorProto tensor;
    google::protobuf::TextFormat::ParseFromString(
        StrCat("data_type: 1 dims: 2 data_location: EXTERNAL external_data { key: 'location' value: '", location,
               "' } ", more),
        &tensor);
    try {
      return StrCat("read ", OnnxTensorReader("m", folder).Read(tensor, "w").floats.size());
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(read("w.bin", ""), "read 2");
  EXPECT_THAT(read("../w.bin", ""), HasSubstr("leads out"));
  EXPECT_THAT(read("/etc/passwd", ""), HasSubstr("only files beside the model"));
  EXPECT_THAT(read("other.bin", ""), HasSubstr("not beside the model"));
  EXPECT_THAT(read("w.bin", "external_data { key: 'offset' value: '4' }"), HasSubstr("the file has 8"));
  std::filesystem::remove_all(folder);
}

TEST(OnnxTensors, ListedNumbersAreThoseOfTheType) {
  const auto read = [](const std::string& text) {
    onnx::TensorProto tensor;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(StrCat("dims: 1 ", text), &tensor));
    try {
      return StrCat("read ", OnnxTensorReader("m", ".").Read(tensor, "w").ints.at(0));
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(read("data_type: 2 int32_data: 255"), "read 255");
  EXPECT_THAT(read("data_type: 2 int32_data: 256"), HasSubstr("lists the value 256, which no uint8 is"));
  EXPECT_EQ(read("data_type: 3 int32_data: -128"), "read -128");
  EXPECT_THAT(read("data_type: 3 int32_data: 128"), HasSubstr("lists the value 128, which no int8 is"));
  EXPECT_THAT(read("data_type: 9 int32_data: 2"), HasSubstr("lists the value 2, which no bool is"));
  EXPECT_THAT(read("data_type: 12 uint64_data: 4294967296"), HasSubstr("which no uint32 is"));
  EXPECT_EQ(read("data_type: 13 uint64_data: 9223372036854775807"), "read 9223372036854775807");
  EXPECT_THAT(read("data_type: 13 uint64_data: 9223372036854775808"), HasSubstr("has a value of 2^63 or more"));
  EXPECT_THAT(read(R"(data_type: 13 raw_data: "\0\0\0\0\0\0\0\200")"), HasSubstr("has a value of 2^63 or more"));
}

}  // namespace
}  // namespace moka
