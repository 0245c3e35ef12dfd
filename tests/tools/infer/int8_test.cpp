// 8-bit inference: calibration, its file, and the pass that puts convolutions on integers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>

#include "core/error.h"
#include "core/rng.h"
#include "core/text.h"
#include "graph/op.h"
#include "layers/net/catalog.h"
#include "optim/checkpoint/net_weights.h"
#include "proto/weights/weights.h"
#include "tests/threads.h"
#include "tools/measure/calibration.h"
#include "tools/measure/machine.h"

namespace moka {
namespace {

// Histograms ---------------------------------------------------------------------------------------------------------

TEST(MagnitudeHistogram, UniformValuesAreKeptWhole) {
  MagnitudeHistogram histogram;
  std::vector<float> values;
  for (int i = 1; i <= 10000; ++i) values.push_back(static_cast<float>(i) * 1e-3F);
  histogram.Add(values);
  EXPECT_NEAR(histogram.BestLimit(255), 10.0, 0.05);
  EXPECT_EQ(histogram.low(), 0);
}

TEST(MagnitudeHistogram, OneOutlierIsCutOff) {
  MagnitudeHistogram histogram;
  std::vector<float> values(1000000);
  RandomStream random(1, 2);
  for (float& v : values) v = static_cast<float>(random.Normal(0, 1));
  histogram.Add(values);
  const double alone = histogram.BestLimit(255);
  EXPECT_GT(alone, 3.0);
  // A million roundings cost 1e6 (limit/255)^2/12, cutting off 40 costs (40 - limit)^2: least at 40/(1 + 1e6/255^2/12).
  histogram.Add(std::vector<float>{40});
  EXPECT_NEAR(histogram.BestLimit(255), 40 / (1 + 1e6 / (255.0 * 255 * 12)), 0.3);
  EXPECT_LT(histogram.low(), -4.0);
}

TEST(MagnitudeHistogram, FewerLevelsGiveASmallerLimit) {
  MagnitudeHistogram histogram;
  std::vector<float> values(100000);
  RandomStream random(3, 4);
  for (float& v : values) v = static_cast<float>(random.Normal(0, 1));
  histogram.Add(values);
  EXPECT_LT(histogram.BestLimit(7), histogram.BestLimit(127));
}

TEST(MagnitudeHistogram, NothingIsNoLimit) {
  MagnitudeHistogram histogram;
  EXPECT_EQ(histogram.BestLimit(255), 0);
  histogram.Add(std::vector<float>{0, 0, NAN, INFINITY});
  EXPECT_EQ(histogram.BestLimit(255), 0);
}

// The file -----------------------------------------------------------------------------------------------------------

class QuantizationFile : public testing::Test {
 protected:
  QuantizationFile() : file_(std::filesystem::path(testing::TempDir()) / StrCat("ranges-", getpid(), ".int8.json")) {}
  ~QuantizationFile() override { std::filesystem::remove(file_); }
  QuantizationFile(const QuantizationFile&) = delete;
  QuantizationFile& operator=(const QuantizationFile&) = delete;

  std::string Refusal(const std::string& text) const {
    std::ofstream(file_, std::ios::trunc) << text;
    try {
      ReadQuantization(file_);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kConfig);
      return error.what();
    }
    return "accepted";
  }

  std::filesystem::path file_;
};

TEST_F(QuantizationFile, RoundTrip) {
  Quantization written;
  written.convolutions["conv1"] = {-1.5, 2.25, 0, 7.125, {0.1, 1.0 / 3}};
  WriteQuantization(written, file_);
  const Quantization read = ReadQuantization(file_);
  ASSERT_EQ(read.convolutions.size(), 1U);
  const ConvolutionRanges& r = read.convolutions.at("conv1");
  EXPECT_EQ(r.input_low, -1.5);
  EXPECT_EQ(r.input_high, 2.25);
  EXPECT_EQ(r.output_low, 0);
  EXPECT_EQ(r.output_high, 7.125);
  EXPECT_EQ(r.weights, (std::vector<double>{0.1, 1.0 / 3}));
}

TEST_F(QuantizationFile, WhatIsNoneIsRefusedWithTheReason) {
  EXPECT_NE(Refusal("").find("no ranges"), std::string::npos);
  EXPECT_NE(Refusal("{\"convolutions\": 3}").find("no ranges"), std::string::npos);
  EXPECT_NE(Refusal(R"({"convolutions": {"c": {}}})").find("layer \"c\" has no list \"input\""), std::string::npos);
  EXPECT_NE(Refusal(R"({"convolutions": {"c": {"input": [1], "output": [0, 1], "weights": []}}})").find("[low, high]"),
            std::string::npos);
  EXPECT_NE(Refusal(R"({"convolutions": {"c": {"input": ["a", 1], "output": [0, 1], "weights": []}}})").find("number"),
            std::string::npos);
}

// The pass -----------------------------------------------------------------------------------------------------------

// first (on signed data) -> max pooling -> second -> third + shortcut of the pooling -> fourth, a real result.
struct SmallNet {
  Graph graph{StandardCatalog()};
  ParameterStore store;

