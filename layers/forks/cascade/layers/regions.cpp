// Layers over regions in MS-CNN and Cascade R-CNN: BboxAccuracy, DecodeBBox, HardMining, ProposalTarget, ScaleRoute.
// The originals' blobs have a row a region; here they have the most rows there can be and what is left is -1 in every
// column (layers/types/loss/padding.h).
#include <limits>

#include "graph/op.h"
#include "layers/forks/cascade/layers/fields.h"
#include "layers/net/layer.h"
#include "layers/net/random_stream.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

void BuildAccuracy(LayerBuilder& l) {
  Attributes attributes{{"class_aware", l.param().bbox_reg_param().cls_aware()}};
  SetOffsets(l, attributes);
  const std::vector<ValueId> tops = l.b().Add("region_accuracy", l.bottoms(), attributes);
  for (int i = 0; i < l.top_count(); ++i) l.SetTop(i, l.b().Reshape(tops[static_cast<size_t>(i)], Shape{1, 1, 1, 1}));
}

// The node that gives a value, through what leaves its rows alone; null unless its op has this name.
const Node* ProducerOf(const Graph& graph, ValueId x, std::string_view op) {
  for (;;) {
    const NodeId id = graph.value(x).producer;
    if (id == kNoId) return nullptr;
    const Node& node = graph.node(id);
    if (node.op->name == op) return &node;
    const bool keeps_rows = node.op->name == "stop_gradient" || node.op->name == "reshape";
    if (!keeps_rows || graph.shape(node.inputs[0])[0] != graph.shape(x)[0]) return nullptr;
    x = node.inputs[0];
  }
}

// Regions often come as the routes of a pyramid's levels laid end to end, each as long as what it was taken from. Of
// these rows no more can be regions than were routed, if the routes' sizes do not meet, and one for each route (which
// gives one when it has none). Without this the rows would grow with each stage of a cascade.
int64_t MostRegions(const Graph& graph, ValueId rois) {
  const int64_t rows = graph.shape(rois)[0];
  const Node* joined = ProducerOf(graph, rois, "concat");
  if (joined == nullptr || joined->attributes.Int("axis") != 0) return rows;
  ValueId source = kNoId;
  std::vector<std::pair<double, double>> ranges;
  for (const ValueId part : joined->inputs) {
    const Node* padded = ProducerOf(graph, part, "pointwise");
    const Node* taken = padded == nullptr ? nullptr : ProducerOf(graph, padded->inputs[0], "take_rows");
    const Node* route = taken == nullptr ? nullptr : ProducerOf(graph, taken->inputs[1], "scale_rows");
    if (route == nullptr || (source != kNoId && route->inputs[0] != source)) return rows;
    source = route->inputs[0];
    ranges.emplace_back(route->attributes.Float("low"), route->attributes.Float("high"));
  }
  std::ranges::sort(ranges);
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].first < ranges[i - 1].second) return rows;
  }
  return std::min(rows, graph.shape(source)[0] + static_cast<int64_t>(ranges.size()));
}

void BuildDecode(LayerBuilder& l) {
  const bool is_train = l.phase() == TRAIN;
  l.Check(l.bottom_count() < 3 || is_train, "bottom[2]", "a third bottom is for phase TRAIN only");
  Attributes attributes{
      {"drop", is_train},
      {"rows", MostRegions(l.b().graph(), l.bottom(1))},
      {"gt_overlap", Finite(l, "decode_bbox_param.gt_iou_thr", l.param().decode_bbox_param().gt_iou_thr())}};
  SetOffsets(l, attributes);
  l.SetTop(0, FourAxes(l.b(), l.b().Add1("decode_regions", l.bottoms(), attributes)));
}

void BuildTargets(LayerBuilder& l) {
  const std::string message = "proposal_target_param";
  const ProposalTargetParameter& p = l.param().proposal_target_param();
  l.Check(p.cls_num() >= 2, message + ".cls_num", StrCat(message, ".cls_num must be given, at least 2"));
  l.Check(p.batch_size() == -1 || p.batch_size() >= 1, message + ".batch_size",
          StrCat(message, ".batch_size must be -1 or at least 1, found ", p.batch_size()));
  l.Check(p.num_img_per_batch() >= 1, message + ".num_img_per_batch",
          message + ".num_img_per_batch must be at least 1");
  l.Check(p.fg_thr() >= p.bg_thr_hg(), message + ".fg_thr",
          StrCat(message, ".fg_thr must be at least bg_thr_hg, found ", p.fg_thr(), " and ", p.bg_thr_hg()));
  l.Check(p.stage() == 0, message + ".stage", message + ".stage is a field of FrcnnProposalTarget");
  const Shape objects = l.shape(1);
  const int64_t columns = objects.rank() >= 2 ? objects[1] : 0;
  l.Check(columns == 7 || columns == 8, "bottom[1]",
          StrCat("bottom \"", l.param().bottom(1), "\" must have 7 (MS-CNN) or 8 (Cascade R-CNN) columns, found ",
                 objects.ToString()));
  Attributes attributes{{"rows", int64_t{p.batch_size()}},
                        {"classes", int64_t{p.cls_num()}},
                        {"class_aware", l.param().bbox_reg_param().cls_aware()},
                        {"fg_fraction", Finite(l, message + ".fg_fraction", p.fg_fraction())},
                        {"fg", Finite(l, message + ".fg_thr", p.fg_thr())},
                        {"bg_low", Finite(l, message + ".bg_thr_lw", p.bg_thr_lw())},
                        {"bg_high", Finite(l, message + ".bg_thr_hg", p.bg_thr_hg())},
                        {"box_low", Finite(l, message + ".bbox_thr_lw", p.bbox_thr_lw())},
                        {"box_high", Finite(l, message + ".bbox_thr_hg", p.bbox_thr_hg())},
                        {"append", p.append_gtbox()},
                        {"pickup", p.pickup_discard()},
                        {"images", int64_t{p.num_img_per_batch()}},
                        {"image_width", int64_t{p.img_width()}},
                        {"image_height", int64_t{p.img_height()}},
                        {"overlap_weighted", p.iou_weighted()},
                        {"pixels", columns == 8},
                        {"stream", static_cast<int64_t>(RandomStreamOf(l))}};
  SetOffsets(l, attributes);
  const std::vector<ValueId> tops = l.b().Add("region_targets", {l.bottom(0), l.bottom(1), l.RandomKey()}, attributes);
  for (int i = 0; i < l.top_count(); ++i) {
    const ValueId top = FourAxes(l.b(), tops[static_cast<size_t>(i)]);
    l.MarkPadded(top);
    l.SetTop(i, top);
  }
}

