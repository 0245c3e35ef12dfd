// Layers that forks of Faster R-CNN added, and MTCNN's: shapes, mistakes, and what their samplers promise.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/text.h"
#include "one_layer.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string PythonLayerText(const std::string& module, const std::string& layer, const std::string& param = "") {
  return StrCat("type: \"Python\" python_param { module: \"", module, "\" layer: \"", layer, "\" param_str: \"", param,
                "\" }");
}

// Pooling ------------------------------------------------------------------------------------------------------------

const std::vector<NamedInput> kMapAndRois = {{"x", {2, 3, 8, 9}}, {"rois", {6, 5}}};
const std::vector<NamedInput> kClipAndWindows = {{"x", {2, 3, 4, 7, 7}}, {"windows", {6, 3}}};

std::string PoolingError(const std::string& fields, const std::vector<NamedInput>& inputs = kMapAndRois) {
  return OneLayerErrors(inputs, {"y"}, fields);
}

TEST(RegionsTest, PooledShapes) {
  EXPECT_EQ(ShapesOf(kMapAndRois, {"y"}, "type: \"ROIAlignment\" roi_alignment_param { pooled_h: 3 pooled_w: 4 }")[0],
            (Shape{6, 3, 3, 4}));
  EXPECT_EQ(
      ShapesOf(kMapAndRois, {"y"}, "type: \"ROIMaskPooling\" roi_mask_pooling_param { pooled_h: 3 pooled_w: 4 }")[0],
      (Shape{6, 3, 3, 4}));
  EXPECT_EQ(ShapesOf(kClipAndWindows, {"y"},
                     "type: \"ROIPooling\" roi_pooling_param { pooled_l: 2 pooled_h: 3 pooled_w: 4 }")[0],
            (Shape{6, 3, 2, 3, 4}));
  EXPECT_THAT(ShapesOf({{"x", {2, 3, 8, 9}}, {"points", {2, 2, 2}}}, {"eye", "nose"},
                       "type: \"MultiROIPooling\" multi_roi_pooling_param { pooled_h: 5 pooled_w: 4 top_num: 2 }"),
              ElementsAre(Shape{2, 3, 5, 4}, Shape{2, 3, 5, 4}));
}

TEST(RegionsTest, PoolingMistakes) {
  EXPECT_THAT(PoolingError("type: \"ROIAlignment\""),
              HasSubstr("roi_alignment_param.pooled_h and pooled_w must be from 1 to 4096, found 0 and 0"));
  EXPECT_THAT(
      PoolingError("type: \"ROIMaskPooling\" roi_mask_pooling_param { pooled_h: 1 pooled_w: 1 mask_scale: 0.8 }"),
      HasSubstr("roi_mask_pooling_param.mask_scale is not built, found 0.8"));
  EXPECT_THAT(PoolingError("type: \"ROIMaskPooling\" roi_mask_pooling_param { pooled_h: 1 pooled_w: 1 }",
                           {{"x", {2, 3, 8, 9}}, {"rois", {6, 4}}}),
              HasSubstr("bottom \"rois\" must be [R,5] (image, x1, y1, x2, y2), found [6,4]"));
  const std::string in_time = "type: \"ROIPooling\" roi_pooling_param { pooled_l: 1 pooled_h: 1 pooled_w: 1 ";
  EXPECT_THAT(PoolingError(in_time + "}"), HasSubstr("bottom \"x\" must be [N,C,L,H,W], found [2,3,8,9]"));
  EXPECT_THAT(PoolingError(in_time + "}", {{"x", {2, 3, 4, 7, 7}}, {"rois", {6, 5}}}),
              HasSubstr("bottom \"rois\" must be [R,3] (item, first frame, last frame), found [6,5]"));
  EXPECT_THAT(PoolingError(in_time + "pad_ratio: 0.5 }", kClipAndWindows),
              HasSubstr("roi_pooling_param.pooled_l goes without pooled_size and pad_ratio"));
  EXPECT_THAT(PoolingError(in_time + "temporal_scale: 0 }", kClipAndWindows),
              HasSubstr("temporal_scale must be greater than 0"));
  const std::string points = "type: \"MultiROIPooling\" multi_roi_pooling_param { pooled_h: 5 pooled_w: 4 top_num: ";
  EXPECT_THAT(PoolingError(points + "2 }"), HasSubstr("multi_roi_pooling_param.top_num is 2 but the layer has 1 tops"));
  EXPECT_THAT(PoolingError(points + "1 }"),
              HasSubstr("bottom \"rois\" must be [2,1,2] (x and y of each point), found [6,5]"));
}

