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

// Returns the attributes that both layers' messages have alike.
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

}  // namespace

LayerDef BoxOutputLayer() {
  return {.type = "BoxOutput",
          .min_bottoms = 1,
          .max_bottoms = -1,
          .max_tops = 2,
          .build = BuildBoxOutput,
          .params = {"box_output_param", "bbox_reg_param"}};
}

LayerDef BoxGroupOutputLayer() {
  return {.type = "BoxGroupOutput",
          .min_bottoms = 2,
          .max_bottoms = -1,
          .max_tops = 2,
          .build = BuildGroups,
          .params = {"box_group_output_param", "bbox_reg_param"}};
}

}  // namespace moka
