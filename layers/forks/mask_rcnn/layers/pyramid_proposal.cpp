// PyramidProposal: the regions of a pyramid that a second stage looks at.
#include "core/text.h"
#include "layers/forks/mask_rcnn/layers/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildPyramidProposal(LayerBuilder& l) {
  const PyramidParameter& p = l.param().pyramid_param();
  l.Check(l.bottom_count() % 2 == 1, "bottom",
          StrCat("PyramidProposal takes the pictures, then the scores and then the deltas of each map, found ",
                 l.bottom_count(), " bottoms"));
  l.Check(p.pre_nms() >= 1 && p.post_nms() >= 1 && p.pre_nms() <= 1000000 && p.post_nms() <= 1000000,
          "pyramid_param.post_nms",
          StrCat("pyramid_param.pre_nms and post_nms must be from 1 to 1000000, found ", p.pre_nms(), " and ",
                 p.post_nms()));
  const std::vector<ValueId> maps(l.bottoms().begin() + 1, l.bottoms().end());
  const std::vector<ValueId> tops =
      l.b().Add("pyramid_proposals", maps,
                Together(Together(AnchorsOfPyramid(l, l.bottom_count() / 2), PicturesOfBottom0(l)),
                         {{"pre_nms", int64_t{p.pre_nms()}},
                          {"post_nms", int64_t{p.post_nms()}},
                          {"nms_threshold", PartOfField(l, "pyramid_param.nms_threshold", p.nms_threshold())},
                          {"min_side", Finite(l, "pyramid_param.min_side", p.min_side())}}));
  for (int i = 0; i < l.top_count(); ++i) l.SetTop(i, tops[static_cast<size_t>(i)]);
}

}  // namespace

LayerDef PyramidProposalLayer() {
  return {
      .type = "PyramidProposal",
      .doc =
          "The proposals of a region proposal network over L maps. Bottoms: the pictures [N,C,H,W] (for their size), "
          "the maps' scores [N,A,h,w] (finest first), then their deltas [N,4A,h,w]. Tops: rois [N*post_nms,5] (picture "
          "in the batch, x1, y1, x2, y2 in pixels), each picture's best first, and, optional, their scores "
          "[N*post_nms]. Rows without a proposal are of picture -1, which PyramidRoiAlign pools to zeros.",
      .min_bottoms = 3,
      .max_bottoms = -1,
      .max_tops = 2,
      .build = BuildPyramidProposal,
      .page = {
          .params = {"pyramid_param"},
          .formula =
              "Anchors of a map of stride t: for each of its sizes s and ratios r the box of sides `s / sqrt(r)` and "
              "`s "
              "sqrt(r)` around the origin, its corners rounded to whole numbers (halves to even), moved by `t` times "
              "column and row to each cell; A = sizes * ratios, ratios inside. Deltas d of channels 4a..4a+3 move "
              "anchor a: its centre by `d0` and `d1` sides, its sides by the factors `exp(d2)`, `exp(d3)`, at most "
              "1000/16; the box is cut to the picture.\n\nOf each map and picture the pre_nms best scores are looked "
              "at; boxes with a side below min_side go; of two whose intersection over union is above nms_threshold "
              "the lower score goes. Of all maps' boxes of a picture the post_nms best scores are its rows.",
          .gradient = "None: proposals are fixed numbers for what follows.",
          .source = "Ren et al., \"Faster R-CNN\", 2015, arXiv 1506.01497; Lin et al., \"Feature Pyramid Networks\", "
                    "2017, arXiv 1612.03144; numbers as torchvision's RegionProposalNetwork gives them, which counts "
                    "anchors of several sizes a map ratio by "
                    "ratio.",
          .example =
              R"(layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 1 dim: 32 dim: 32 } } }
layer { name: "score8" type: "Input" top: "score8" input_param { shape { dim: 2 dim: 3 dim: 4 dim: 4 } } }
layer { name: "score16" type: "Input" top: "score16" input_param { shape { dim: 2 dim: 3 dim: 2 dim: 2 } } }
layer { name: "delta8" type: "Input" top: "delta8" input_param { shape { dim: 2 dim: 12 dim: 4 dim: 4 } } }
layer { name: "delta16" type: "Input" top: "delta16" input_param { shape { dim: 2 dim: 12 dim: 2 dim: 2 } } }
layer {
  name: "proposals"
  type: "PyramidProposal"
  bottom: "data"
  bottom: "score8"
  bottom: "score16"
  bottom: "delta8"
  bottom: "delta16"
  top: "rois"
  pyramid_param { stride: 8 stride: 16 size: 12 size: 24 post_nms: 10 }
})"}};
}

}  // namespace moka
