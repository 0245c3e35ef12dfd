// BoxOutput (Cai et al., "A Unified Multi-scale Deep Convolutional Neural Network for Fast Object Detection", 2016) and
// BoxGroupOutput (Cai and Vasconcelos, "Cascade R-CNN", 2018): proposals of detection branches. The originals' tops
// have a row a proposal, or one made-up row without any; here they have the most rows there can be and the rest is -1.
#include "layers/forks/cascade/layers/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void SetTops(LayerBuilder& l, const std::vector<ValueId>& inputs, const Attributes& attributes) {
  const std::vector<ValueId> tops = l.b().Add("branch_proposals", inputs, attributes);
  for (int i = 0; i < l.top_count(); ++i) l.SetTop(i, FourAxes(l.b(), tops[static_cast<size_t>(i)]));
}

// What both layers' messages have alike.
template <class Parameter>
Attributes FieldsOf(const LayerBuilder& l, const std::string& message, const Parameter& p) {
  Attributes attributes{{"threshold", Finite(l, message + ".fg_thr", p.fg_thr())},
                        {"min_size", Finite(l, message + ".min_size", p.min_size())},
                        {"pre_nms", int64_t{p.max_nms_num()}},
                        {"post_nms", int64_t{p.max_post_nms_num()}}};
  SetSuppression(l, message, p.iou_thr(), p.nms_type(), attributes);
  SetBounds(l, message, p.field_xyr(), p.field_whr(), attributes);
  SetOffsets(l, attributes);
  return attributes;
}

void BuildBoxOutput(LayerBuilder& l) {
  const BoxOutputParameter& p = l.param().box_output_param();
  const int branches = l.bottom_count();
  l.Check(p.field_h_size() == branches && p.field_w_size() == branches && p.downsample_rate_size() == branches,
          "box_output_param",
          StrCat("box_output_param.field_h, field_w and downsample_rate must be given once for each of the ", branches,
                 " bottoms, found ", p.field_h_size(), ", ", p.field_w_size(), " and ", p.downsample_rate_size()));
  Attributes attributes = FieldsOf(l, "box_output_param", p);
  attributes.Set("heights", SidesOf(l, "box_output_param.field_h", p.field_h()));
  attributes.Set("widths", SidesOf(l, "box_output_param.field_w", p.field_w()));
  attributes.Set("strides", SidesOf(l, "box_output_param.downsample_rate", p.downsample_rate()));
  attributes.Set("counts", Ints(static_cast<size_t>(branches), 1));
  std::vector<ValueId> inputs;
  for (int i = 0; i < branches; ++i) {
    const Shape shape = l.shape(i);
    l.Check(shape.rank() == 4 && shape[1] >= 6, StrCat("bottom[", i, "]"),
            StrCat("bottom \"", l.param().bottom(i), "\" must be [N,classes+4,H,W] with at least 2 classes, found ",
                   shape.ToString()));
    const std::vector<ValueId> parts =
        l.b().Add("slice", {l.bottom(i)}, {{"axis", int64_t{1}}, {"sizes", Ints{shape[1] - 4, 4}}});
    inputs.insert(inputs.end(), parts.begin(), parts.end());
  }
  SetTops(l, inputs, attributes);
}

void BuildGroups(LayerBuilder& l) {
  const BoxGroupOutputParameter& p = l.param().box_group_output_param();
  const int branches = l.bottom_count() / 2;
  l.Check(l.bottom_count() % 2 == 0 && p.box_group_param_size() == branches, "box_group_output_param.box_group_param",
          StrCat("there must be a box_group_param for each pair of bottoms, found ", p.box_group_param_size(), " for ",
                 l.bottom_count(), " bottoms"));
  Attributes attributes = FieldsOf(l, "box_group_output_param", p);
  attributes.Set("pixels", true);
  Doubles widths;
  Doubles heights;
  Doubles strides;
  Ints counts;
  for (int i = 0; i < branches; ++i) {
    const BoxGroupParameter& group = p.box_group_param(i);
    const std::string field = StrCat("box_group_output_param.box_group_param[", i, "]");
    l.Check(group.field_h_size() >= 1 && group.field_h_size() == group.field_w_size(), field,
            StrCat(field, ": field_h and field_w must be given equally often, found ", group.field_h_size(), " and ",
                   group.field_w_size()));
    const Doubles high = SidesOf(l, field + ".field_h", group.field_h());
    const Doubles wide = SidesOf(l, field + ".field_w", group.field_w());
    heights.insert(heights.end(), high.begin(), high.end());
    widths.insert(widths.end(), wide.begin(), wide.end());
    strides.push_back(SideOf(l, field + ".stride", group.stride()));
    counts.push_back(group.field_h_size());
  }
  attributes.Set("widths", widths);
  attributes.Set("heights", heights);
  attributes.Set("strides", strides);
  attributes.Set("counts", counts);
  SetTops(l, l.bottoms(), attributes);
}

constexpr const char* kThinned =
    " of an image the max_nms_num best (0: all) are taken, best first, unless their overlap with one taken before is "
    "above iou_thr (nms_type IOU: shared over united area, IOMU: over the smaller box, IOFU: over the one taken), at "
    "most max_post_nms_num (0: all).";

}  // namespace