// Windows in time ----------------------------------------------------------------------------------------------------

const std::string kScales = "'feat_stride': 8\\n'scales': !!python/tuple [1, 2, 4]";
const std::vector<NamedInput> kProposal = {{"scores", {1, 6, 16, 1, 1}}, {"deltas", {1, 6, 16, 1, 1}}};

TEST(RegionsTest, WindowsInTimeHaveTheirOwnShapes) {
  const std::string layer = PythonLayerText("rpn.proposal_layer", "ProposalLayer", kScales);
  EXPECT_THAT(ShapesOf(kProposal, {"rois", "score"}, layer, TRAIN), ElementsAre(Shape{2000, 3}, Shape{2000, 1}));
  EXPECT_THAT(ShapesOf(kProposal, {"rois"}, layer, TEST), ElementsAre(Shape{300, 3}));
  EXPECT_THAT(ShapesOf({{"rois", {30, 3}}, {"gt", {5, 3}}}, {"r", "labels", "targets", "inside", "outside"},
                       PythonLayerText("rpn.proposal_target_layer", "ProposalTargetLayer", "'num_classes': 21")),
              ElementsAre(Shape{128, 3}, Shape{128}, Shape{128, 42}, Shape{128, 42}, Shape{128, 42}));
  EXPECT_THAT(
      ShapesOf({}, {"data", "gt_boxes"}, PythonLayerText("roi_data_layer.layer", "RoIDataLayer", "'num_classes': 21")),
      ElementsAre(Shape{1, 3, 512, 112, 112}, Shape{64, 3}));
}

TEST(RegionsTest, WindowsInTimeSampleABatch) {
  const BuiltNet net = BuildText(OneLayer(
      {{"scores", {1, 6, 64, 1, 1}}, {"gt", {3, 3}}, {"data", {1, 1, 512, 2, 2}}},
      {"labels", "targets", "inside", "outside"},
      PythonLayerText("rpn.anchor_target_layer", "AnchorTargetLayer", kScales + "\\n'positive_overlap': 0.2")));
  EXPECT_THAT(ShapesOf(net, {"labels", "targets"}), ElementsAre(Shape{1, 1, 192, 1, 1}, Shape{1, 6, 64, 1, 1}));
  const Feeds feeds{{"gt", {20, 280, 1, 100, 400, 2, 0, 0, 0}}, {"random_key", {1}}};
  const std::vector<double> labels = TopValues(net, feeds, "labels");
  EXPECT_EQ(std::ranges::count(labels, 1) + std::ranges::count(labels, 0), 64);
  EXPECT_GT(std::ranges::count(labels, 0), 0);
  const Feeds other{{"gt", feeds.at("gt")}, {"random_key", {2}}};
  EXPECT_NE(TopValues(net, other, "labels"), labels);
}

