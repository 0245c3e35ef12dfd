// Fields that are read under a condition that does not hold are said, and no others: not in layers' own examples, and
// not in the nets of the zoo.
#include "layers/net/moot_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/error.h"
#include "core/text.h"
#include "layers/net/manual_page.h"
#include "layers/net/net.h"
#include "proto/nets/net_file.h"
#include "tools/nets/net_source.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
namespace fs = std::filesystem;

std::vector<std::string> MootOf(const std::string& layer, const std::vector<Shape>& bottoms) {
  const NetParameter net = NetFromText(StrCat("layer { name: \"n\" top: \"y\" ", layer, " }"), "n.prototxt");
  const std::vector<ShapedLayer> layers = {{&net.layer(0), bottoms}};
  return MootNetFields(layers);
}

TEST(MootFields, AreSaidWithWhatKeepsThemFromBeingRead) {
  const Shape maps{2, 4, 6, 6};
  const Shape rows{2, 4};
  EXPECT_THAT(
      MootOf("type: \"LRN\" bottom: \"x\" lrn_param { norm_region: WITHIN_CHANNEL local_size: 3\n k: 2 }", {maps}),
      ElementsAre(HasSubstr("n.prototxt:2:2: lrn_param.k of layer \"n\" (LRN) changes nothing while "
                            "lrn_param.norm_region is WITHIN_CHANNEL")));
  EXPECT_THAT(MootOf("type: \"Convolution\" bottom: \"x\" convolution_param { num_output: 2 kernel_size: 3 bias_term: "
                     "false bias_filler { type: \"constant\" value: 0.2 } }",
                     {maps}),
              ElementsAre(HasSubstr("convolution_param.bias_filler of layer \"n\" (Convolution) changes nothing while "
                                    "convolution_param.bias_term is false")));
  EXPECT_THAT(MootOf("type: \"InnerProduct\" bottom: \"x\" inner_product_param { num_output: 2 bias_term: false "
                     "bias_filler { type: \"constant\" value: 0.2 } }",
                     {rows}),
              ElementsAre(HasSubstr("inner_product_param.bias_filler")));
  EXPECT_THAT(
      MootOf("type: \"Scale\" bottom: \"x\" scale_param { bias_filler { type: \"constant\" value: 1 } }", {rows}),
      ElementsAre(HasSubstr("scale_param.bias_filler of layer \"n\" (Scale) changes nothing without "
                            "scale_param.bias_term: true")));
  EXPECT_THAT(MootOf("type: \"Scale\" bottom: \"x\" bottom: \"s\" scale_param { num_axes: 2 filler { value: 3 } }",
                     {rows, Shape{4}}),
              testing::UnorderedElementsAre(HasSubstr("scale_param.num_axes"), HasSubstr("scale_param.filler")));
  EXPECT_THAT(MootOf("type: \"MVN\" bottom: \"x\" mvn_param { normalize_variance: false eps: 0.1 }", {maps}),
              ElementsAre(HasSubstr("mvn_param.eps of layer \"n\" (MVN) changes nothing while "
                                    "mvn_param.normalize_variance is false")));
  EXPECT_THAT(
      MootOf("type: \"SoftmaxWithLoss\" bottom: \"x\" bottom: \"l\" loss_param { normalize: false normalization: "
             "VALID }",
             {rows, Shape{2}}),
      ElementsAre(HasSubstr("loss_param.normalize")));
  EXPECT_THAT(MootOf("type: \"LSTM\" bottom: \"t\" bottom: \"c\" recurrent_param { num_output: 3 debug_info: true "
                     "weight_filler { type: \"xavier\" } }",
                     {Shape{5, 2, 3}, Shape{5, 2}}),
              ElementsAre(HasSubstr("recurrent_param.debug_info")));
  EXPECT_THAT(
      MootOf("type: \"BatchNorm\" bottom: \"x\" batch_norm_param { use_global_stats: true "
             "moving_average_fraction: 0.9 }",
             {maps}),
      ElementsAre(HasSubstr("batch_norm_param.moving_average_fraction of layer \"n\" (BatchNorm) changes nothing "
                            "while batch_norm_param.use_global_stats is true")));
  EXPECT_THAT(MootOf("type: \"Interp\" bottom: \"x\" interp_param { height: 9 width: 9 zoom_factor: 2 }", {maps}),
              testing::UnorderedElementsAre(HasSubstr("interp_param.height"), HasSubstr("interp_param.width")));
  EXPECT_THAT(MootOf("type: \"Dropout\" bottom: \"x\" dropout_param { dropout_ratio: 0.3 }", {rows}), IsEmpty())
      << "read in TRAIN alone";
}

