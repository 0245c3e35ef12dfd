// Two-stage detection: shapes and mistakes of its layers, what its random samplers promise, and the built-in Python
// layers with their param_str.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/device/tensor.h"
#include "core/text.h"
#include "layers/net/catalog.h"
#include "layers/types/python/python.h"
#include "one_layer.h"

namespace moka {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string PythonLayerText(const std::string& module, const std::string& layer, const std::string& param = "") {
  return StrCat("type: \"Python\" python_param { module: \"", module, "\" layer: \"", layer, "\" param_str: \"", param,
                "\" }");
}

const std::vector<NamedInput> kMapAndRois = {{"x", {2, 18, 8, 9}}, {"rois", {6, 5}}};

TEST(RoiTest, PooledShapes) {
  const auto shape = [](const std::string& fields) { return ShapesOf(kMapAndRois, {"y"}, fields)[0]; };
  EXPECT_EQ(shape("type: \"ROIPooling\" roi_pooling_param { pooled_h: 3 pooled_w: 4 }"), (Shape{6, 18, 3, 4}));
  EXPECT_EQ(shape("type: \"ROIPooling\" roi_pooling_param { pooled_size: 7 }"), (Shape{6, 18, 7, 7}));
  EXPECT_EQ(shape("type: \"ROIPooling\" roi_pooling_param { pooled_size: 7 pooled_size: 5 }"), (Shape{6, 18, 7, 5}));
  EXPECT_EQ(shape("type: \"ROIAlign\" roi_align_param { pooled_h: 2 pooled_w: 1 }"), (Shape{6, 18, 2, 1}));
  EXPECT_EQ(shape("type: \"PSROIPooling\" psroi_pooling_param { spatial_scale: 1 output_dim: 2 group_size: 3 }"),
            (Shape{6, 2, 3, 3}));
  EXPECT_EQ(shape("type: \"ROIWarping\" roi_warping_param { pooled_h: 2 pooled_w: 2 }"), (Shape{6, 18, 2, 2}));
}

TEST(RoiTest, RegionsMayStandOneAfterAnother) {
  const std::string pool = "type: \"ROIPooling\" roi_pooling_param { pooled_h: 3 pooled_w: 4 }";
  EXPECT_EQ(ShapesOf({{"x", {2, 18, 8, 9}}, {"rois", {1, 1, 6, 5}}}, {"y"}, pool)[0], (Shape{6, 18, 3, 4}));
  EXPECT_EQ(ShapesOf({{"x", {2, 18, 8, 9}}, {"rois", {6, 5, 1, 1}}}, {"y"}, pool)[0], (Shape{6, 18, 3, 4}));
}

TEST(RoiTest, PoolingMistakes) {
  const auto error = [](const std::string& fields, const std::vector<NamedInput>& inputs = kMapAndRois) {
    return ErrorsOf(OneLayer(inputs, {"y"}, fields));
  };
  const std::string pooling = "type: \"ROIPooling\" roi_pooling_param { pooled_h: 3 pooled_w: 3 }";
  EXPECT_THAT(error("type: \"ROIPooling\""),
              HasSubstr("layer \"l\": roi_pooling_param.pooled_h and pooled_w must be from 1 to 4096, found 0 and 0"));
  EXPECT_THAT(
      error("type: \"ROIPooling\" roi_pooling_param { pooled_h: 3 pooled_size: 3 }"),
      HasSubstr("roi_pooling_param.pooled_size is one side or height and width, without pooled_h and pooled_w"));
  EXPECT_THAT(error("type: \"ROIPooling\" roi_pooling_param { pooled_size: 2 spatial_scale: 0 }"),
              HasSubstr("roi_pooling_param.spatial_scale must be greater than 0, found 0"));
  EXPECT_THAT(error(pooling, {{"x", {2, 18, 8, 9}}, {"rois", {6, 4}}}),
              HasSubstr("bottom \"rois\" must be [R,5] (image, x1, y1, x2, y2), found [6,4]"));
  EXPECT_THAT(error(pooling, {{"x", {2, 18}}, {"rois", {6, 5}}}), HasSubstr("\"x\" must be [N,C,H,W], found [2,18]"));
  EXPECT_THAT(error("type: \"PSROIPooling\" psroi_pooling_param { spatial_scale: 1 output_dim: 4 group_size: 3 }"),
              HasSubstr("bottom \"x\" [2,18,8,9] must have output_dim * group_size^2 = 36 channels"));
  EXPECT_THAT(error("type: \"PSROIPooling\" psroi_pooling_param { output_dim: 2 group_size: 3 }"),
              HasSubstr("psroi_pooling_param.spatial_scale must be given"));
  EXPECT_THAT(error("type: \"ROIAlign\" roi_align_param { pooled_h: 1 pooled_w: 1 sampling_ratio: 5000 }"),
              HasSubstr("roi_align_param.sampling_ratio must be at most 1024, found 5000"));
  EXPECT_THAT(error("type: \"MaskPooling\""), HasSubstr("must be features [N,C,H,W] and masks [N,1,H,W]"));
}

TEST(RoiTest, RegionsOfMissingImagesAreFaults) {
  for (const char* name : {"roi_pool", "roi_align"}) {
    SCOPED_TRACE(name);
    Graph graph(StandardCatalog());
    const ValueId x = graph.AddInput("x", {DType::kFloat32, {2, 1, 4, 4}, {}});
    const ValueId rois = graph.AddInput("rois", {DType::kFloat32, {3, 5}, {}});
    const Node node =
        graph.AddNode(name, {x, rois}, {{"height", int64_t{2}}, {"width", int64_t{2}}}, {"l", {}, "test"});
    const auto in = graph.InputTypes(node);
    const auto out = graph.OutputTypes(node);
    const auto kernel = StandardCatalog().KernelsOf(name, DeviceKind::kCpu).at(0)->make({node, in, out, true});
    std::vector<OwnedTensor> memory;
    for (const auto* types : {&in, &out}) {
      for (const TensorType& type : *types) memory.emplace_back(type);
    }
    std::vector<Tensor> views;
    for (const OwnedTensor& tensor : memory) views.push_back(tensor.tensor());
    std::ranges::fill(views[0].as<float>(), 1.0F);
    std::ranges::copy(std::vector<float>{1, 0, 0, 3, 3, 2, 0, 0, 3, 3, -1, 0, 0, 3, 3}, views[1].as<float>().begin());
    const Buffer scratch = Buffer::Allocate(kernel->scratch_bytes());
    kernel->Bind({std::span(views).first(2), std::span(views).subspan(2), scratch.data()});
    kernel->Run();
    EXPECT_EQ(kernel->TakeFault(), "region 1 lies in image 2 but there are 2");
    EXPECT_EQ(kernel->TakeFault(), "");
    EXPECT_THAT(std::vector<float>(views[2].as<float>().begin(), views[2].as<float>().end()),
                ElementsAre(1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0));
    views[1].as<float>()[5] = 1;
    kernel->Run();
    EXPECT_EQ(kernel->TakeFault(), "") << "image -1 is padding";
  }
}

// Proposals ----------------------------------------------------------------------------------------------------------

const std::vector<NamedInput> kRpn = {{"scores", {1, 18, 4, 5}}, {"deltas", {1, 36, 4, 5}}, {"im_info", {1, 3}}};

TEST(RoiTest, ProposalShapes) {
  EXPECT_THAT(ShapesOf(kRpn, {"rois", "s"}, "type: \"Proposal\" proposal_param { post_nms_topn: 40 }"),
              ElementsAre(Shape{40, 5}, Shape{40, 1}));
  const std::string layer = PythonLayerText("rpn.proposal_layer", "ProposalLayer", "'feat_stride': 16");
  EXPECT_THAT(ShapesOf(kRpn, {"rois"}, layer), ElementsAre(Shape{2000, 5}));
  EXPECT_THAT(ShapesOf(kRpn, {"rois"}, layer, TEST), ElementsAre(Shape{300, 5}));
}

TEST(RoiTest, ProposalMistakes) {
  EXPECT_THAT(
      ErrorsOf(OneLayer(kRpn, {"r"}, "type: \"Proposal\" proposal_param { scale: 4 }")),
      HasSubstr("proposals: scores must be [1,6,H,W] (background, then object, of 3 anchors), found [1,18,4,5]"));
  EXPECT_THAT(ErrorsOf(OneLayer(kRpn, {"r"}, "type: \"Proposal\" proposal_param { ratio: 0 }")),
              HasSubstr("proposal_param.ratio must be greater than 0, found 0"));
  EXPECT_THAT(ErrorsOf(OneLayer(kRpn, {"r"}, PythonLayerText("rpn.proposal_layer", "ProposalLayer"))),
              HasSubstr("python_param.param_str: 'feat_stride' must be given"));
}

TEST(RoiTest, ProposalsAreTheBestBoxesThatDoNotOverlap) {
  // One anchor of 16 x 16 a cell of 8 pixels, no deltas: neighbours overlap by more than a third, the others do not.
  const BuiltNet net =
      BuildText(OneLayer({{"scores", {1, 2, 1, 4}}, {"deltas", {1, 4, 1, 4}}, {"im_info", {1, 3}}}, {"rois", "s"},
                         "type: \"Proposal\" proposal_param { feat_stride: 8 ratio: 1 scale: 1 "
                         "min_size: 8 post_nms_topn: 3 nms_thresh: 0.3 }"));
  const Feeds feeds{{"scores", {0, 0, 0, 0, 0.5, 0.9, 0.7, 0.1}}, {"im_info", {100, 100, 1}}};
  EXPECT_THAT(TopValues(net, feeds, "s"), ElementsAre(0.9, 0.1, 0));
  const std::vector<double> rois = TopValues(net, feeds, "rois");
  // Moved boxes end a pixel later than the anchors (x + side / 2), as in py-faster-rcnn.
  EXPECT_THAT(rois, ElementsAre(0, 8, 0, 24, 16, 0, 24, 0, 40, 16, 0, 0, 0, 0, 0));
}

// Samplers -----------------------------------------------------------------------------------------------------------

const std::vector<NamedInput> kTruth = {{"score", {1, 18, 14, 14}}, {"gt_boxes", {4, 5}}, {"im_info", {1, 3}}};
const std::vector<std::string> kAnchorTops = {"labels", "targets", "inside", "outside"};

Feeds AnchorFeeds(double key) {
  return {{"gt_boxes", {20, 20, 150, 150, 1, 90, 60, 200, 190, 3, 10, 100, 90, 200, 2, 0, 0, 0, 0, 0}},
          {"im_info", {224, 224, 1}},
          {"random_key", {key}}};
}

TEST(RoiTest, AnchorTargetsSampleABatch) {
  const BuiltNet net =
      BuildText(OneLayer(kTruth, kAnchorTops,
                         PythonLayerText("rpn.anchor_target_layer", "AnchorTargetLayer",
                                         "{'feat_stride': 16, 'scales': [4, 6], 'ratios': [0.8, 1, 1.2], "
                                         "'positive_overlap': 0.4, 'batch_size': 32}")));
  const std::vector<double> labels = TopValues(net, AnchorFeeds(1), "labels");
  EXPECT_EQ(net.graph.shape(net.tops.at("labels")), (Shape{1, 1, 6 * 14, 14}));
  EXPECT_EQ(std::ranges::count(labels, 1), 16);
  EXPECT_EQ(std::ranges::count(labels, 0), 16);
  EXPECT_EQ(std::ranges::count(labels, -1), std::ssize(labels) - 32);
  EXPECT_EQ(TopValues(net, AnchorFeeds(1), "labels"), labels);
  EXPECT_NE(TopValues(net, AnchorFeeds(2), "labels"), labels);
  const std::vector<double> outside = TopValues(net, AnchorFeeds(1), "outside");
  double sum = 0;
  for (const double weight : outside) sum += weight;
  EXPECT_NEAR(sum, 4, 1e-9);
}

TEST(RoiTest, WithoutTrueBoxesAnchorsAreNegative) {
  const BuiltNet net = BuildText(OneLayer(kTruth, kAnchorTops,
                                          PythonLayerText("rpn.anchor_target_layer", "AnchorTargetLayer",
                                                          "{'feat_stride': 16, 'scales': [4], 'ratios': [1]}")));
  const std::vector<double> labels = TopValues(net, {{"im_info", {224, 224, 1}}}, "labels");
  EXPECT_EQ(std::ranges::count(labels, 1), 0);
  EXPECT_GT(std::ranges::count(labels, 0), 0);
  for (const double target : TopValues(net, {{"im_info", {224, 224, 1}}}, "targets")) EXPECT_EQ(target, 0);
}

const std::vector<std::string> kTargetTops = {"r", "labels", "targets", "inside", "outside"};

Feeds RegionFeeds(int64_t rois, double key) {
  std::vector<double> values;
  for (int64_t i = 0; i < rois; ++i) {
    const auto shift = static_cast<double>(i % 40);
    for (const double v : {0.0, 20 + shift, 20.0, 80 + shift, 90.0}) values.push_back(v);
  }
  return {{"rois", values}, {"gt_boxes", {20, 20, 80, 90, 2, 0, 0, 0, 0, 0}}, {"random_key", {key}}};
}

TEST(RoiTest, ProposalTargetsSampleAQuarterOfForeground) {
  const BuiltNet net =
      BuildText(OneLayer({{"rois", {400, 5}}, {"gt_boxes", {2, 5}}}, kTargetTops,
                         PythonLayerText("rpn.proposal_target_layer", "ProposalTargetLayer", "'num_classes': 4")));
  EXPECT_THAT(ShapesOf(net, kTargetTops),
              ElementsAre(Shape{128, 5}, Shape{128}, Shape{128, 16}, Shape{128, 16}, Shape{128, 16}));
  const std::vector<double> labels = TopValues(net, RegionFeeds(400, 1), "labels");
  EXPECT_EQ(std::ranges::count(labels, 2), 32);
  EXPECT_EQ(std::ranges::count(labels, 0), 96);
  EXPECT_TRUE(std::ranges::is_sorted(labels, std::greater<>()));
  const std::vector<double> inside = TopValues(net, RegionFeeds(400, 1), "inside");
  for (size_t i = 0; i < inside.size(); ++i) EXPECT_EQ(inside[i], i / 16 < 32 && i % 16 / 4 == 2 ? 1 : 0) << i;
  EXPECT_NE(TopValues(net, RegionFeeds(400, 1), "r"), TopValues(net, RegionFeeds(400, 2), "r"));
}

TEST(RoiTest, ASmallSampleRepeatsItsBackground) {
  const BuiltNet net = BuildText(OneLayer(
      {{"rois", {3, 5}}, {"gt_boxes", {2, 5}}}, kTargetTops,
      PythonLayerText("rpn.proposal_target_layer", "ProposalTargetLayer", "{'num_classes': 4, 'batch_size': 8}")));
  const Feeds feeds{{"rois", {0, 20, 20, 80, 90, 0, 200, 200, 230, 230, 0, 0, 0, 0, 0}},
                    {"gt_boxes", {20, 20, 80, 90, 2, 0, 0, 0, 0, 0}}};
  EXPECT_THAT(TopValues(net, feeds, "labels"), ElementsAre(2, 2, 0, 0, 0, 0, 0, 0));
  const std::vector<double> rois = TopValues(net, feeds, "r");
  for (size_t row = 2; row < 8; ++row) EXPECT_EQ(rois[row * 5 + 1], 200) << row;
}

TEST(RoiTest, RfcnIsKnownByItsLayers) {
  const auto net = [](const std::string& more) {
    return BuildText(OneLayer({{"rois", {30, 5}}, {"gt_boxes", {2, 5}}}, kTargetTops,
                              PythonLayerText("rpn.proposal_target_layer", "ProposalTargetLayer", "'num_classes': 2")) +
                     InputText("map", {1, 18, 8, 8}) +
                     "layer { name: \"p\" type: \"PSROIPooling\" bottom: \"map\" bottom: \"r\" top: \"pooled\" "
                     "psroi_pooling_param { spatial_scale: 0.0625 output_dim: 2 group_size: 3 } }" +
                     more);
  };
  const BuiltNet plain = net("");
  EXPECT_THAT(ShapesOf(plain, {"r", "labels", "targets"}),
              ElementsAre(Shape{128, 5, 1, 1}, Shape{128, 1, 1, 1}, Shape{128, 8, 1, 1}));
  EXPECT_EQ(plain.graph.shape(plain.tops.at("pooled")), (Shape{128, 2, 3, 3}));
}

// Python layers ------------------------------------------------------------------------------------------------------

TEST(PythonTest, UnknownLayersNameTheNearest) {
  const auto error = [](const std::string& module, const std::string& layer) {
    return ErrorsOf(OneLayer({}, {"y"}, PythonLayerText(module, layer)));
  };
  EXPECT_THAT(error("rpn.proposal_layr", "ProposalLayer"),
              AllOf(HasSubstr("layer \"l\": Python layer \"rpn.proposal_layr.ProposalLayer\" is not built in; it runs "
                              "only in nets that Python holds"),
                    HasSubstr("did you mean \"rpn.proposal_layer.ProposalLayer\"?")));
  EXPECT_THAT(error("my_voc", "VOCSegDataLayer"), HasSubstr("classes of that name: \"voc_layers.VOCSegDataLayer\""));
  EXPECT_THAT(error("a", "b"), HasSubstr("lists the built-in ones"));
  EXPECT_THAT(error("", ""), HasSubstr("python_param.module and python_param.layer must be given"));
  EXPECT_THAT(ErrorsOf(OneLayer({{"x", {1}}}, {"y"}, PythonLayerText("pyloss", "EuclideanLossLayer"))),
              HasSubstr("pyloss.EuclideanLossLayer takes 2 bottoms, found 1"));
}

TEST(PythonTest, DataLayersAreFedFromOutside) {
  const auto shapes = [](const std::vector<std::string>& tops, const std::string& fields) {
    return ShapesOf({}, tops, fields);
  };
  const std::string roi_data = PythonLayerText("roi_data_layer.layer", "RoIDataLayer", "'num_classes': 21");
  EXPECT_THAT(shapes({"data", "im_info", "gt_boxes"}, roi_data),
              ElementsAre(Shape{1, 3, 600, 1000}, Shape{1, 3}, Shape{64, 5}));
  EXPECT_THAT(
      shapes({"data", "rois", "labels", "bbox_targets", "bbox_inside_weights", "bbox_outside_weights"}, roi_data),
      ElementsAre(Shape{2, 3, 600, 1000}, Shape{128, 5}, Shape{128}, Shape{128, 84}, Shape{128, 84}, Shape{128, 84}));
  EXPECT_THAT(shapes({"data", "label"},
                     PythonLayerText("voc_layers", "SBDDSegDataLayer",
                                     "{\\'sbdd_dir\\': \\'../data\\', \\'seed\\': 1337, \\'mean\\': (104.00699, "
                                     "116.66877, 122.67892), \\'height\\': 320}")),
              ElementsAre(Shape{1, 3, 320, 500}, Shape{1, 1, 320, 500}));
  EXPECT_THAT(
      shapes({"color", "depth", "label"},
             PythonLayerText("nyud_layers", "NYUDSegDataLayer", "{'tops': ['color', 'depth', 'label'], 'seed': 1337}")),
      ElementsAre(Shape{1, 3, 425, 560}, Shape{1, 1, 425, 560}, Shape{1, 1, 425, 560}));
  EXPECT_THAT(shapes({"data", "label", "clip_markers"}, PythonLayerText("sequence_input_layer", "videoReadTrain_RGB")),
              ElementsAre(Shape{384, 3, 227, 227}, Shape{384}, Shape{384}));
  EXPECT_EQ(BuildText(OneLayer({}, {"data", "im_info", "gt_boxes"}, roi_data)).data.size(), 1U);
  EXPECT_THAT(ErrorsOf(OneLayer({}, {"data", "im_info", "gt_boxes", "attributes"}, roi_data)),
              HasSubstr("top \"attributes\" is none of this layer's"));
  EXPECT_THAT(ErrorsOf(OneLayer({}, {"color"},
                                PythonLayerText("nyud_layers", "NYUDSegDataLayer", "{'tops': ['color', 'label']}"))),
              HasSubstr("param_str lists 2 tops (color, label) but the layer has 1"));
}

TEST(PythonTest, ALossNeedsItsWeight) {
  const auto text = [](const std::string& weight) {
    return OneLayer({{"a", {2, 3}}, {"b", {2, 3}}}, {"loss"}, PythonLayerText("pyloss", "EuclideanLossLayer") + weight);
  };
  EXPECT_EQ(BuildText(text("")).loss, kNoId);
  EXPECT_NE(BuildText(text(" loss_weight: 1")).loss, kNoId);
}

TEST(PythonTest, FieldsAreYamlOrADictionary) {
  const PythonValue block =
      ParsePython("'feat_stride': 16\n'scales': !!python/tuple [8, 16, 32]  # three\nratios:\n  - 0.5\n  - 2\n");
  ASSERT_EQ(block.entries.size(), 3U);
  EXPECT_EQ(block.entries[0].first, "feat_stride");
  EXPECT_EQ(block.entries[0].second.number, 16);
  EXPECT_EQ(block.entries[1].second.items.size(), 3U);
  EXPECT_EQ(block.entries[2].second.items.at(1).number, 2);
  const PythonValue flow = ParsePython("{ 'split': 'it\\'s', 'mean': (1.5, -2e1, +3,), 'deep': {a: [True, None]}, }");
  ASSERT_EQ(flow.entries.size(), 3U);
  EXPECT_EQ(flow.entries[0].second.text, "it's");
  EXPECT_EQ(flow.entries[1].second.items.at(1).number, -20);
  EXPECT_EQ(flow.entries[2].second.entries.at(0).second.items.at(0).number, 1);
  EXPECT_EQ(flow.entries[2].second.entries.at(0).second.items.at(1).kind, PythonValue::Kind::kNone);
  EXPECT_TRUE(ParsePython("").entries.empty());
  EXPECT_EQ(ParsePython("a: 1, b: x y").entries.at(1).second.text, "x y");
}

TEST(PythonTest, FieldMistakes) {
  const auto error = [](const std::string& param) {
    return ErrorsOf(OneLayer(kRpn, {"r"}, PythonLayerText("rpn.proposal_layer", "ProposalLayer", param)));
  };
  EXPECT_THAT(error("{'feat_stride' 16}"),
              HasSubstr("python_param.param_str, line 1: expected \":\" after the key \"feat_stride\", found \"16}\""));
  EXPECT_THAT(error("'feat_stride': 16\\n'scales': [8, 16"),
              HasSubstr("line 2: expected \",\" or \"]\", found the end"));
  EXPECT_THAT(error("{'feat_stride': 16} x"), HasSubstr("expected nothing after the closing brace"));
  EXPECT_THAT(error("'feat_stride: 16"), HasSubstr("expected a closing '"));
  EXPECT_THAT(error("'feat_stride': many"), HasSubstr("'feat_stride' must be a number"));
  EXPECT_THAT(error("'feat_stride': 1.5"), HasSubstr("'feat_stride' must be a whole number of at least 1, found 1.5"));
  EXPECT_THAT(error("{'feat_stride': 16, 'scales': []}"), HasSubstr("'scales' must be a list of numbers"));
  EXPECT_THAT(error("{'feat_stride': 16, 'scales': [0, 1]}"),
              HasSubstr("'ratios' and 'scales' must be greater than 0"));
  std::string deep(40, '[');
  EXPECT_THAT(error("{'a': " + deep), HasSubstr("expected at most 16 levels"));
}

}  // namespace
}  // namespace moka