TEST(RegionsTest, WindowsInTimeMistakes) {
  const auto error = [](const std::vector<NamedInput>& inputs, const std::vector<std::string>& tops,
                        const std::string& name, const std::string& param) {
    const std::string module = name == "ProposalLayer"       ? "proposal"
                               : name == "AnchorTargetLayer" ? "anchor_target"
                                                             : "proposal_target";
    return OneLayerErrors(inputs, tops, PythonLayerText("rpn." + module + "_layer", name, param));
  };
  const std::vector<std::string> anchor_tops = {"a", "b", "c", "d"};
  EXPECT_THAT(error({{"scores", {1, 6, 16, 2, 1}}, {"deltas", {1, 6, 16, 2, 1}}}, {"r"}, "ProposalLayer", kScales),
              HasSubstr("bottom \"scores\" must be [1,6,L,1,1] (two scores of each of 3 windows), found [1,6,16,2,1]"));
  EXPECT_THAT(error({{"scores", {1, 6, 16, 1, 1}}, {"deltas", {1, 6, 8, 1, 1}}}, {"r"}, "ProposalLayer", kScales),
              HasSubstr("bottom \"deltas\" must be [1,6,16,1,1] (middle and length of each window), found"));
  EXPECT_THAT(error({{"scores", {1, 6, 16, 4}}, {"deltas", {1, 12, 16, 4}}}, {"r"}, "ProposalLayer", kScales),
              HasSubstr("ProposalLayer takes 3 bottoms (2 for windows in time), found 2"));
  EXPECT_THAT(error(kProposal, {"r"}, "ProposalLayer", "{'feat_stride': 8, 'scales': [1, -1]}"),
              HasSubstr("'scales' must be greater than 0"));
  EXPECT_THAT(error({{"scores", {1, 6, 16, 1, 1}}, {"gt", {5, 5}}, {"data", {1, 3, 128, 9, 9}}}, anchor_tops,
                    "AnchorTargetLayer", kScales),
              HasSubstr("bottom \"gt\" must be [G,3] (first frame, last frame, class), found [5,5]"));
  EXPECT_THAT(error({{"scores", {1, 6, 16, 1, 1}}, {"gt", {5, 3}}, {"info", {1, 3}}}, anchor_tops, "AnchorTargetLayer",
                    kScales),
              HasSubstr("bottom \"info\" must be the clips [1,C,frames,H,W], found [1,3]"));
  EXPECT_THAT(error({{"scores", {1, 6, 16, 1, 1}}, {"gt", {5, 3}}, {"data", {1, 3, 128, 9, 9}}}, anchor_tops,
                    "AnchorTargetLayer", kScales + "\\n'allowed_border': -1"),
              HasSubstr("'allowed_border' must be at least 0"));
  const std::vector<std::string> target_tops = {"a", "b", "c", "d", "e"};
  EXPECT_THAT(error({{"rois", {9, 3}}, {"gt", {5, 3}}}, target_tops, "ProposalTargetLayer",
                    "{'num_classes': 3, 'sample': 'All'}"),
              HasSubstr("'sample' is not built"));
  EXPECT_THAT(error({{"rois", {9, 3}}, {"gt", {5, 3}}}, target_tops, "ProposalTargetLayer",
                    "{'num_classes': 3, 'twin_normalize_stds': [1]}"),
              HasSubstr("'twin_normalize_stds' must have 2 numbers, found 1"));
}

// Regions ------------------------------------------------------------------------------------------------------------

TEST(RegionsTest, OhemTakesEveryProposal) {
  const auto net = [](const std::string& more) {
    return BuildText(OneLayer({{"rois", {30, 5}}, {"gt", {2, 5}}}, {"r", "labels", "targets", "inside", "outside"},
                              PythonLayerText("rpn.proposal_target_layer", "ProposalTargetLayer", "'num_classes': 2")) +
                     InputText("p", {32, 2}) + InputText("b", {32, 8}) + more);
  };
  EXPECT_EQ(net("").graph.shape(net("").tops.at("r")), (Shape{128, 5}));
  std::string mining = "layer { name: \"hard\" ";
  for (const char* bottom : {"p", "b", "r", "labels", "targets", "inside", "outside"}) {
    mining += StrCat("bottom: \"", bottom, "\" ");
  }
  for (const char* top : {"r2", "l2", "t2", "i2", "o2"}) mining += StrCat("top: \"", top, "\" ");
  const BuiltNet mined = net(
      mining + PythonLayerText("roi_data_layer.layer", "OHEMDataLayer", "{'num_classes': 2, 'batch_size': 12}") + " }");
  EXPECT_THAT(ShapesOf(mined, {"r", "r2", "l2", "t2", "o2"}),
              ElementsAre(Shape{32, 5}, Shape{12, 5}, Shape{12}, Shape{12, 8}, Shape{12, 8}));
}