  SmallNet() {
    const ValueId x = graph.AddInput("x", {DType::kFloat32, Shape{4, 16, 12, 12}, {}});
    const ValueId first = Unit("first", x, 32, true);
    const GraphBuilder b(graph, {"pool", {}, "", kNoId});
    const ValueId pooled =
        b.Add("pool_max", {first},
              {{"kernel", Ints{2, 2}}, {"stride", Ints{2, 2}}, {"pad_begin", Ints{0, 0}}, {"pad_end", Ints{0, 0}}})[0];
    const ValueId second = Unit("second", pooled, 48, true);
    const ValueId third = Unit("third", second, 32, false);
    const GraphBuilder sum(graph, {"sum", {}, "", kNoId});
    const ValueId joined = sum.Pointwise("max(x0,0)", {sum.Pointwise("x0+x1", {third, pooled})});
    graph.AddOutput("y", Unit("fourth", joined, 16, false));
  }

  ValueId Unit(const std::string& name, ValueId x, int64_t channels, bool relu) {
    const GraphBuilder b(graph, {name, {}, "", kNoId});
    const ValueId w = State(name + "/w", Shape{channels, graph.shape(x)[1], 3, 3}, 0.1);
    const ValueId bias = State(name + "/b", Shape{channels}, 0.3);
    const ValueId y = b.Add1("convolution", {x, w, bias},
                             {{"stride", Ints{1, 1}},
                              {"pad_begin", Ints{1, 1}},
                              {"pad_end", Ints{1, 1}},
                              {"dilation", Ints{1, 1}},
                              {"groups", int64_t{1}}});
    return relu ? b.Pointwise("max(x0,0)", {y}) : y;
  }

  ValueId State(const std::string& name, const Shape& shape, double range) {
    store.Add(name, shape);
    std::vector<float> values(static_cast<size_t>(shape.Count()));
    RandomStream random(5, StableHash(name));
    for (float& v : values) v = static_cast<float>(random.Uniform(-range, range));
    store.Set(name, values);
    return graph.AddState(name, {DType::kFloat32, shape, {}});
  }

