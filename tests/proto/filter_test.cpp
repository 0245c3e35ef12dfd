// The layers that a state lets in, and the crops of published nets.
#include "proto/nets/filter.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "proto/nets/net_file.h"
#include "tests/proto/errors_of.h"

namespace moka {
namespace {

using ::testing::HasSubstr;

std::string NamesIn(const std::string& layers, const NetState& state) {
  std::string names;
  const NetParameter net = FilterNet(NetFromText(layers, "n"), state);
  for (const LayerParameter& layer : net.layer()) names += layer.name();
  return names;
}

NetState State(Phase phase, int level = 0, std::vector<std::string> stages = {}) {
  NetState state;
  state.set_phase(phase);
  state.set_level(level);
  for (const std::string& stage : stages) state.add_stage(stage);
  return state;
}

TEST(FilterNet, KeepsLayersByPhase) {
  const std::string net =
      "layer { name: 'a' } layer { name: 'b' include { phase: TRAIN } } layer { name: 'c' exclude { phase: TRAIN } }";
  EXPECT_EQ(NamesIn(net, State(TRAIN)), "ab");
  EXPECT_EQ(NamesIn(net, State(TEST)), "ac");
}

TEST(FilterNet, KeepsLayersByLevelAndStage) {
  const std::string net =
      "layer { name: 'a' include { min_level: 2 } } layer { name: 'b' include { max_level: 1 } }"
      "layer { name: 'c' include { stage: 's' not_stage: 't' } } layer { name: 'd' include { stage: 's' stage: 't' } }";
  EXPECT_EQ(NamesIn(net, State(TRAIN)), "b");
  EXPECT_EQ(NamesIn(net, State(TRAIN, 2, {"s"})), "ac");
  EXPECT_EQ(NamesIn(net, State(TRAIN, 1, {"t", "s"})), "bd");
}

TEST(FilterNet, AddsWhatIsGivenToTheNetsOwnState) {
  const std::string net =
      "state { stage: 's' level: 3 phase: TEST } layer { name: 'a' include { stage: 's' } }"
      "layer { name: 'b' include { stage: 't' } } layer { name: 'c' include { phase: TEST } }"
      "layer { name: 'd' include { min_level: 3 } }";
  const auto names = [&](const NetState& given) { return NamesIn(net, given); };
  EXPECT_EQ(names({}), "acd");
  EXPECT_EQ(names(State(TRAIN, 0, {"t"})), "ab") << "a level and a phase take the place of its own";
  const NetParameter filtered = FilterNet(NetFromText(net, "n"), State(TRAIN, 1, {"s", "t"}));
  EXPECT_EQ(StateText(filtered.state()), "phase TRAIN, level 1, stage \"s\", \"t\"");
  EXPECT_EQ(StateText(FilterNet(filtered, TRAIN).state()), StateText(filtered.state()));
}

// FCN-8s (Long, Shelhamer, Darrell 2015) as far as windows go; "crop" is the type of its three crops.
std::string Fcn8s(const std::string& crop) {
  std::string text = "layer { name: 'data' type: 'Input' top: 'data' }";
  const auto add = [&](const std::string& name, const std::string& type, const std::string& bottoms,
                       const std::string& fields = "") {
    text += "layer { name: '" + name + "' type: '" + type + "' top: '" + name + "' ";
    for (size_t begin = 0; begin < bottoms.size();) {
      const size_t end = std::min(bottoms.find(' ', begin), bottoms.size());
      text += "bottom: '" + bottoms.substr(begin, end - begin) + "' ";
      begin = end + 1;
    }
    text += fields + " }\n";
  };
  const std::string pool = "pooling_param { kernel_size: 2 stride: 2 }";
  add("conv1", "Convolution", "data", "convolution_param { kernel_size: 3 pad: 100 }");
  add("pool1", "Pooling", "conv1", pool);
  add("pool2", "Pooling", "pool1", pool);
  add("conv3", "Convolution", "pool2", "convolution_param { kernel_h: 5 kernel_w: 3 pad_h: 2 pad_w: 1 }");
  text += "layer { name: 'relu' type: 'ReLU' bottom: 'conv3' top: 'conv3' }";
  add("pool3", "Pooling", "conv3", pool);
  add("pool4", "Pooling", "pool3", pool);
  add("pool5", "Pooling", "pool4", pool);
  add("fc6", "Convolution", "pool5", "convolution_param { kernel_size: 4 dilation: 2 }");  // 7 pixels
  add("upscore2", "Deconvolution", "fc6", "convolution_param { kernel_size: 4 stride: 2 }");
  add("score_pool4", "Convolution", "pool4", "convolution_param { kernel_size: 1 }");
  add("score_pool4c", crop, "score_pool4 upscore2");
  add("fuse_pool4", "Eltwise", "upscore2 score_pool4c");
  add("upscore_pool4", "Deconvolution", "fuse_pool4", "convolution_param { kernel_size: 4 stride: 2 }");
  add("score_pool3", "Convolution", "pool3", "convolution_param { kernel_size: 1 }");
  add("score_pool3c", crop, "score_pool3 upscore_pool4");
  add("fuse_pool3", "Eltwise", "upscore_pool4 score_pool3c");
  add("upscore8", "Deconvolution", "fuse_pool3", "convolution_param { kernel_size: 16 stride: 8 }");
  add("score", crop, "upscore8 data");
  return text;
}

TEST(FilterNet, FindsThePublishedCropsOfFcn8s) {
  const NetParameter net = FilterNet(NetFromText(Fcn8s("AutoCrop"), "n"), TRAIN);
  std::vector<uint32_t> offsets;
  for (const LayerParameter& layer : net.layer()) {
    if (layer.type() != "AutoCrop") continue;
    EXPECT_EQ(layer.crop_param().axis(), 2);
    offsets.insert(offsets.end(), layer.crop_param().offset().begin(), layer.crop_param().offset().end());
  }
  EXPECT_THAT(offsets, testing::ElementsAre(5, 5, 9, 9, 31, 31));
  testing::internal::CaptureStderr();
  const NetParameter plain = FilterNet(NetFromText(Fcn8s("Crop"), "n"), TRAIN);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("layer \"score\" has no crop_param and begins at 0, as in BVLC Caffe; its pixels lie on those "
                        "of \"data\" at offset 31, 31"));
  for (const LayerParameter& layer : plain.layer()) EXPECT_EQ(layer.crop_param().offset_size(), 0);
  testing::internal::CaptureStderr();
  FilterNet(plain, TRAIN);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");  // said once
}

// Each crop is aligned by what is known of its bottoms, without a walk back through the net.
TEST(FilterNet, AlignsLongChainsOfCrops) {
  constexpr int kCrops = 20000;
  std::string text = "layer { name: 'd' top: 'x' }";
  for (int i = 0; i < kCrops; ++i) text += "layer { name: 'c' type: 'AutoCrop' bottom: 'x' bottom: 'x' top: 'x' }\n";
  const NetParameter net = FilterNet(NetFromText(text, "n"), TRAIN);
  ASSERT_EQ(net.layer_size(), kCrops + 1);
  EXPECT_EQ(net.layer(kCrops).crop_param().offset_size(), 2);
}

TEST(FilterNet, RefusesCropsThatNothingAligns) {
  const auto error = [](const std::string& layers, const std::string& crop) {
    return ErrorTextOf([&] {
      FilterNet(NetFromText("layer { name: 'd' top: 'd' top: 'e' } " + layers +
                                " layer { name: 'crop' type: 'AutoCrop' " + crop + " top: 'y' }",
                            "n"),
                TRAIN);
    });
  };
  const std::string pool = "layer { name: 'p' type: 'Pooling' bottom: 'd' top: 'p' pooling_param { kernel_size: 2 ";
  EXPECT_THAT(error("", "bottom: 'd' bottom: 'e'"), HasSubstr("are not made of one blob"));
  EXPECT_THAT(error(pool + "stride: 2 } }", "bottom: 'd' bottom: 'p'"), HasSubstr("lies on pixel 0.5*x-0.25"));
  EXPECT_THAT(error(pool + "} }", "bottom: 'd' bottom: 'p'"), HasSubstr("lies on pixel 1*x-0.5 of \"p\""));
  EXPECT_THAT(error(pool + "pad: 3 kernel_size: 1 } }", "bottom: 'd' bottom: 'p'"), HasSubstr("1*x+2.5"));
  EXPECT_THAT(error("layer { name: 'i' type: 'Interp' bottom: 'd' top: 'i' }", "bottom: 'i' bottom: 'd'"),
              HasSubstr("type Interp of layer \"i\" on the way"));
}

TEST(FilterNet, NeedsOneOfSeveralRules) {
  const std::string net =
      "layer { name: 'a' include { phase: TRAIN } include { stage: 's' } } layer { name: 'b' exclude { phase: TRAIN } "
      "exclude { stage: 's' } }";
  EXPECT_EQ(NamesIn(net, State(TRAIN)), "a");
  EXPECT_EQ(NamesIn(net, State(TEST)), "b");
  EXPECT_EQ(NamesIn(net, State(TEST, 0, {"s"})), "a");
}

TEST(FilterNet, GivesLayersTheirPhase) {
  const NetParameter net = FilterNet(NetFromText("layer { name: 'a' } layer { name: 'b' phase: TRAIN }", "n"), TEST);
  EXPECT_EQ(net.layer(0).phase(), TEST);
  EXPECT_EQ(net.layer(1).phase(), TRAIN);
  EXPECT_EQ(net.state().phase(), TEST);
}

TEST(FilterNet, RefusesBothKindsOfRules) {
  EXPECT_THAT(ErrorTextOf([] { NamesIn("layer { name: 'a' include { }\n exclude { } }", State(TRAIN)); }),
              HasSubstr("n:2:2: layer \"a\" has both include and exclude rules"));
}

}  // namespace
}  // namespace moka
