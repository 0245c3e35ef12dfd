// Proposals of a region proposal network, as the C++ layer of PVANet and Intel's Caffe.
#include "core/text.h"
#include "layers/forks/rcnn/layers/anchors.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

Doubles Positive(const LayerBuilder& l, const std::string& field, const google::protobuf::RepeatedField<float>& values,
                 const Doubles& fallback) {
  Doubles list;
  for (int i = 0; i < values.size(); ++i) {
    list.push_back(Finite(l, StrCat(field, "[", i, "]"), values[i]));
    l.Check(list.back() > 0, StrCat(field, "[", i, "]"), StrCat(field, " must be greater than 0, found ", list.back()));
  }
  return list.empty() ? fallback : list;
}

void BuildProposal(LayerBuilder& l) {
  const ProposalParameter& p = l.param().proposal_param();
  l.Check(p.post_nms_topn() >= 1 && p.post_nms_topn() <= 1000000, "proposal_param.post_nms_topn",
          StrCat("proposal_param.post_nms_topn must be from 1 to 1000000, found ", p.post_nms_topn()));
  l.Check(p.feat_stride() >= 1 && p.base_size() >= 1, "proposal_param",
          "proposal_param.feat_stride and base_size must be at least 1");
  const Doubles ratios = Positive(l, "proposal_param.ratio", p.ratio(), {0.5, 1, 2});
  const Doubles scales = Positive(l, "proposal_param.scale", p.scale(), {8, 16, 32});
  const std::vector<ValueId> tops =
      l.b().Add("proposals", l.bottoms(),
                {{"anchors", GenerateAnchors(p.base_size(), ratios, scales)},
                 {"stride", double{static_cast<double>(p.feat_stride())}},
                 {"min_size", static_cast<double>(p.min_size())},
                 {"pre_nms", int64_t{p.pre_nms_topn()}},
                 {"post_nms", int64_t{p.post_nms_topn()}},
                 {"nms_threshold", Finite(l, "proposal_param.nms_thresh", p.nms_thresh())}});
  for (int i = 0; i < l.top_count(); ++i) l.SetTop(i, tops[static_cast<size_t>(i)]);
}

}  // namespace

LayerDef ProposalLayer() {
  return {
      .type = "Proposal",
      .doc =
          "Boxes from scores [1,2A,H,W] (background, then object), deltas [1,4A,H,W] and im_info [1,3] (height, width, "
          "scale): anchors of base_size at every feat_stride pixels, each ratio and scale, moved by the deltas and cut "
          "to the image; without a side below min_size times the image's scale; the pre_nms_topn best, of which greedy "
          "suppression at overlap nms_thresh leaves post_nms_topn. Tops: rois [post_nms_topn,5] (image 0, x1, y1, x2, "
          "y2) and, optional, their scores [post_nms_topn,1], best first; where there are fewer the rows are zeros. No "
          "gradient.",
      .min_bottoms = 3,
      .max_bottoms = 3,
      .max_tops = 2,
      .build = BuildProposal,
      .page = {
          .params = {"proposal_param"},
          .formula =
              "Anchors: for each ratio r and scale s `w = round(sqrt(base_size^2 / r))`, `h = round(w r)` (halves to "
              "even), the box of sides `w s`, `h s` around the centre of the first cell, moved by feat_stride to each "
              "cell; A = ratios * scales, ratios outside. Defaults: ratios 0.5, 1, 2, scales 8, 16, 32. A box (sides "
              "`w = x2 - x1 + 1`, `h = y2 - y1 + 1`) and deltas d: centre `(x1 + w/2 + d0 w, y1 + h/2 + d1 h)`, ends "
              "`w exp(d2) / 2` and `h exp(d3) / 2` from it; then cut to `[0, width - 1]`, `[0, height - 1]`.\n\nBoxes "
              "with a side (`x2 - x1 + 1`) below `min_size * scale` (a fourth number of im_info is the scale of "
              "widths) go; of the rest the `pre_nms_topn` (0: all) with the best object scores (channels A..2A-1; "
              "equal ones in the order h, w, anchor) are taken, best first, unless their intersection over union with "
              "one taken before is above `nms_thresh`, at most `post_nms_topn`. Tops: `[post_nms_topn,5]` rows (0, x1, "
              "y1, x2, y2) and `[post_nms_topn,1]` scores; rows that are left are zeros.",
          .gradient = "None: neither scores, deltas nor im_info get a gradient.",
          .source = "Ren et al., \"Faster R-CNN\", 2015, arXiv 1506.01497; the C++ proposal_layer of PVANet (Hong et "
                    "al., arXiv 1611.08588) and Intel's Caffe. The tops always have post_nms_topn rows.",
          .example =
              R"(layer { name: "scores" type: "Input" top: "scores" input_param { shape { dim: 1 dim: 6 dim: 4 dim: 4 } } }
layer { name: "deltas" type: "Input" top: "deltas" input_param { shape { dim: 1 dim: 12 dim: 4 dim: 4 } } }
layer { name: "im_info" type: "Input" top: "im_info" input_param { shape { dim: 1 dim: 3 } } }
layer {
  name: "proposals"
  type: "Proposal"
  bottom: "scores"
  bottom: "deltas"
  bottom: "im_info"
  top: "rois"
  top: "roi_scores"
  proposal_param {
    feat_stride: 8
    base_size: 8
    min_size: 1
    ratio: 0.5
    ratio: 1
    ratio: 2
    scale: 2
    pre_nms_topn: 20
    post_nms_topn: 5
  }
})"}};
}

}  // namespace moka