TEST(RegionsTest, RegionMistakes) {
  const auto error = [](const std::vector<NamedInput>& inputs, const std::vector<std::string>& tops,
                        const std::string& fields) { return OneLayerErrors(inputs, tops, fields); };
  const std::string transform = PythonLayerText("rpn.box_transform_layer", "BoxTransformLayer");
  EXPECT_THAT(error({{"boxes", {3, 6}}, {"d", {3, 4}}}, {"y"}, transform),
              HasSubstr("bottom \"boxes\" must be boxes [R,4] or regions [R,5], found [3,6]"));
  EXPECT_THAT(error({{"boxes", {3, 5}}, {"d", {2, 4}}}, {"y"}, transform),
              HasSubstr("bottom \"d\" must be [3,4] (a delta of each side), found [2,4]"));
  EXPECT_THAT(error({{"boxes", {3, 5}}, {"d", {3, 4}}}, {"y"},
                    PythonLayerText("rpn.box_transform_layer", "BoxTransformLayer", "{'bbox_normalize_means': [0]}")),
              HasSubstr("must have 4 numbers each"));
  EXPECT_THAT(error({{"info", {2, 3}}}, {"y"}, PythonLayerText("rpn.global_roi_layer", "GlobalRoILayer")),
              HasSubstr("im_info must be [1,3] (height, width, scale), found [2,3]"));
  const std::string select = PythonLayerText("rpn.roi_select_layer", "RoISelectLayer", "'num_class': 7");
  EXPECT_EQ(ShapesOf({{"rois", {9, 5}}, {"s", {9, 7}}}, {"y"}, select)[0], (Shape{6, 5}));
  EXPECT_THAT(error({{"rois", {9, 5}}, {"s", {9, 6}}}, {"y"}, select),
              HasSubstr("bottom \"s\" must be [9,7] (a score of each class), found [9,6]"));
  EXPECT_THAT(error({{"p", {9, 2}}, {"b", {9, 8}}, {"r", {9, 5}}, {"l", {9}}}, {"y", "z", "w"},
                    PythonLayerText("roi_data_layer.layer", "OHEMDataLayer", "'num_classes': 2")),
              HasSubstr("OHEMDataLayer takes 7 bottoms and 5 tops, or without boxes 4 bottoms and 2 tops"));
}

TEST(RegionsTest, YoloInPython) {
  const std::string loss = PythonLayerText("yolo_loss_layer", "YoloLossLayer", "{'side': 3, 'classes': 4}");
  EXPECT_THAT(OneLayerErrors({{"x", {2, 125}}, {"label", {2, 3, 3, 9}}}, {"y"}, loss),
              HasSubstr("bottom \"x\" must be [N,126] (4 classes and 2 boxes of each of 9 cells), found [2,125]"));
  EXPECT_THAT(OneLayerErrors({{"x", {2, 126}}, {"label", {2, 3, 3, 8}}}, {"y"}, loss),
              HasSubstr("bottom \"label\" must be [2,3,3,9] (object, box, classes), found [2,3,3,8]"));
  EXPECT_THAT(OneLayerErrors({{"x", {2, 126}}, {"label", {2, 3, 3, 9}}}, {"y"},
                             PythonLayerText("yolo_loss_layer", "YoloLossLayer", "{'coords': 5}")),
              HasSubstr("'coords' must be 4"));
  const std::string loader = "VOCLocDataLayerSyncSync";
  EXPECT_THAT(
      ShapesOf({}, {"data", "label"},
               PythonLayerText("voc_data_layer", loader, "{'batch_size': 16, 'im_shape': (448, 320), 'classes': 3}")),
      ElementsAre(Shape{16, 3, 448, 320}, Shape{16, 7, 7, 8}));
  EXPECT_THAT(OneLayerErrors({}, {"data", "label"}, PythonLayerText("voc_data_layer", loader, "{'im_shape': (448)}")),
              HasSubstr("'im_shape' must be a height and a width"));
}

