// PyramidAnchorTarget: what a region proposal network over a pyramid learns.
#include "core/text.h"
#include "layers/forks/mask_rcnn/layers/fields.h"
#include "layers/net/layer.h"
#include "layers/net/random_stream.h"

namespace moka {
namespace {

void BuildPyramidAnchorTarget(LayerBuilder& l) {
  const PyramidParameter& p = l.param().pyramid_param();
  Attributes attributes = Together(AnchorsOfPyramid(l, l.bottom_count() - 2), PicturesOfBottom0(l));
  const auto each = static_cast<int64_t>(attributes.Get<Doubles>("anchors").size()) / (l.bottom_count() - 2) / 4;
  Ints heights;
  Ints widths;
  for (int i = 2; i < l.bottom_count(); ++i) {
    const Shape map = l.shape(i);
    l.Check(map.rank() == 4 && map[0] == l.shape(0)[0] && map[1] == each, StrCat("bottom[", i, "]"),
            StrCat("bottom \"", l.param().bottom(i), "\" must be scores [", l.shape(0)[0], ",", each,
                   ",h,w] of a map, found ", map.ToString()));
    heights.push_back(map[2]);
    widths.push_back(map[3]);
  }
  l.Check(p.batch() >= 1, "pyramid_param.batch", "pyramid_param.batch must be at least 1");
  attributes = Together(
      attributes, {{"heights", heights},
                   {"widths", widths},
                   {"pictures", l.shape(0)[0]},
                   {"positive_overlap", PartOfField(l, "pyramid_param.positive_overlap", p.positive_overlap())},
                   {"negative_overlap", PartOfField(l, "pyramid_param.negative_overlap", p.negative_overlap())},
                   {"batch", int64_t{p.batch()}},
                   {"positive_fraction", PartOfField(l, "pyramid_param.positive_fraction", p.positive_fraction())},
                   {"stream", static_cast<int64_t>(RandomStreamOf(l))}});
  const std::vector<ValueId> tops = l.b().Add("pyramid_anchor_targets", {l.bottom(1), l.RandomKey()}, attributes);
  for (int i = 0; i < l.top_count(); ++i) l.SetTop(i, tops[static_cast<size_t>(i)]);
}

}  // namespace

LayerDef PyramidAnchorTargetLayer() {
  return {
      .type = "PyramidAnchorTarget",
      .doc =
          "What a region proposal network over L maps learns. Bottoms: the pictures [N,C,H,W] (for their size), the "
          "true boxes [1,1,G,8] (RecordData's BOXES), then the maps' scores [N,A,h,w], finest first, of which only the "
          "shapes count. Tops: labels [N,T] of all T anchors (1 object, 0 none, -1 not sampled), what the deltas "
          "should be [N,4T], and weights inside and outside the norm [N,4T] for SmoothL1Loss. T and 4T run over the "
          "maps flattened one after another.",
      .min_bottoms = 3,
      .max_bottoms = -1,
      .min_tops = 4,
      .max_tops = 4,
      .build = BuildPyramidAnchorTarget,
      .page = {
          .params = {"pyramid_param"},
          .formula =
              "Anchors and deltas are PyramidProposal's. An anchor whose intersection over union with some box is at "
              "least positive_overlap is positive, and so is each box's best; one below negative_overlap with all "
              "boxes is negative. Of each picture `batch * positive_fraction` positives at most are drawn, and of the "
              "negatives so many that there are `batch`; the others count as -1. A positive anchor learns the deltas "
              "that move it to the box it overlaps most. The outside weights are `N / sampled anchors`, so that "
              "SmoothL1Loss is the mean over all that were sampled; SigmoidCrossEntropyLoss over the scores wants "
              "`ignore_label: -1` and `normalization: VALID`.",
          .gradient = "None: targets are fixed numbers.",
          .source = "Ren et al., \"Faster R-CNN\", 2015, arXiv 1506.01497; Lin et al., 2017, arXiv 1612.03144. Anchors "
                    "that reach beyond the picture count, as in torchvision.",
          .example =
              R"(layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 1 dim: 32 dim: 32 } } }
layer { name: "boxes" type: "Input" top: "boxes" input_param { shape { dim: 1 dim: 1 dim: 6 dim: 8 } } }
layer { name: "score8" type: "Input" top: "score8" input_param { shape { dim: 2 dim: 3 dim: 4 dim: 4 } } }
layer { name: "score16" type: "Input" top: "score16" input_param { shape { dim: 2 dim: 3 dim: 2 dim: 2 } } }
layer {
  name: "targets"
  type: "PyramidAnchorTarget"
  bottom: "data"
  bottom: "boxes"
  bottom: "score8"
  bottom: "score16"
  top: "labels"
  top: "deltas"
  top: "inside"
  top: "outside"
  pyramid_param { stride: 8 stride: 16 size: 12 size: 24 }
})"}};
}

}  // namespace moka