TEST(MootFields, WindowsAtTheirDefaultsAreNot) {
  const auto pooling = [](const std::string& fields) {
    return MootOf(StrCat("type: \"Pooling\" bottom: \"x\" pooling_param { ", fields, " }"), {Shape{2, 4, 6, 6}});
  };
  EXPECT_THAT(pooling("kernel_size: 1 stride: 2 pad: 0"), IsEmpty());
  EXPECT_THAT(pooling("kernel_size: 1 stride: 2 pad: 0 pad: 0"), IsEmpty());
  const auto convolution = [](const std::string& fields, const Shape& maps) {
    return MootOf(StrCat("type: \"Convolution\" bottom: \"x\" convolution_param { num_output: 2 ", fields, " }"),
                  {maps});
  };
  EXPECT_THAT(convolution("kernel_size: 3 pad: 1 dilation: 1", Shape{1, 3, 1, 1}), IsEmpty());
  EXPECT_THAT(convolution("kernel_size: 1 dilation: 1", Shape{1, 3, 6, 6}), IsEmpty());
  const auto depthwise = [](int channels) {
    return MootOf(
        "type: \"ConvolutionDepthwise\" bottom: \"x\" convolution_param { kernel_size: 3 num_output: 4 group: 4 }",
        {Shape{2, channels, 6, 6}});
  };
  EXPECT_THAT(depthwise(4), IsEmpty());
}

TEST(MootFields, LayersOfOneKindAreOneSentence) {
  const std::string text =
      "type: \"InnerProduct\" bottom: \"x\" inner_product_param { num_output: 2 bias_term: false "
      "bias_filler { type: \"constant\" value: 0.2 } } }";
  const NetParameter net = NetFromText(
      StrCat("layer { name: \"a\" top: \"y\" ", text, " layer { name: \"b\" top: \"z\" ", text), "n.prototxt");
  const std::vector<ShapedLayer> layers = {{&net.layer(0), {Shape{2, 4}}}, {&net.layer(1), {Shape{2, 6}}}};
  EXPECT_THAT(MootNetFields(layers), ElementsAre(HasSubstr(", as in 1 more")));
}

TEST(MootFields, ANumberThatMakesOthersMootIsAKindOfItsOwn) {
  const auto dropout = [](const std::string& name, const std::string& ratio) {
    return StrCat("layer { name: \"", name, "\" type: \"Dropout\" bottom: \"x\" top: \"", name,
                  "\" dropout_param { dropout_ratio: ", ratio, " scale_train: false } }\n");
  };
  const NetParameter net = NetFromText(dropout("a", "0.3") + dropout("b", "0") + dropout("c", "0.4"), "n.prototxt");
  std::vector<ShapedLayer> layers;
  for (const LayerParameter& layer : net.layer()) layers.push_back({&layer, {Shape{2, 4}}});
  EXPECT_THAT(MootNetFields(layers), ElementsAre(HasSubstr("n.prototxt:2:")));
}

// Returns the sentences of building about fields that change nothing, but for those that no layer reads.
std::vector<std::string> SaidOf(const NetParameter& net) {
  testing::internal::CaptureStderr();
  try {
    NetOptions options;
    options.state = net.state();
    options.data_types = GuessDataTypes();
    BuildNet(net, options);
  } catch (const Error&) {
    // told elsewhere
  }
  std::vector<std::string> said;
  for (const std::string& line : Split(testing::internal::GetCapturedStderr(), '\n')) {
    if (line.find(") changes nothing") != std::string::npos) said.push_back(line);
  }
  return said;
}

TEST(MootFields, ExamplesOfLayersHaveNone) {
  for (const LayerDef& def : AllLayers()) {
    NetParameter net = NetFromText(ManualPageOf(def.type).example, StrCat(def.type, " example"));
    if (!net.state().has_phase()) net.mutable_state()->set_phase(TRAIN);
    EXPECT_THAT(SaidOf(net), IsEmpty()) << def.type;
  }
}

TEST(MootFields, TheZooHasNone) {
  int nets = 0;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(MOKA_SOURCE_DIR) / "models")) {
    if (entry.path().extension() != ".prototxt" || entry.path().filename() == "solver.prototxt") continue;
    NetParameter net;
    try {
      net = ReadNet(entry.path());
    } catch (const Error&) {
      continue;  // a solver of another name
    }
    if (net.layer_size() == 0) continue;
    ++nets;
    for (const Phase phase : {TRAIN, TEST}) {
      NetParameter own = net;
      own.mutable_state()->set_phase(phase);
      EXPECT_THAT(SaidOf(own), IsEmpty()) << entry.path() << " " << Phase_Name(phase);
    }
  }
  EXPECT_GT(nets, 30);
}

}  // namespace
}  // namespace moka
