// Python layers of Faster R-CNN's forks that choose, move or make regions. None has a gradient.
#include <algorithm>

#include "core/text.h"
#include "layers/forks/rcnn/layers/region_values.h"
#include "layers/types/loss/own_gradient.h"
#include "layers/types/python/python.h"

namespace moka {
namespace {

// Bottom i, which no gradient passes, as [R,columns]. Errors: kConfig for another shape.
ValueId Rows(const LayerBuilder& l, int i, int64_t rows, int64_t columns, std::string_view what) {
  const Shape x = l.shape(i);
  const bool fits = x.rank() >= 1 && x[0] == rows && x.Count() == rows * columns;
  l.Check(fits, StrCat("bottom[", i, "]"),
          StrCat("bottom \"", l.param().bottom(i), "\" must be [", rows, ",", columns, "] (", what, "), found ",
                 x.ToString()));
  return Constant(l, l.b().Reshape(l.bottom(i), Shape{rows, columns}));
}

// 0, 1, .. as [1,count].
ValueId Numbered(const GraphBuilder& b, int64_t count) {
  return b.Reshape(b.Add1("filter_index", {b.Full(Shape{count}, 1)}), Shape{1, count});
}

// mtnet: boxes [R,4] or [R,5] moved by normalised deltas, not cut to the image.
void BuildBoxTransform(LayerBuilder& l, const PythonFields& fields) {
  const GraphBuilder& b = l.b();
  const Shape boxes = l.shape(0);
  const int64_t columns = boxes.rank() == 2 ? boxes[1] : 0;
  l.Check(
      columns == 4 || columns == 5, "bottom[0]",
      StrCat("bottom \"", l.param().bottom(0), "\" must be boxes [R,4] or regions [R,5], found ", boxes.ToString()));
  const Doubles means = fields.Numbers("bbox_normalize_means", {0, 0, 0, 0});
  const Doubles stds = fields.Numbers("bbox_normalize_stds", {0.1, 0.1, 0.2, 0.2});
  l.Check(means.size() == 4 && stds.size() == 4, "python_param.param_str",
          "python_param.param_str: 'bbox_normalize_means' and 'bbox_normalize_stds' must have 4 numbers each");
  const ValueId rows = Constant(l, l.bottom(0));
  const ValueId box = columns == 4 ? rows : Columns(b, rows, {1, 4})[1];
  std::vector<ValueId> deltas = Columns(b, Rows(l, 1, boxes[0], 4, "a delta of each side"));
  for (size_t i = 0; i < deltas.size(); ++i) {
    deltas[i] = Computed(b, Term::Of(deltas[i]) * Decimal(stds[i]) + Decimal(means[i]));
  }
  l.SetTop(0, AsRois(b, Moved(b, box, Beside(b, deltas))));
}

// densecap: the whole image as a region.
void BuildGlobalRoi(LayerBuilder& l, const PythonFields&) {
  const GraphBuilder& b = l.b();
  const Shape info = l.shape(0);
  l.Check(info.rank() == 2 && info[0] == 1 && info[1] >= 2, "bottom[0]",
          StrCat("im_info must be [1,3] (height, width, scale), found ", info.ToString()));
  const std::vector<ValueId> size = Columns(b, Constant(l, l.bottom(0)));
  const ValueId zero = b.Full(Shape{1, 1}, 0);
  l.SetTop(0, Beside(b, {zero, zero, zero, b.Pointwise("x0-1", {size[1]}), b.Pointwise("x0-1", {size[0]})}));
}

// caffe-face-attributes: for each class but the background the region that scores it best, among those whose best class
// it is where there are any.
void BuildRoiSelect(LayerBuilder& l, const PythonFields& fields) {
  const GraphBuilder& b = l.b();
  const int64_t classes = fields.Count("num_class", 2);
  const Shape rois = l.shape(0);
  l.Check(rois.rank() >= 1, "bottom[0]", StrCat("the regions must be [R,5], found ", rois.ToString()));
  const ValueId regions = Rows(l, 0, rois[0], 5, "image, x1, y1, x2, y2");
  const ValueId scores = Rows(l, 1, rois[0], classes, "a score of each class");
  const auto best = [&](ValueId x, int64_t axis) {
    return b.Add1("top_k_mask", {x}, {{"axis", axis}, {"k", int64_t{1}}});
  };
  const ValueId place = b.Reshape(Numbered(b, rois[0]), Shape{rois[0], 1});
  const auto best_row = [&](ValueId x) {
    return b.Reshape(b.ReduceSum(b.Pointwise("x0*x1", {best(x, 0), place}), {0}), Shape{classes});
  };
  const ValueId is_own = best(scores, 1);
  const ValueId own = best_row(b.Pointwise("select(x1,x0,-1e30)", {scores, is_own}));
  const ValueId any = best_row(scores);
  const ValueId count = b.Reshape(b.ReduceSum(is_own, {0}), Shape{classes});
  const ValueId index = b.Pointwise("select(gt(x2,0),x0,x1)", {own, any, count});
  const ValueId chosen = b.Add("slice", {index}, {{"axis", int64_t{0}}, {"sizes", Ints{1, classes - 1}}})[1];
  l.SetTop(0, b.Add1("take_rows", {regions, chosen}));
}

// OHEM: the regions of largest loss and what is to be learnt of them.
void BuildOhemData(LayerBuilder& l, const PythonFields& fields) {
  const GraphBuilder& b = l.b();
  const bool has_boxes = l.top_count() == 5;
  l.Check(has_boxes ? l.bottom_count() == 7 : l.top_count() == 2 && l.bottom_count() == 4, "bottom",
          StrCat("OHEMDataLayer takes 7 bottoms and 5 tops, or without boxes 4 bottoms and 2 tops, found ",
                 l.bottom_count(), " and ", l.top_count()));
  const int64_t classes = fields.Count("num_classes", 2);
  const Shape rois = l.shape(2);
  l.Check(rois.rank() >= 1, "bottom[2]", StrCat("the regions must be [R,5], found ", rois.ToString()));
  const int64_t regions = rois[0];
  const ValueId probability = Rows(l, 0, regions, classes, "a probability of each class");
  const ValueId labels = Rows(l, 3, regions, 1, "labels");
  const ValueId own = b.Pointwise("select(eq(x1,x2),x0,0)", {probability, labels, Numbered(b, classes)});
  ValueId loss = b.Pointwise("-log(max(x0,2.220446049250313e-16))", {b.ReduceSum(own, {1})});
  std::vector<ValueId> taken = {Rows(l, 2, regions, 5, "image, x1, y1, x2, y2"), b.Reshape(labels, Shape{regions})};
  if (has_boxes) {
    const int64_t values = l.shape(4).rank() >= 1 && l.shape(4)[0] == regions ? l.shape(4).Count() / regions : 0;
    std::vector<ValueId> boxes = {Rows(l, 1, regions, values, "as the targets")};
    for (int i = 4; i < 7; ++i) boxes.push_back(Rows(l, i, regions, values, "as the targets"));
    const ValueId each = b.Pointwise("t0=abs(x2*(x0-x1));x3*select(lt(t0,1),0.5*t0*t0,t0-0.5)", boxes);
    const Shape one{regions, 1};
    loss =
        b.Pointwise("x0+select(gt(x1,0),x2,0)", {b.Reshape(loss, one), labels, b.Reshape(b.ReduceSum(each, {1}), one)});
    taken.insert(taken.end(), boxes.begin() + 1, boxes.end());
  }
  const int64_t rows = fields.Count("batch_size", 128, 1);
  const double threshold = fields.Flag("ohem_use_nms", true) ? fields.Number("ohem_nms_thresh", 0.7) : 1;
  const ValueId index = b.Add1("hard_regions", {taken[0], taken[1], b.Reshape(loss, Shape{regions})},
                               {{"rows", std::min(rows, regions)}, {"nms_threshold", threshold}});
  for (int i = 0; i < l.top_count(); ++i) {
    l.SetTop(i, b.Add1("take_rows", {taken[static_cast<size_t>(i)], index}));
  }
}

// AffordanceNet: a detector's boxes, for which it then makes masks; the rest of its rows is padding of class -1.
void BuildPredToProposal(LayerBuilder& l, const PythonFields& fields) {
  const GraphBuilder& b = l.b();
  const Shape rois = l.shape(0);
  const Shape scores = l.shape(2);
  const Shape info = l.shape(3);
  l.Check(rois.rank() >= 1 && scores.rank() == 2, "bottom[2]",
          StrCat("the scores must be [R,C], found ", scores.ToString()));
  l.Check(info.rank() == 2 && info[0] == 1 && info[1] == 3, "bottom[3]",
          StrCat("im_info must be [1,3] (height, width, scale), found ", info.ToString()));
  const std::vector<ValueId> region = Columns(b, Rows(l, 0, rois[0], 5, "image, x1, y1, x2, y2"));
  const std::vector<ValueId> size = Columns(b, Constant(l, l.bottom(3)));
  // Rows of zeros are no proposals.
  std::vector<ValueId> scaled = {b.Pointwise("select(max(max(abs(x1),abs(x2)),max(abs(x3),abs(x4))),x0,-1)",
                                             {region[0], region[1], region[2], region[3], region[4]})};
  for (size_t i = 1; i < region.size(); ++i) scaled.push_back(b.Pointwise("x0/x1", {region[i], size[2]}));
  const ValueId sizes = Beside(b, {b.Pointwise("x0/x1", {size[0], size[2]}), b.Pointwise("x0/x1", {size[1], size[2]})});
  const ValueId found = b.Add1("class_detections",
                               {Rows(l, 2, rois[0], scores[1], "a score of each class"),
                                Rows(l, 1, rois[0], 4 * scores[1], "a box of each class"), Beside(b, scaled), sizes},
                               {{"threshold", fields.Number("thresh", 0.05)},
                                {"most", fields.Count("max_per_image", 100, 0)},
                                {"nms_threshold", fields.Number("nms", 0.3)},
                                {"holds_last", false}});
  const int64_t rows = b.shape(found)[0] - 1;
  const ValueId detections = b.Add("slice", {found}, {{"axis", int64_t{0}}, {"sizes", Ints{1, rows}}})[1];
  const std::vector<ValueId> column = Columns(b, detections);
  std::vector<ValueId> own;
  std::vector<ValueId> for_mask;
  for (size_t i = 1; i <= 4; ++i) {
    own.push_back(b.Pointwise("select(ge(x1,0),x0,0)", {column[i], column[5]}));
    for_mask.push_back(b.Pointwise("x0*x1", {own.back(), size[2]}));
  }
  l.SetTop(0, AsRois(b, for_mask));
  l.SetTop(1, column[6]);
  l.SetTop(2, column[5]);
  l.SetTop(3, AsRois(b, own));
}

}  // namespace

std::vector<PythonLayerDef> RegionPythonLayers() {
  return {
      {.module = "roi_data_layer.layer",
       .layer = "OHEMDataLayer",
       .doc = "OHEM: (cls_prob [R,num_classes], bbox_pred [R,4K], rois [R,5], labels [R], bbox_targets, "
              "bbox_inside_weights and bbox_outside_weights [R,4K]) -> rois, labels, targets and weights of the 128 "
              "regions of largest loss (at most R), after regions of one image and label that overlap by more than "
              "0.7 are left out but for the one of largest loss; if fewer are left they repeat. Without boxes 4 "
              "bottoms and 2 tops.",
       .min_bottoms = 4,
       .max_bottoms = 7,
       .min_tops = 2,
       .max_tops = 5,
       .build = BuildOhemData},
      {.module = "rpn.box_transform_layer",
       .layer = "BoxTransformLayer",
       .doc = "mtnet: (boxes [R,4] or regions [R,5], deltas [R,4]) -> regions [R,5] of image 0, moved by the deltas "
              "times bbox_normalize_stds plus bbox_normalize_means.",
       .min_bottoms = 2,
       .max_bottoms = 2,
       .build = BuildBoxTransform},
      {.module = "rpn.global_roi_layer",
       .layer = "GlobalRoILayer",
       .doc = "densecap: im_info -> the whole image as a region [1,5].",
       .min_bottoms = 1,
       .max_bottoms = 1,
       .build = BuildGlobalRoi},
      {.module = "rpn.pred_to_proposal_layer",
       .layer = "PredToProposalLayer",
       .doc = "AffordanceNet: (rois [R,5], bbox_pred [R,4C], cls_prob [R,C], im_info) -> regions [max_per_image,5], "
              "their score and class [max_per_image,1], and the regions at the image's own scale: the best boxes of "
              "score thresh (0.05) or more, thinned at overlap 0.3 (nms), class by class; rows left over are zeros "
              "with score and class -1.",
       .min_bottoms = 4,
       .max_bottoms = 4,
       .min_tops = 4,
       .max_tops = 4,
       .build = BuildPredToProposal},
      {.module = "rpn.roi_select_layer",
       .layer = "RoISelectLayer",
       .doc = "caffe-face-attributes: (rois [R,5], scores [R,num_class]) -> for each class but the first the region "
              "[num_class-1,5] of its best score, among those whose best class it is if there are any.",
       .min_bottoms = 2,
       .max_bottoms = 2,
       .build = BuildRoiSelect},
  };
}

}  // namespace moka