  std::unique_ptr<Program> Compiled(CompileOptions options) {
    options.inference = true;
    std::unique_ptr<Program> program = Compile(graph, store, options);
    RandomStream random(6, 7);
    for (float& v : program->input("x").as<float>()) v = static_cast<float>(random.Uniform(-1, 1));
    program->Run();
    return program;
  }
};

Quantization Calibrated() {
  SmallNet net;
  CompileOptions options;
  options.observes_convolutions = true;
  Calibration calibration;
  calibration.Observe(*net.Compiled(options));
  Quantization quantization = calibration.Finish();
  quantization.weight_limit = WeightLimit();
  return quantization;
}

std::unique_ptr<Program> OnIntegers(SmallNet& net, const Quantization& quantization) {
  CompileOptions options;
  options.quantization = std::make_shared<Quantization>(quantization);
  options.disabled_passes = {"tracks"};  // which would repeat the steps
  return net.Compiled(options);
}

int64_t StepsOf(const Program& program, std::string_view op) {
  int64_t count = 0;
  for (const StepReport& step : program.steps()) count += step.op == op && !step.is_constant ? 1 : 0;
  return count;
}

TEST(Quantize, CalibrationSeesWhatFlows) {
  const Quantization quantization = Calibrated();
  ASSERT_EQ(quantization.convolutions.size(), 4U);
  EXPECT_LT(quantization.convolutions.at("first").input_low, -0.9);
  EXPECT_GE(quantization.convolutions.at("first").output_low, 0);
  EXPECT_GE(quantization.convolutions.at("second").input_low, 0);
  EXPECT_LT(quantization.convolutions.at("fourth").output_low, 0);
  EXPECT_EQ(quantization.convolutions.at("second").weights.size(), 48U);
  EXPECT_NEAR(quantization.convolutions.at("second").weights[0], 0.1, 0.005);
}

TEST(Quantize, IntegersFlowFromConvolutionToConvolution) {
  SmallNet real_net;
  const std::unique_ptr<Program> real = real_net.Compiled({});
  SmallNet net;
  const std::unique_ptr<Program> program = OnIntegers(net, Calibrated());
  EXPECT_EQ(StepsOf(*program, "convolution"), 1);  // the first: its input has signs
  EXPECT_EQ(StepsOf(*program, "convolution_int8"), 3);
  EXPECT_EQ(StepsOf(*program, "quantize"), 1);
  EXPECT_EQ(StepsOf(*program, "dequantize"), 0);  // the last convolution gives real numbers itself
  EXPECT_EQ(StepsOf(*program, "pointwise"), 0);
  double error = 0;
  double power = 0;
  const std::span<const float> expected = real->output("y").as<const float>();
  const std::span<const float> found = program->output("y").as<const float>();
  for (size_t i = 0; i < expected.size(); ++i) {
    error += std::pow(static_cast<double>(found[i]) - expected[i], 2);
    power += std::pow(static_cast<double>(expected[i]), 2);
  }
  EXPECT_LT(std::sqrt(error / power), 0.02);
  EXPECT_GT(error, 0);
}

TEST(Quantize, IntegersFlowInTracksToo) {
  const Threads team(2);
  SmallNet net;
  SmallNet other;
  CompileOptions options;
  options.quantization = std::make_shared<Quantization>(Calibrated());
  const std::unique_ptr<Program> tracks = net.Compiled(options);
  const std::unique_ptr<Program> whole = OnIntegers(other, Calibrated());
  EXPECT_EQ(StepsOf(*tracks, "convolution_int8"), 2 * 3);
  EXPECT_EQ(StepsOf(*tracks, "quantize"), 1);  // before the images part
  const std::span<const float> expected = whole->output("y").as<const float>();
  const std::span<const float> found = tracks->output("y").as<const float>();
  float scale = 0;
  for (const float y : expected) scale = std::max(scale, std::abs(y));
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(found[i], expected[i], 0.01F * scale) << i;
}

TEST(Quantize, ConvolutionsWithoutFittingRangesStay) {
  Quantization quantization = Calibrated();
  quantization.convolutions.erase("second");
  quantization.convolutions.at("fourth").input_low = -1;  // no input of signs runs on integers
  SmallNet net;
  const std::unique_ptr<Program> program = OnIntegers(net, quantization);
  EXPECT_EQ(StepsOf(*program, "convolution_int8"), 1);
  EXPECT_EQ(StepsOf(*program, "convolution"), 3);
  SmallNet other;
  EXPECT_EQ(StepsOf(*OnIntegers(other, {}), "convolution"), 4);
}

// oneDNN has a reference for every shape, which took 1,600 ms for LeNet's first layer where float32 takes 1.
TEST(Quantize, NoConvolutionRunsByAReference) {
  for (const int64_t channels : {1, 3, 20, 32}) {
    Graph graph(StandardCatalog());
    const ValueId x = graph.AddInput("x", {DType::kFloat32, Shape{2, channels, 12, 12}, {}});
    ParameterStore store;
    const Shape windows{20, channels, 5, 5};
    store.Add("conv/w", windows);
    store.Set("conv/w", std::vector<float>(static_cast<size_t>(windows.Count()), 0.1F));
    const GraphBuilder b(graph, {"conv", {}, "", kNoId});
    graph.AddOutput("y", b.Add1("convolution", {x, graph.AddState("conv/w", {DType::kFloat32, windows, {}})},
                                {{"stride", Ints{1, 1}},
                                 {"pad_begin", Ints{0, 0}},
                                 {"pad_end", Ints{0, 0}},
                                 {"dilation", Ints{1, 1}},
                                 {"groups", int64_t{1}}}));
    CompileOptions options;
    options.inference = true;
    auto quantization = std::make_shared<Quantization>();
    quantization->convolutions["conv"] = {0, 1, 0, 1, std::vector<double>(20, 0.1)};
    quantization->weight_limit = WeightLimit();
    options.quantization = quantization;
    const std::unique_ptr<Program> program = Compile(graph, store, options);
    for (const StepReport& step : program->steps()) {
      EXPECT_THAT(step.implementation, testing::Not(testing::StartsWith("ref")))
          << channels << " channels, " << step.op;
    }
  }
}

// Ranges say nothing of other weights.
TEST_F(QuantizationFile, RangesOfOtherWeightsAreRefused) {
  const std::filesystem::path weights =
      std::filesystem::path(testing::TempDir()) / StrCat("w-", getpid(), ".safetensors");
  NetBlob blob;
  blob.name = "conv/0";
  blob.layer = "conv";
  blob.shape = {2, 3, 1, 1};
  const std::vector<NetBlob> blobs = {blob};
  const auto put = [&](float last) {
    const std::vector<NamedBlob> written = {{"conv", 0, {2, 3, 1, 1}, {1, 2, 3, 4, 5, last}}};
    WriteSafetensors(weights, written);
  };
  const auto load = [&](const std::string& layer, uint64_t checksum) -> std::string {
    ParameterStore store;
    AddBlobs(blobs, 1, store);
    Quantization written;
    written.convolutions[layer] = {0, 1, 0, 1, {3, 6}, checksum};
    WriteQuantization(written, file_);
    CompileOptions options;
    options.quantization = std::make_shared<Quantization>(ReadQuantization(file_));
    try {
      LoadWeightsFor(options, weights.string(), blobs, store);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kConfig);
      return error.what();
    }
    Quantization noted = *options.quantization;
    NoteWeights(blobs, store, noted);
    return std::to_string(noted.convolutions.at(layer).checksum);
  };
  put(6);
  const uint64_t checksum = std::stoull(load("conv", 0));
  EXPECT_NE(checksum, 0U);
  EXPECT_EQ(load("conv", checksum), std::to_string(checksum));
  EXPECT_NE(load("other", checksum).find("of another net, which has no layer \"other\""), std::string::npos);
  put(std::nextafter(6.0F, 7.0F));
  EXPECT_NE(load("conv", checksum).find("those of layer \"conv\""), std::string::npos);
  std::filesystem::remove(weights);
}