TEST(RegionsTest, DetectionsBecomeRegions) {
  const std::string layer =
      PythonLayerText("rpn.pred_to_proposal_layer", "PredToProposalLayer", "'max_per_image': 100");
  const std::vector<std::string> tops = {"for_mask", "score", "class", "final"};
  const auto inputs = [](int64_t boxes, int64_t info) {
    return std::vector<NamedInput>{
        {"rois", {300, 5}}, {"pred", {300, boxes}}, {"prob", {300, 21}}, {"info", {1, info}}};
  };
  EXPECT_THAT(ShapesOf(inputs(84, 3), tops, layer),
              ElementsAre(Shape{100, 5}, Shape{100, 1}, Shape{100, 1}, Shape{100, 5}));
  EXPECT_THAT(OneLayerErrors(inputs(8, 3), tops, layer),
              HasSubstr("bottom \"pred\" must be [300,84] (a box of each class), found [300,8]"));
  EXPECT_THAT(OneLayerErrors(inputs(84, 2), tops, layer),
              HasSubstr("im_info must be [1,3] (height, width, scale), found [1,2]"));
}

TEST(RegionsTest, LoadersOfForks) {
  const auto shapes = [](const std::vector<std::string>& tops) {
    return ShapesOf({}, tops, PythonLayerText("roi_data_layer.layer", "RoIDataLayer", "'num_classes': 7"));
  };
  EXPECT_THAT(shapes({"data", "im_info", "gt_body", "gt_head"}),
              ElementsAre(Shape{1, 3, 600, 1000}, Shape{1, 3}, Shape{64, 6}, Shape{64, 5}));
  EXPECT_THAT(shapes({"data", "im_info", "gt_boxes", "face_attrs"}),
              ElementsAre(Shape{1, 3, 600, 1000}, Shape{1, 3}, Shape{64, 5}, Shape{1, 40}));
  EXPECT_THAT(shapes({"data", "rois", "rois_shuffled", "labels_shuffled", "face_attrs"}),
              ElementsAre(Shape{6, 3, 600, 1000}, Shape{42, 5}, Shape{42, 5}, Shape{42}, Shape{6, 40}));
  EXPECT_THAT(OneLayerErrors({}, {"data", "im_info", "gt_boxes", "masks"},
                             PythonLayerText("roi_data_layer.layer", "RoIDataLayer")),
              HasSubstr("top \"masks\" is none of this layer's: data, rois"));
}

TEST(RegionsTest, MtnetSamplesProposals) {
  const BuiltNet net = BuildText(OneLayer(
      {{"scores", {1, 2, 16, 16}}, {"deltas", {1, 4, 16, 16}}, {"im_info", {1, 3}}, {"gt", {3, 4}}},
      {"rois", "labels", "truth"},
      PythonLayerText("rpn.proposal_layer", "ProposalLayer",
                      "{'feat_stride': 4, 'scales': [2], 'ratios': [1], 'has_extra': true, 'nms_thresh': 1}")));
  EXPECT_THAT(ShapesOf(net, {"rois", "labels", "truth"}), ElementsAre(Shape{256, 5}, Shape{256}, Shape{256}));
  const auto feeds = [](double key) {
    return Feeds{{"im_info", {64, 64, 1}}, {"gt", {4, 4, 60, 60, 20, 8, 50, 44, 0, 0, 0, 0}}, {"random_key", {key}}};
  };
  const std::vector<double> labels = TopValues(net, feeds(1), "labels");
  const std::vector<double> truth = TopValues(net, feeds(1), "truth");
  const auto positives = std::ranges::count(labels, 1);
  const auto negatives = std::ranges::count(labels, 0);
  EXPECT_GT(positives, 0);
  EXPECT_EQ(negatives, 128 - std::min<int64_t>(positives, 32));
  for (size_t i = 0; i < labels.size(); ++i) EXPECT_EQ(truth[i] >= 0, labels[i] == 1) << i;
  EXPECT_EQ(TopValues(net, feeds(1), "rois"), TopValues(net, feeds(1), "rois"));
  EXPECT_NE(TopValues(net, feeds(1), "rois"), TopValues(net, feeds(2), "rois"));
}

