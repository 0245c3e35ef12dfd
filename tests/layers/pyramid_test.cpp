// Two-stage detection over pyramids of maps: shapes and mistakes of its layers, what its samplers promise, and small
// cases with numbers that can be told by hand. tests/golden/layers_pyramid.json has torchvision's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "one_layer.h"

namespace moka {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

// One size and ratio a map: anchors of 16 x 16 at stride 8 and of 32 x 32 at stride 16, over two pictures of 64 x 64.
constexpr const char* kOneAnchor = "stride: 8 stride: 16 size: 16 size: 32 ratio: 1 ";

std::string Fields(const std::string& type, const std::string& more = "") {
  return StrCat("type: \"", type, "\" pyramid_param { ", kOneAnchor, more, " }");
}

// A row of BOXES in a picture of 64 x 64.
std::vector<double> TruthRow(double picture, double label, double row, const std::vector<double>& box,
                             double mark = 0) {
  return {picture, label, row, box[0] / 64, box[1] / 64, box[2] / 64, box[3] / 64, mark};
}

std::vector<double> Joined(const std::vector<std::vector<double>>& rows, size_t count) {
  std::vector<double> all;
  for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
  while (all.size() < count) all.push_back(-1);
  return all;
}

// PyramidAnchorTarget ------------------------------------------------------------------------------------------------

const std::vector<NamedInput> kAnchorInputs = {
    {"data", {2, 1, 64, 64}}, {"boxes", {1, 1, 6, 8}}, {"s8", {2, 1, 8, 8}}, {"s16", {2, 1, 4, 4}}};
const std::vector<std::string> kAnchorTargetTops = {"labels", "deltas", "inside", "outside"};

Feeds AnchorFeeds(double key) {
  const std::vector<std::vector<double>> rows = {TruthRow(0, 1, 1, {8, 8, 40, 40}), TruthRow(0, 1, 2, {30, 30, 62, 62}),
                                                 TruthRow(1, 2, 1, {14, 14, 18, 18})};
  return {{"boxes", Joined(rows, 48)}, {"random_key", {key}}};
}

TEST(PyramidTest, AnchorTargetsSampleABatchOfEachPicture) {
  const BuiltNet net = BuildText(
      OneLayer(kAnchorInputs, kAnchorTargetTops, Fields("PyramidAnchorTarget", "positive_overlap: 0.2 batch: 12")));
  EXPECT_THAT(ShapesOf(net, kAnchorTargetTops), ElementsAre(Shape{2, 80}, Shape{2, 320}, Shape{2, 320}, Shape{2, 320}));
  const std::vector<double> labels = TopValues(net, AnchorFeeds(1), "labels");
  const std::vector<double> first(labels.begin(), labels.begin() + 80);
  const std::vector<double> second(labels.begin() + 80, labels.end());
  EXPECT_EQ(std::ranges::count(first, 1), 6) << "half of the batch";
  EXPECT_EQ(std::ranges::count(first, 0), 6);
  EXPECT_EQ(std::ranges::count(second, 1), 1) << "the best for an object that no anchor overlaps enough";
  EXPECT_EQ(std::ranges::count(second, 0), 11) << "negatives fill the batch";
  EXPECT_EQ(TopValues(net, AnchorFeeds(1), "labels"), labels);
  EXPECT_NE(TopValues(net, AnchorFeeds(2), "labels"), labels);
  // Summed over positives' deltas and divided by the pictures: the mean over all 24 that were sampled.
  const std::vector<double> inside = TopValues(net, AnchorFeeds(1), "inside");
  const std::vector<double> outside = TopValues(net, AnchorFeeds(1), "outside");
  EXPECT_EQ(std::ranges::count(inside, 1), 7 * 4);
  for (size_t i = 0; i < inside.size(); ++i) EXPECT_NEAR(outside[i], inside[i] * 2 / 24, 1e-12) << i;
}

TEST(PyramidTest, APositiveAnchorLearnsTheWayToItsBox) {
  const BuiltNet net = BuildText(OneLayer(kAnchorInputs, kAnchorTargetTops, Fields("PyramidAnchorTarget")));
  // The anchor of cell (2, 3) of the first map is [16,8,32,24].
  const std::vector<std::vector<double>> rows = {TruthRow(0, 1, 1, {18, 8, 34, 24})};
  const Feeds feeds = {{"boxes", Joined(rows, 48)}};
  const std::vector<double> labels = TopValues(net, feeds, "labels");
  constexpr size_t kAnchor = 2 * 8 + 3;
  EXPECT_EQ(labels[kAnchor], 1);
  EXPECT_EQ(std::ranges::count(labels, 1), 1);
  const std::vector<double> deltas = TopValues(net, feeds, "deltas");
  EXPECT_NEAR(deltas[kAnchor], 2.0 / 16, 1e-6);
  EXPECT_NEAR(deltas[64 + kAnchor], 0, 1e-6);
  EXPECT_NEAR(deltas[2 * 64 + kAnchor], 0, 1e-6);
}

TEST(PyramidTest, PicturesWithoutObjectsHaveNegativesAlone) {
  const BuiltNet net =
      BuildText(OneLayer(kAnchorInputs, kAnchorTargetTops, Fields("PyramidAnchorTarget", "batch: 10")));
  // A crowd, a box without area and one without a class are no objects.
  const std::vector<std::vector<double>> rows = {TruthRow(0, 1, 1, {8, 8, 40, 40}, 2), TruthRow(0, 1, 2, {8, 8, 8, 40}),
                                                 TruthRow(1, -1, 1, {8, 8, 40, 40})};
  const Feeds feeds = {{"boxes", Joined(rows, 48)}};
  const std::vector<double> labels = TopValues(net, feeds, "labels");
  EXPECT_EQ(std::ranges::count(labels, 1), 0);
  EXPECT_EQ(std::ranges::count(labels, 0), 20);
  EXPECT_THAT(TopValues(net, feeds, "outside"), Each(0));
}

TEST(PyramidTest, WithoutObjectsNoOverlapIsEnough) {
  const BuiltNet net = BuildText(
      OneLayer(kAnchorInputs, kAnchorTargetTops, Fields("PyramidAnchorTarget", "positive_overlap: 0 batch: 10")));
  const std::vector<double> labels = TopValues(net, {{"boxes", Joined({}, 48)}}, "labels");
  EXPECT_EQ(std::ranges::count(labels, 1), 0);
  EXPECT_EQ(std::ranges::count(labels, 0), 20);
}

TEST(PyramidTest, AnchorMistakes) {
  const auto error = [](const std::string& param, const std::vector<NamedInput>& inputs = kAnchorInputs) {
    return ErrorsOf(
        OneLayer(inputs, kAnchorTargetTops, StrCat("type: \"PyramidAnchorTarget\" pyramid_param { ", param, " }")));
  };
  EXPECT_THAT(error("stride: 8 size: 16"),
              HasSubstr("layer \"l\": pyramid_param.stride must be given once a map, found 1 for 2 maps"));
  EXPECT_THAT(error("stride: 8 stride: 16 size: 8 size: 16 size: 32"),
              HasSubstr("pyramid_param.size must be given equally often for each of the 2 maps, found 3"));
  EXPECT_THAT(error("stride: 8 stride: 0 size: 8 size: 16"),
              HasSubstr("pyramid_param.stride must be greater than 0, found 0"));
  EXPECT_THAT(error("stride: 8 stride: 16 size: 8 size: 16"),
              HasSubstr("bottom \"s8\" must be scores [2,3,h,w] of a map, found [2,1,8,8]"));
  EXPECT_THAT(error(StrCat(kOneAnchor, "batch: 0")), HasSubstr("pyramid_param.batch must be at least 1"));
  EXPECT_THAT(error(StrCat(kOneAnchor, "positive_overlap: 1.5")),
              HasSubstr("pyramid_param.positive_overlap must be from 0 to 1, found 1.5"));
  std::vector<NamedInput> inputs = kAnchorInputs;
  inputs[1].shape = {1, 1, 6, 7};
  EXPECT_THAT(error(kOneAnchor, inputs), HasSubstr("boxes must be [1,1,G,8], found [1,1,6,7]"));
  inputs = kAnchorInputs;
  inputs[0].shape = {2, 64};
  EXPECT_THAT(error(kOneAnchor, inputs), HasSubstr("bottom \"data\" must be the pictures [N,C,H,W], found [2,64]"));
}

// PyramidProposal ----------------------------------------------------------------------------------------------------

const std::vector<NamedInput> kProposalInputs = {
    {"data", {2, 1, 64, 64}}, {"s8", {2, 1, 8, 8}}, {"s16", {2, 1, 4, 4}}, {"d8", {2, 4, 8, 8}}, {"d16", {2, 4, 4, 4}}};

TEST(PyramidTest, ProposalsAreTheBestOfAllMaps) {
  const BuiltNet net =
      BuildText(OneLayer(kProposalInputs, {"rois", "s"},
                         Fields("PyramidProposal", "pre_nms: 2 post_nms: 4 nms_threshold: 0.3 min_side: 10")));
  // Three of the first map are best: 18 and its neighbour overlap by a third, and pre_nms leaves the third out.
  std::vector<double> s8(128, -9);
  s8[18] = 3;
  s8[19] = 2.5;
  s8[45] = 2;
  // Two of the second map count: a corner's anchor, of which a quarter lies in the picture, and one that is moved.
  std::vector<double> s16(32, -9);
  s16[0] = 5;
  s16[5] = 1;
  std::vector<double> d16(128);
  d16[5] = 0.25;                    // a quarter of its side to the right
  d16[3 * 16 + 5] = std::log(2.0);  // twice as high
  const Feeds feeds = {{"s8", s8}, {"s16", s16}, {"d16", d16}};
  EXPECT_THAT(ShapesOf(net, {"rois", "s"}), ElementsAre(Shape{8, 5}, Shape{8}));
  // In the second picture, where all scores are alike, min_side leaves out the first map's two, overlap another one.
  EXPECT_THAT(TopValues(net, feeds, "s"), ElementsAre(5, 3, 1, 0, -9, 0, 0, 0));
  const std::vector<double> expected = {0, 0, 0, 16, 16, 0,  8, 8, 24, 24, 0,  8, 0, 40, 48, -1, 0, 0, 0, 0,
                                        1, 0, 0, 16, 16, -1, 0, 0, 0,  0,  -1, 0, 0, 0,  0,  -1, 0, 0, 0, 0};
  EXPECT_THAT(TopValues(net, feeds, "rois"), testing::Pointwise(testing::DoubleNear(1e-5), expected));
}

TEST(PyramidTest, ProposalsWithoutNumbersAreNone) {
  const BuiltNet net = BuildText(OneLayer(kProposalInputs, {"rois"}, Fields("PyramidProposal", "post_nms: 300")));
  const std::vector<double> rois = TopValues(net, {{"d8", std::vector<double>(512, NAN)}}, "rois");
  int64_t found = 0;
  for (size_t i = 0; i < rois.size(); i += 5) found += rois[i] >= 0 ? 1 : 0;
  EXPECT_GT(found, 0);
  EXPECT_LE(found, 32) << "those of the second map";
  EXPECT_TRUE(std::ranges::none_of(rois, [](double v) { return std::isnan(v); }));
}

TEST(PyramidTest, ProposalMistakes) {
  const auto error = [](const std::string& more, const std::vector<NamedInput>& inputs = kProposalInputs) {
    return ErrorsOf(OneLayer(inputs, {"rois"}, Fields("PyramidProposal", more)));
  };
  std::vector<NamedInput> inputs = kProposalInputs;
  inputs.pop_back();
  EXPECT_THAT(error("", inputs),
              HasSubstr("PyramidProposal takes the pictures, then the scores and then the deltas of each map, found 4 "
                        "bottoms"));
  inputs = kProposalInputs;
  inputs[3].shape = {2, 3, 8, 8};
  EXPECT_THAT(
      error("", inputs),
      HasSubstr(
          "pyramid_proposals: deltas has shape [2,3,8,8] but [2,4,8,8] is needed (four for each anchor of a cell)"));
  EXPECT_THAT(error("post_nms: 0"),
              HasSubstr("pyramid_param.pre_nms and post_nms must be from 1 to 1000000, found 1000 and 0"));
  EXPECT_THAT(error("nms_threshold: 2"), HasSubstr("pyramid_param.nms_threshold must be from 0 to 1, found 2"));
}

// RegionTarget -------------------------------------------------------------------------------------------------------

const std::vector<NamedInput> kRegionInputs = {
    {"data", {2, 1, 64, 64}}, {"proposals", {80, 5}}, {"boxes", {1, 1, 6, 8}}};
const std::vector<std::string> kRegionTops = {"rois",    "classes",   "codes",        "inside",
                                              "outside", "mask_rois", "mask_classes", "mask_objects"};

// Forty proposals about one object and forty elsewhere, all of the first picture; the second has none, but an object.
Feeds RegionTargetFeeds(double key) {
  std::vector<double> rois;
  for (int i = 0; i < 80; ++i) {
    const double shift = i % 40 * 0.1;
    const double low = i < 40 ? 20 : 1;
    for (const double v : {0.0, low + shift, low, low + 20 + shift, low + 20}) rois.push_back(v);
  }
  const std::vector<std::vector<double>> rows = {
      TruthRow(0, 1, 1, {50, 50, 60, 60}), TruthRow(0, 2, 2, {20, 20, 40, 40}), TruthRow(1, 1, 1, {8, 8, 24, 24})};
  return {{"proposals", rois}, {"boxes", Joined(rows, 48)}, {"random_key", {key}}};
}

std::string RegionFieldsOf(const std::string& param) {
  return StrCat("type: \"RegionTarget\" region_target_param { ", param, " }");
}

TEST(PyramidTest, RegionTargetsSampleForegroundFirst) {
  const BuiltNet net = BuildText(OneLayer(
      kRegionInputs, kRegionTops, RegionFieldsOf("classes: 3 rows: 16 foreground_fraction: 0.25 mask_rows: 3")));
  EXPECT_THAT(ShapesOf(net, kRegionTops), ElementsAre(Shape{32, 5}, Shape{32}, Shape{32, 12}, Shape{32, 12},
                                                      Shape{32, 12}, Shape{6, 5}, Shape{6}, Shape{6}));
  const std::vector<double> classes = TopValues(net, RegionTargetFeeds(1), "classes");
  const std::vector<double> first(classes.begin(), classes.begin() + 16);
  EXPECT_EQ(std::ranges::count_if(first, [](double c) { return c > 0; }), 4);
  EXPECT_EQ(std::ranges::count(first, 0), 12);
  EXPECT_TRUE(std::ranges::is_partitioned(first, [](double c) { return c > 0; }));
  // The second picture's object is its own candidate, and the only one.
  EXPECT_EQ(classes[16], 1);
  EXPECT_EQ(std::ranges::count(classes, -1), 15);
  EXPECT_EQ(TopValues(net, RegionTargetFeeds(1), "classes"), classes);
  EXPECT_NE(TopValues(net, RegionTargetFeeds(1), "rois"), TopValues(net, RegionTargetFeeds(2), "rois"));
  // Codes stand in the class's four columns; weighted, they are summed to a mean over the 17 regions.
  const std::vector<double> inside = TopValues(net, RegionTargetFeeds(1), "inside");
  const std::vector<double> outside = TopValues(net, RegionTargetFeeds(1), "outside");
  for (size_t i = 0; i < inside.size(); ++i) {
    const double label = classes[i / 12];
    EXPECT_EQ(inside[i], label > 0 && i % 12 / 4 == static_cast<size_t>(label) ? 1 : 0) << i;
    EXPECT_NEAR(outside[i], inside[i] * 32 / 17, 1e-6) << i;
  }
}

TEST(PyramidTest, ForegroundComesOnceMoreForMasks) {
  const BuiltNet net = BuildText(OneLayer(
      kRegionInputs, kRegionTops, RegionFieldsOf("classes: 3 rows: 16 foreground_fraction: 0.25 mask_rows: 3")));
  const auto values = [&](const char* top) { return TopValues(net, RegionTargetFeeds(5), top); };
  const std::vector<double> rois = values("rois");
  const std::vector<double> mask_rois = values("mask_rois");
  EXPECT_TRUE(std::equal(mask_rois.begin(), mask_rois.begin() + 15, rois.begin()));
  EXPECT_THAT(std::vector(mask_rois.begin() + 15, mask_rois.end()),
              ElementsAre(1, 8, 8, 24, 24, -1, 0, 0, 0, 0, -1, 0, 0, 0, 0));
  const std::vector<double> classes = values("mask_classes");
  const std::vector<double> objects = values("mask_objects");
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(objects[i], classes[i] == 1 ? 1 : 2) << "the first picture's rows are 1, 2";
  EXPECT_THAT(std::vector(classes.begin() + 3, classes.end()), ElementsAre(1, -1, -1));
  EXPECT_THAT(std::vector(objects.begin() + 3, objects.end()), ElementsAre(1, -1, -1));
  // The region that is its object has nothing to learn.
  const std::vector<double> codes = values("codes");
  for (size_t k = 0; k < 4; ++k) EXPECT_NEAR(codes[16 * 12 + 4 + k], 0, 1e-6);
}

TEST(PyramidTest, RegionMistakes) {
  const auto error = [](const std::string& param, const std::vector<std::string>& tops = kRegionTops) {
    return ErrorsOf(OneLayer(kRegionInputs, tops, RegionFieldsOf(param)));
  };
  EXPECT_THAT(error("classes: 1"),
              HasSubstr("region_target_param.classes must be at least 2 (the background counts), found 1"));
  EXPECT_THAT(error("classes: 2 rows: 0"), HasSubstr("region_target_param.rows must be from 1 to 1000000, found 0"));
  EXPECT_THAT(error("classes: 2 mask_rows: 0"),
              HasSubstr("region_target_param.mask_rows must be from 1 to 1000000, found 0"));
  EXPECT_THAT(error("classes: 2 std: 1 std: 2"), HasSubstr("region_target_param.std must be four numbers, found 2"));
  EXPECT_THAT(error("classes: 2", {"a", "b", "c", "d", "e", "f"}),
              HasSubstr("RegionTarget has 5 tops, or 8 with those for masks, found 6"));
}

// PyramidRoiAlign ----------------------------------------------------------------------------------------------------

std::string AlignFieldsOf(const std::string& param) {
  return StrCat("type: \"PyramidRoiAlign\" pyramid_roi_align_param { ", param, " }");
}

TEST(PyramidTest, RegionsArePooledFromTheMapOfTheirSize) {
  const BuiltNet net = BuildText(OneLayer(
      {{"rois", {6, 5}}, {"p2", {2, 1, 16, 16}}, {"p3", {2, 1, 8, 8}}, {"p4", {2, 1, 4, 4}}}, {"y"},
      AlignFieldsOf("pooled_h: 1 pooled_w: 1 stride: 4 stride: 8 stride: 16 canonical_size: 16 canonical_stride: 8")));
  // Each map and picture has one value: tens the map, ones the picture.
  const auto filled = [](size_t plane, double value) {
    std::vector<double> values(2 * plane, value);
    std::ranges::fill(values.begin() + static_cast<ptrdiff_t>(plane), values.end(), value + 1);
    return values;
  };
  const Feeds feeds = {{"p2", filled(256, 20)},
                       {"p3", filled(64, 30)},
                       {"p4", filled(16, 40)},
                       // Sides of 2, 15.9, 16, 32 by 8 (a root of 16) and 50 pixels; the last is none.
                       {"rois", {0, 4, 4, 6,  6,  1, 4, 4, 19.9, 19.9, 1,  8, 8, 24, 24,
                                 0, 4, 4, 36, 12, 1, 2, 2, 52,   52,   -1, 0, 0, 9,  9}}};
  EXPECT_THAT(TopValues(net, feeds, "y"), ElementsAre(20, 21, 31, 30, 41, 0));
}

TEST(PyramidTest, AlignMistakes) {
  const auto error = [](const std::string& param, const std::vector<int64_t>& rois = {6, 5}) {
    return ErrorsOf(
        OneLayer({{"rois", rois}, {"p2", {2, 3, 16, 16}}, {"p3", {2, 3, 8, 8}}}, {"y"}, AlignFieldsOf(param)));
  };
  EXPECT_THAT(error("stride: 4 stride: 8"),
              HasSubstr("pyramid_roi_align_param.pooled_h and pooled_w must be from 1 to 4096, found 0 and 0"));
  EXPECT_THAT(error("pooled_h: 2 pooled_w: 2 stride: 4"),
              HasSubstr("pyramid_roi_align_param.stride must be given once a map, found 1 for 2 maps"));
  EXPECT_THAT(error("pooled_h: 2 pooled_w: 2 stride: 4 stride: 16"),
              HasSubstr("pyramid_roi_align_param.stride must be a power of 2 and twice the one before, found 16"));
  EXPECT_THAT(error("pooled_h: 2 pooled_w: 2 stride: 3 stride: 6"),
              HasSubstr("pyramid_roi_align_param.stride must be a power of 2 and twice the one before, found 3"));
  EXPECT_THAT(error("pooled_h: 2 pooled_w: 2 stride: 4 stride: 8 canonical_size: 0"),
              HasSubstr("pyramid_roi_align_param.canonical_size and canonical_stride must be greater than 0"));
  EXPECT_THAT(error("pooled_h: 2 pooled_w: 2 stride: 4 stride: 8", {6, 4}),
              HasSubstr("bottom \"rois\" must be rois [R,5], found [6,4]"));
}

// RegionOutput -------------------------------------------------------------------------------------------------------

TEST(PyramidTest, DetectionsOfEachPictureAreItsBest) {
  const BuiltNet net = BuildText(
      OneLayer({{"data", {2, 1, 64, 64}}, {"rois", {4, 5}}, {"prob", {4, 3}}, {"codes", {4, 12}}},
               {"rows", "boxes", "labels"}, "type: \"RegionOutput\" region_output_param { max_detections: 3 }"));
  std::vector<double> codes(48);
  codes[2 * 12 + 2 * 4] = 5;  // half a side to the right: the default std is 0.1
  const Feeds feeds = {       // The second overlaps the first by more than half.
                       {"rois", {1, 0, 0, 16, 16, 1, 0, 4, 16, 20, 0, 40, 40, 56, 56, -1, 0, 0, 60, 60}},
                       {"prob", {0.1, 0.9, 0.04, 0.1, 0.8, 0.06, 0.2, 0.05, 0.75, 0, 1, 0}},
                       {"codes", codes}};
  const std::vector<double> rows = {0,  2,  0.75, 0.75, 0.625,  1,    0.875,  -1, -1, -1,  -1, -1, -1,   -1,
                                    -1, -1, -1,   -1,   -1,     -1,   -1,     1,  1,  0.9, 0,  0,  0.25, 0.25,
                                    1,  2,  0.06, 0,    0.0625, 0.25, 0.3125, -1, -1, -1,  -1, -1, -1,   -1};
  EXPECT_THAT(TopValues(net, feeds, "rows"), testing::Pointwise(testing::DoubleNear(1e-6), rows));
  EXPECT_THAT(TopValues(net, feeds, "labels"), ElementsAre(2, -1, -1, 1, 2, -1));
  const std::vector<double> boxes = {0, 48, 40, 64, 56, -1, 0, 0, 0,  0,  -1, 0, 0, 0, 0,
                                     1, 0,  0,  16, 16, 1,  0, 4, 16, 20, -1, 0, 0, 0, 0};
  EXPECT_THAT(TopValues(net, feeds, "boxes"), testing::Pointwise(testing::DoubleNear(1e-5), boxes));
}

TEST(PyramidTest, OutputMistakes) {
  const auto error = [](const std::string& param, const std::vector<int64_t>& codes = {4, 12}) {
    return ErrorsOf(OneLayer({{"data", {2, 1, 64, 64}}, {"rois", {4, 5}}, {"prob", {4, 3}}, {"codes", codes}}, {"rows"},
                             StrCat("type: \"RegionOutput\" region_output_param { ", param, " }")));
  };
  EXPECT_THAT(error("", {4, 8}), HasSubstr("probabilities must be [R,classes] and codes [R,4*classes], found [4,3] and "
                                           "[4,8] for 4 regions"));
  EXPECT_THAT(error("max_detections: 0"),
              HasSubstr("region_output_param.max_detections must be from 1 to 1000000, found 0"));
  EXPECT_THAT(error("nms_threshold: -1"), HasSubstr("region_output_param.nms_threshold must be from 0 to 1, found -1"));
}

// Masks --------------------------------------------------------------------------------------------------------------

TEST(PyramidTest, MaskTargetsAreThePartsOfBins) {
  const BuiltNet net = BuildText(OneLayer({{"rois", {3, 5}}, {"objects", {3}}, {"instances", {2, 1, 8, 8}}}, {"y"},
                                          "type: \"MaskTarget\" mask_param { size: 2 }"));
  // The second picture's object 3 is its left half down to row 3; object 5 is to the right of it.
  std::vector<double> pixels(128);
  for (size_t y = 0; y < 4; ++y) {
    for (size_t x = 0; x < 8; ++x) pixels[64 + y * 8 + x] = x < 4 ? 3 : 5;
  }
  const Feeds feeds = {{"instances", pixels},
                       {"rois", {1, 0.5, 0.5, 6.5, 6.5, 0, 0.5, 0.5, 6.5, 6.5, -1, 0, 0, 0, 0}},
                       {"objects", {3, 3, -1}}};
  // Samples lie at 1, 2, 3 and 4, 5, 6 of each axis, so at whole pixels.
  EXPECT_THAT(TopValues(net, feeds, "y"), ElementsAre(1, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1, -1));
}

TEST(PyramidTest, MaskTablesMeasureOverlaps) {
  const BuiltNet net = BuildText(
      OneLayer({{"det", {1, 1, 2, 7}}, {"masks", {2, 1, 8, 8}}, {"boxes", {1, 1, 3, 8}}, {"instances", {1, 1, 8, 8}}},
               {"y"}, "type: \"MaskEvaluate\""));
  // Object 1 is the upper left quarter, 2 the lower half, a crowd; object 3 is hidden.
  std::vector<double> pixels(64);
  for (size_t i = 0; i < 64; ++i) pixels[i] = i >= 32 ? 2 : i % 8 < 4 ? 1 : 0;
  const Feeds feeds = {{"instances", pixels},
                       {"boxes", {0, 1, 1, 0, 0, 0.5, 0.5, 0, 0, 1, 2, 0, 0.5, 1, 1, 2, 0, 2, 3, 0, 0, 0.1, 0.1, 1}},
                       {"masks", std::vector<double>(128, 1)},
                       // The left half, and nothing.
                       {"det", {0, 1, 0.75, 0, 0, 0.5, 1, -1, -1, -1, -1, -1, -1, -1}}};
  const std::vector<double> expected = {2,  3,    -1, -1,  -1,  -1,  //
                                        1,  0.75, 32, 0.5, 0.5, 0,   //
                                        -1, -1,   -1, -1,  -1,  -1,  //
                                        -1, -1,   -1, 1,   1,   2,   //
                                        -1, -1,   -1, 16,  32,  0,   //
                                        -1, -1,   -1, 0,   2,   1};
  EXPECT_THAT(TopValues(net, feeds, "y"), testing::Pointwise(testing::DoubleNear(1e-6), expected));
}

TEST(PyramidTest, MaskMistakes) {
  const auto error = [](const std::vector<NamedInput>& inputs, const std::string& fields) {
    return ErrorsOf(OneLayer(inputs, {"y"}, fields));
  };
  EXPECT_THAT(error({{"m", {4, 3, 2, 2}}, {"c", {3}}}, "type: \"ClassMask\""),
              HasSubstr("bottom \"c\" must be [4], a class for each row, found [3]"));
  EXPECT_THAT(error({{"m", {4, 3}}, {"c", {4}}}, "type: \"ClassMask\""),
              HasSubstr("bottom \"m\" must be [M,C,S,S], found [4,3]"));
  const std::vector<NamedInput> target = {{"rois", {3, 5}}, {"objects", {3}}, {"instances", {2, 1, 8, 8}}};
  EXPECT_THAT(error(target, "type: \"MaskTarget\" mask_param { size: 0 }"),
              HasSubstr("mask_param.size must be from 1 to 4096, found 0"));
  std::vector<NamedInput> wrong = target;
  wrong[2].shape = {2, 3, 8, 8};
  EXPECT_THAT(error(wrong, "type: \"MaskTarget\""), HasSubstr("instances must be [N,1,H,W], found [2,3,8,8]"));
  const std::vector<NamedInput> evaluated = {
      {"det", {1, 1, 4, 7}}, {"masks", {4, 1, 2, 2}}, {"boxes", {1, 1, 6, 8}}, {"instances", {2, 1, 8, 8}}};
  EXPECT_THAT(error(evaluated, "type: \"MaskEvaluate\" mask_param { threshold: 1.5 }"),
              HasSubstr("mask_param.threshold must be from 0 to 1, found 1.5"));
  wrong = evaluated;
  wrong[1].shape = {4, 1, 2, 3};
  EXPECT_THAT(error(wrong, "type: \"MaskEvaluate\""),
              HasSubstr("masks must be [N*K,1,S,S], found [1,1,4,7], [4,1,2,3], [1,1,6,8] and [2,1,8,8]"));
  wrong = evaluated;
  wrong[0].shape = {1, 1, 5, 7};
  EXPECT_THAT(error(wrong, "type: \"MaskEvaluate\""), HasSubstr("detections must be [1,1,N*K,7]"));
}

}  // namespace
}  // namespace moka
