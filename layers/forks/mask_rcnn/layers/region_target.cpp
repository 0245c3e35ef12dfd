// RegionTarget: what the second stage learns.
#include "core/text.h"
#include "layers/forks/mask_rcnn/layers/fields.h"
#include "layers/net/layer.h"
#include "layers/net/random_stream.h"

namespace moka {
namespace {

void BuildRegionTarget(LayerBuilder& l) {
  const RegionTargetParameter& p = l.param().region_target_param();
  l.Check(l.top_count() == 5 || l.top_count() == 8, "top",
          StrCat("RegionTarget has 5 tops, or 8 with those for masks, found ", l.top_count()));
  l.Check(p.classes() >= 2, "region_target_param.classes",
          StrCat("region_target_param.classes must be at least 2 (the background counts), found ", p.classes()));
  l.Check(p.rows() >= 1 && p.rows() <= 1000000, "region_target_param.rows",
          StrCat("region_target_param.rows must be from 1 to 1000000, found ", p.rows()));
  const double fraction = PartOfField(l, "region_target_param.foreground_fraction", p.foreground_fraction());
  const auto foreground = static_cast<int64_t>(static_cast<double>(p.rows()) * fraction);
  const int64_t mask_rows = p.has_mask_rows() ? int64_t{p.mask_rows()} : std::max<int64_t>(foreground, 1);
  l.Check(mask_rows >= 1 && mask_rows <= 1000000, "region_target_param.mask_rows",
          StrCat("region_target_param.mask_rows must be from 1 to 1000000, found ", mask_rows));
  const std::vector<ValueId> tops = l.b().Add(
      "picture_regions", {l.bottom(1), l.bottom(2), l.RandomKey()},
      Together(PicturesOfBottom0(l), {{"pictures", l.shape(0)[0]},
                                      {"rows", int64_t{p.rows()}},
                                      {"mask_rows", mask_rows},
                                      {"classes", int64_t{p.classes()}},
                                      {"foreground_fraction", fraction},
                                      {"foreground_overlap", PartOfField(l, "region_target_param.foreground_overlap",
                                                                         p.foreground_overlap())},
                                      {"stds", StdsOfField(l, "region_target_param.std", p.std())},
                                      {"stream", static_cast<int64_t>(RandomStreamOf(l))}}));
  for (int i = 0; i < l.top_count(); ++i) l.SetTop(i, tops[static_cast<size_t>(i)]);
}

}  // namespace

LayerDef RegionTargetLayer() {
  return {
      .type = "RegionTarget",
      .doc =
          "The regions that a second stage learns from. Bottoms: the pictures [N,C,H,W] (for their size), proposals "
          "[R,5], the true boxes [1,1,G,8] (RecordData's BOXES). Tops: rois [N*rows,5], their classes [N*rows] (0 "
          "background, -1 where there are fewer regions), what their codes should be [N*rows,4*classes] and weights "
          "inside and outside the norm for SmoothL1Loss; then, for masks, foreground rois [N*mask_rows,5], their "
          "classes and the rows of their objects in their pictures [N*mask_rows], -1 where there are fewer.",
      .min_bottoms = 3,
      .max_bottoms = 3,
      .min_tops = 5,
      .max_tops = 8,
      .build = BuildRegionTarget,
      .page = {
          .params = {"region_target_param"},
          .formula =
              "Candidates of a picture are its proposals and its true boxes. One whose largest intersection over union "
              "with a true box is at least foreground_overlap is foreground, of that box's class; the others are "
              "background. `rows * foreground_fraction` foreground regions at most are drawn, and so much background "
              "that there are `rows`; foreground comes first. Codes of the class's four columns: differences of the "
              "centres in sides of the region, logarithms of the sides' ratios, each divided by its std. The outside "
              "weights are `N rows / regions there are`, so that SmoothL1Loss is the mean over them; SoftmaxWithLoss "
              "wants `ignore_label: -1` and `normalization: VALID`.",
          .gradient = "None: regions and targets are fixed numbers.",
          .source = "Girshick, \"Fast R-CNN\", 2015, arXiv 1504.08083; He et al., \"Mask R-CNN\", 2017, arXiv "
                    "1703.06870; rules as in torchvision's RoIHeads.",
          .example =
              R"(layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 1 dim: 32 dim: 32 } } }
layer { name: "proposals" type: "Input" top: "proposals" input_param { shape { dim: 20 dim: 5 } } }
layer { name: "boxes" type: "Input" top: "boxes" input_param { shape { dim: 1 dim: 1 dim: 6 dim: 8 } } }
layer {
  name: "regions"
  type: "RegionTarget"
  bottom: "data"
  bottom: "proposals"
  bottom: "boxes"
  top: "rois"
  top: "classes"
  top: "codes"
  top: "inside"
  top: "outside"
  top: "mask_rois"
  top: "mask_classes"
  top: "mask_objects"
  region_target_param { classes: 3 rows: 8 mask_rows: 2 }
})"}};
}

}  // namespace moka