// Each top takes the rows of its bottom (the first is bottom `first`); a missing one is -1.
void TakeRows(LayerBuilder& l, const std::vector<ValueId>& rows, int first) {
  const GraphBuilder& b = l.b();
  for (int i = 0; i < l.top_count(); ++i) {
    const ValueId x = Constant(l, l.bottom(first + i));
    const Shape shape = b.shape(x);
    const ValueId taken = b.Add1("take_rows", {x, rows[0]});
    Shape ones = shape.With(0, b.shape(rows[1])[0]);
    for (int axis = 1; axis < shape.rank(); ++axis) ones = ones.With(axis, 1);
    l.SetTop(i, b.Pointwise("x0-x1", {taken, b.Reshape(rows[1], ones)}));
  }
}

void CheckRowCounts(const LayerBuilder& l, int tops_of) {
  l.Check(l.top_count() == l.bottom_count() - tops_of, "top",
          StrCat("there must be ", l.bottom_count() - tops_of, " tops for ", l.bottom_count(), " bottoms, found ",
                 l.top_count()));
  for (int i = 0; i < l.bottom_count(); ++i) {
    const Shape shape = l.shape(i);
    l.Check(
        shape.rank() >= 1 && l.shape(0).rank() >= 1 && shape[0] == l.shape(0)[0], StrCat("bottom[", i, "]"),
        StrCat("every bottom must have a row a region, found ", shape.ToString(), " beside ", l.shape(0).ToString()));
  }
}

void BuildRoute(LayerBuilder& l) {
  const ScaleRouteParameter& p = l.param().scale_route_param();
  const double low = Finite(l, "scale_route_param.low_scale", p.low_scale());
  const double high = Finite(l, "scale_route_param.high_scale", p.high_scale());
  l.Check(!p.has_low_scale() || low > 0, "scale_route_param.low_scale",
          StrCat("scale_route_param.low_scale must be above 0, found ", low));
  l.Check(!p.has_high_scale() || (high >= low && high > 0), "scale_route_param.high_scale",
          StrCat("scale_route_param.high_scale must be above 0 and at least low_scale, found ", high, " and ", low));
  CheckRowCounts(l, 0);
  const double middle = p.has_low_scale() && p.has_high_scale() ? std::sqrt(low * high)
                        : p.has_low_scale()                     ? low
                        : p.has_high_scale()                    ? high
                                                                : 256;
  const double most = static_cast<double>(std::numeric_limits<float>::max());
  TakeRows(
      l,
      l.b().Add(
          "scale_rows", {l.bottom(0)},
          {{"low", p.has_low_scale() ? low : 0.0}, {"high", p.has_high_scale() ? high : most}, {"middle", middle}}),
      0);
}

void BuildMining(LayerBuilder& l) {
  const HardMiningParameter& p = l.param().hard_mining_param();
  l.Check(p.num_roi_per_image() >= 1 && p.num_image() >= 1, "hard_mining_param",
          "hard_mining_param.num_roi_per_image and num_image must be at least 1");
  CheckRowCounts(l, 1);
  TakeRows(l,
           l.b().Add("hard_rows", {l.bottom(0), l.bottom(1)},
                     {{"rows", int64_t{p.num_roi_per_image()}}, {"images", int64_t{p.num_image()}}}),
           1);
}

}  // namespace

LayerDef BboxAccuracyLayer() {
  return {.type = "BboxAccuracy",
          .min_bottoms = 3,
          .max_bottoms = 3,
          .max_tops = 2,
          .build = BuildAccuracy,
          .params = {"bbox_reg_param"}};
}

LayerDef DecodeBBoxLayer() {
  return {.type = "DecodeBBox",
          .min_bottoms = 2,
          .max_bottoms = 3,
          .build = BuildDecode,
          .params = {"bbox_reg_param", "decode_bbox_param"}};
}

LayerDef CascadeProposalTargetLayer() {
  return {.type = "ProposalTarget",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .min_tops = 6,
          .max_tops = 7,
          .build = BuildTargets,
          .traits = {.marks_padding = true},
          .params = {"proposal_target_param", "bbox_reg_param"}};
}

LayerDef ScaleRouteLayer() {
  return {.type = "ScaleRoute",
          .min_bottoms = 1,
          .max_bottoms = -1,
          .max_tops = -1,
          .build = BuildRoute,
          .params = {"scale_route_param"}};
}

LayerDef HardMiningLayer() {
  return {.type = "HardMining",
          .min_bottoms = 2,
          .max_bottoms = -1,
          .max_tops = -1,
          .build = BuildMining,
          .params = {"hard_mining_param"}};
}

}  // namespace moka