TEST(RegionsTest, MtnetSamplesLabels) {
  const BuiltNet net =
      BuildText(OneLayer({{"labels", {300}}}, {"y"}, PythonLayerText("rpn.label_target_layer", "LabelTargetLayer")));
  std::vector<double> labels(300, 0);
  std::fill_n(labels.begin(), 50, 1);
  std::fill_n(labels.begin() + 50, 20, -1);
  const std::vector<double> y = TopValues(net, {{"labels", labels}, {"random_key", {3}}}, "y");
  EXPECT_EQ(std::ranges::count(y, 1), 32);
  EXPECT_EQ(std::ranges::count(y, 0), 96);
  for (size_t i = 0; i < y.size(); ++i) EXPECT_TRUE(y[i] == -1 || y[i] == labels[i]) << i;
  std::ranges::fill(labels, 1);
  EXPECT_EQ(std::ranges::count(TopValues(net, {{"labels", labels}}, "y"), -1), 300);
}

TEST(RegionsTest, MtnetMistakes) {
  EXPECT_THAT(
      OneLayerErrors({{"s", {1, 18, 4, 4}}, {"d", {1, 36, 4, 4}}, {"im_info", {1, 3}}, {"gt", {3, 5}}}, {"a", "b", "c"},
                     PythonLayerText("rpn.proposal_layer", "ProposalLayer", "'feat_stride': 16")),
      HasSubstr("bottom \"gt\" must be [G,4] (x1, y1, x2, y2), found [3,5]"));
  EXPECT_THAT(OneLayerErrors({{"s", {1, 18, 4, 4}}, {"d", {1, 36, 4, 4}}, {"im_info", {1, 3}}}, {"a", "b", "c"},
                             PythonLayerText("rpn.proposal_layer", "ProposalLayer", "'feat_stride': 16")),
              HasSubstr("with 3 tops ProposalLayer takes 4 bottoms, the last gt_boxes, found 3"));
  EXPECT_THAT(
      OneLayerErrors({{"l", {9}}, {"c", {3, 1}}}, {"y"}, PythonLayerText("rpn.label_target_layer", "LabelTargetLayer")),
      HasSubstr("LabelTargetLayer takes 1 or 3 bottoms, found 2"));
  EXPECT_THAT(OneLayerErrors({{"l", {9}}, {"c", {3, 2}}, {"t", {9}}}, {"y"},
                             PythonLayerText("rpn.label_target_layer", "LabelTargetLayer")),
              HasSubstr("the classes must be [G,1] and the true boxes [9], found [3,2] and [9]"));
  EXPECT_THAT(OneLayerErrors({{"l", {9}}, {"t", {9}}, {"r", {8, 5}}, {"gt", {3, 4}}}, {"a", "b", "c"},
                             PythonLayerText("rpn.box_target_layer", "BoxTargetLayer")),
              HasSubstr("there must be a true box and a region [R,5] for each of the 9 labels, found [9] and [8,5]"));
}

// MTCNN --------------------------------------------------------------------------------------------------------------