LayerDef BoxOutputLayer() {
  return {
      .type = "BoxOutput",
      .doc =
          "Proposals of MS-CNN's detection branches. Each bottom is a branch [N,K+4,H,W] of class scores (background "
          "first) and four offsets from an anchor of field_w x field_h pixels at every downsample_rate pixels; the "
          "score of a box is its best class's minus the background's, at least fg_thr. Tops: regions [R,5,1,1] (image, "
          "x1, y1, x2, y2) and optionally the same with the score [R,6,1,1], R the most there can be; rows that are "
          "left are -1.",
      .min_bottoms = 1,
      .max_bottoms = -1,
      .max_tops = 2,
      .build = BuildBoxOutput,
      .page = {
          .params = {"box_output_param", "bbox_reg_param"},
          .formula = StrCat(
              "Offsets `t = raw * bbox_std + bbox_mean` (std 1 and mean 0 unless both are given); dx and dy are "
              "bounded "
              "to +-1/field_xyr, dw and dh to +-log(field_whr). At column c and row r: `w = field_w exp(dw)`, `x = "
              "field_w dx + (c + 0.5) downsample_rate - w / 2`, likewise h and y. x and y are raised to 0, then w and "
              "h cut to the map's `W downsample_rate` and `H downsample_rate`; boxes with a side below min_size go. "
              "Then",
              kThinned,
              "\n\nA row is (n, x, y, x + w, y + h), image by image. R is N times the smallest of max_nms_num, "
              "max_post_nms_num and all positions."),
          .gradient = "None: no bottom gets one.",
          .source = "Cai et al., \"A Unified Multi-scale Deep Convolutional Neural Network for Fast Object "
                    "Detection\", 2016, arXiv 1607.07155; mscnn's box_output_layer. Its tops have a row a proposal, "
                    "and one of (0, 1, 1, 10, 10) if there is none; of equal scores it takes the later first.",
          .example = R"(layer { name: "a" type: "Input" top: "a" input_param { shape { dim: 2 dim: 7 dim: 4 dim: 6 } } }
layer { name: "b" type: "Input" top: "b" input_param { shape { dim: 2 dim: 7 dim: 2 dim: 3 } } }
layer {
  name: "proposals"
  type: "BoxOutput"
  bottom: "a"
  bottom: "b"
  top: "rois"
  top: "scored"
  bbox_reg_param { bbox_mean: 0 bbox_mean: 0 bbox_mean: 0 bbox_mean: 0
                   bbox_std: 0.1 bbox_std: 0.1 bbox_std: 0.2 bbox_std: 0.2 }
  box_output_param {
    fg_thr: -5 iou_thr: 0.65 max_nms_num: 8 min_size: 4
    field_w: 16 field_w: 32 field_h: 16 field_h: 32 downsample_rate: 8 downsample_rate: 16
  }
})"}};
}

LayerDef BoxGroupOutputLayer() {
  return {
      .type = "BoxGroupOutput",
      .doc =
          "Proposals of Cascade R-CNN's proposal network. A pair of bottoms is a branch of A anchors, whose sizes and "
          "stride its box_group_param has: class probabilities [N*A,K,H,W] (background first) and offsets "
          "[N*A,4,H,W]; the score of a box is 1 minus the background's probability, at least fg_thr. Tops: regions "
          "[R,5,1,1] (image, x1, y1, x2, y2) and optionally the same with the score [R,6,1,1], R the most there can "
          "be; rows that are left are -1.",
      .min_bottoms = 2,
      .max_bottoms = -1,
      .max_tops = 2,
      .build = BuildGroups,
      .page = {
          .params = {"box_group_output_param", "bbox_reg_param"},
          .formula = StrCat(
              "Item n*A + a of a pair is anchor a of image n. Offsets `t = raw * bbox_std + bbox_mean` (std 1 and mean "
              "0 unless both are given); dx and dy are bounded to +-1/field_xyr, dw and dh to +-log(field_whr). At "
              "column c and row r: `w = field_w exp(dw)`, `x1 = field_w dx + (c + 0.5) stride - w / 2`, `x2 = x1 + w - "
              "1`, likewise y. Boxes are cut to `[0, W stride]` and `[0, H stride]`; those with a side (`x2 - x1 + 1`) "
              "below min_size go. Then",
              kThinned, "\n\nR is N times the smallest of max_nms_num, max_post_nms_num and all positions."),
          .gradient = "None: no bottom gets one.",
          .source = "Cai and Vasconcelos, \"Cascade R-CNN\", 2018, arXiv 1712.00726; cascade-rcnn's "
                    "box_group_output_layer. Its tops have a row a proposal, and one of (0, 1, 1, 10, 10) if there is "
                    "none.",
          .example =
              R"(layer { name: "prob" type: "Input" top: "prob" input_param { shape { dim: 4 dim: 2 dim: 4 dim: 6 } } }
layer { name: "offsets" type: "Input" top: "offsets" input_param { shape { dim: 4 dim: 4 dim: 4 dim: 6 } } }
layer {
  name: "proposals"
  type: "BoxGroupOutput"
  bottom: "prob"
  bottom: "offsets"
  top: "rois"
  box_group_output_param {
    fg_thr: 0.05 iou_thr: 0.7 max_nms_num: 20 max_post_nms_num: 5 min_size: 4 field_whr: 8 field_xyr: 1
    box_group_param { field_w: 16 field_h: 16 field_w: 32 field_h: 24 stride: 8 }
  }
})"}};
}

}  // namespace moka