// Whatever cannot be the ranges of a layer of this net is refused, and never runs in real numbers unsaid.
TEST(Quantize, RangesThatCannotBeOfTheLayerAreRefused) {
  const auto refusal = [](const std::function<void(ConvolutionRanges&)>& change) -> std::string {
    Quantization quantization = Calibrated();
    quantization.file = "net.int8.json";
    change(quantization.convolutions.at("fourth"));
    SmallNet net;
    try {
      OnIntegers(net, quantization);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kConfig);
      return error.what();
    }
    return "accepted";
  };
  const std::string start = "net.int8.json: 8-bit ranges of layer \"fourth\": ";
  EXPECT_THAT(refusal([](ConvolutionRanges& r) { r.weights.pop_back(); }),
              testing::AllOf(testing::HasSubstr(start), testing::HasSubstr("expected one for each of")));
  EXPECT_THAT(refusal([](ConvolutionRanges& r) { r.weights[0] = -1; }), testing::HasSubstr("holds -1"));
  EXPECT_THAT(refusal([](ConvolutionRanges& r) { r.weights[0] = INFINITY; }), testing::HasSubstr("no largest"));
  EXPECT_THAT(refusal([](ConvolutionRanges& r) { std::swap(r.input_low, r.input_high); }),
              testing::HasSubstr("\"input\" is ["));
  EXPECT_THAT(refusal([](ConvolutionRanges& r) { r.output_high = -1; }), testing::HasSubstr("\"output\" is ["));
  EXPECT_THAT(refusal([](ConvolutionRanges& r) { r.output_low = NAN; }), testing::HasSubstr("\"output\" is ["));
  EXPECT_EQ(refusal([](ConvolutionRanges&) {}), "accepted");
}

TEST(Quantize, ANetThatStaysInRealNumbersIsTold) {
  const auto said = [](const Quantization& quantization) {
    SmallNet net;
    testing::internal::CaptureStderr();
    OnIntegers(net, quantization);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(said({}), testing::HasSubstr("no convolution runs on 8-bit integers"));
  EXPECT_THAT(said(Calibrated()), testing::Not(testing::HasSubstr("8-bit")));
}

TEST(Quantize, ThePassCanBeDisabled) {
  SmallNet net;
  CompileOptions options;
  options.quantization = std::make_shared<Quantization>(Calibrated());
  options.disabled_passes = {"quantize"};
  EXPECT_EQ(StepsOf(*net.Compiled(options), "convolution_int8"), 0);
}

}  // namespace
}  // namespace moka