TEST(RegionsTest, MtcnnShapesAndMistakes) {
  const auto error = [](const DimLists& shapes, const std::string& type, const std::string& fields = "",
                        const std::vector<std::string>& tops = {"y"}) {
    return ErrorsOf(Layer(shapes, type, fields, tops));
  };
  const std::vector<std::string> two = {"y", "z"};
  const std::vector<std::string> four = {"data", "label", "bbox", "landmark"};
  EXPECT_THAT(ShapesOf({}, four, PythonLayerText("pydata_layer_multidb", "MtcnnDataLayer", "{'net_type': 'onet'}")),
              ElementsAre(Shape{256, 3, 48, 48}, Shape{256}, Shape{256, 4}, Shape{256, 10}));
  EXPECT_THAT(OneLayerErrors({}, four, PythonLayerText("pydata_layer", "MtcnnDataLayer", "{'net_type': 'lnet'}")),
              HasSubstr("'net_type' must be pnet, rnet or onet, found \"lnet\""));
  EXPECT_THAT(OneLayerErrors({}, four, PythonLayerText("pydata_layer", "MtcnnDataLayer", "{'net_type': 12}")),
              HasSubstr("'net_type' must be a name"));
  EXPECT_THAT(ShapesOf({{"x", {8, 2}}, {"label", {8, 1}}}, two, PythonLayerText("pythonLayer", "cls_Layer_fc")),
              ElementsAre(Shape{8, 2, 1, 1}, Shape{8, 1}));
  EXPECT_THAT(OneLayerErrors({{"x", {8, 3}}, {"label", {8}}}, two, PythonLayerText("pythonLayer", "cls_Layer")),
              HasSubstr("bottom \"x\" must have two scores for each of the 8 labels of \"label\", found [8,3]"));
  EXPECT_THAT(
      OneLayerErrors({{"x", {8, 4}}, {"roi", {8, 5}}}, {"y"}, PythonLayerText("pythonLayer", "regression_Layer")),
      HasSubstr("bottoms \"x\" [8,4] and \"roi\" [8,5] must have one batch and one count"));
  EXPECT_THAT(ShapesOf(BuildText(Layer({{8, 2, 1, 1}, {8, 1}}, "OftenMtcnnClassBridge", "", two)), two),
              ElementsAre(Shape{8, 2, 1, 1}, Shape{8}));
  EXPECT_THAT(ShapesOf(BuildText(Layer({{8, 2, 1, 1}, {8}}, "OftenMtcnnSoftmaxLoss", "", two)), two),
              ElementsAre(Shape{}, Shape{8, 2, 1, 1}));
  EXPECT_THAT(error({{8, 2}, {7}}, "OftenMtcnnClassBridge", "", two),
              HasSubstr("bottom \"b\" must have a label for each item of \"a\" [8,2], found [7]"));
  EXPECT_THAT(error({{8, 2, 3, 1}, {8}}, "OftenMtcnnSoftmaxLoss"),
              HasSubstr("bottom \"a\" must be scores [N,C] along axis 1, found [8,2,3,1]"));
  EXPECT_THAT(error({{8, 2}, {8}}, "OftenMtcnnSoftmaxLoss", "loss_param { ignore_label: 1 }"),
              HasSubstr("loss_param.ignore_label has no effect here"));
  EXPECT_THAT(error({{8, 2}, {8}}, "OftenMtcnnAccuracy", "accuracy_param { ignore_label: 1 }"),
              HasSubstr("accuracy_param.ignore_label has no effect here"));
  EXPECT_THAT(error({{8, 2}, {8}}, "OftenMtcnnAccuracy", "accuracy_param { top_k: 3 }"),
              HasSubstr("accuracy_param.top_k must be from 1 to the 2 classes, found 3"));
  EXPECT_THAT(error({{8, 4}, {8, 3}, {8}}, "OftenMtcnnEuclideanLoss"),
              HasSubstr("bottoms \"a\" [8,4] and \"b\" [8,3] must be [N,C] each"));
  EXPECT_THAT(error({{8, 4}, {8, 4}, {4}}, "OftenMtcnnLandMarkLoss"), HasSubstr("must have a label for each item"));
}

}  // namespace
}  // namespace moka
