// Pictures cut into parts that get layers of their own, and put together again (ARL and DRML's regional learning).
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/shape/moves.h"

namespace moka {
namespace {

void BuildDivision(LayerBuilder& l) {
  const DivisionParameter& p = l.param().division_param();
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  l.Check(x.rank() == 4, "bottom[0]", StrCat("the picture must be [N,C,H,W], found ", x.ToString()));
  l.Check(p.width() >= 1 && p.height() >= 1, "division_param.width", "width and height must be given and at least 1");
  const int parts = l.top_count();
  l.Check(p.xcoord_size() == parts && p.ycoord_size() == parts, "division_param.xcoord",
          StrCat("xcoord and ycoord must be given once for each of the ", parts, " tops, found ", p.xcoord_size(),
                 " and ", p.ycoord_size()));
  for (int i = 0; i < parts; ++i) {
    const int64_t left = p.xcoord(i);
    const int64_t top = p.ycoord(i);
    l.Check(left + p.width() <= x[3] && top + p.height() <= x[2], StrCat("division_param.xcoord[", i, "]"),
            StrCat("part ", i, ", ", p.height(), " x ", p.width(), " from row ", top, " and column ", left,
                   " on, does not lie in the picture ", x.ToString()));
    l.SetTop(i, CutOut(b, CutOut(b, l.bottom(0), 2, top, p.height()), 3, left, p.width()));
  }
}

[[noreturn]] void FailTiling(const LayerBuilder& l, int part) {
  const CombinationParameter& p = l.param().combination_param();
  l.Fail(StrCat("combination_param.xcoord[", part, "]"),
         StrCat("the parts must cover the picture row by row, without gaps and overlaps: part ", part, " ",
                l.shape(part).ToString(), " cannot begin at row ", p.ycoord(part), " and column ", p.xcoord(part)));
}

void BuildCombination(LayerBuilder& l) {
  const CombinationParameter& p = l.param().combination_param();
  const GraphBuilder& b = l.b();
  const int parts = l.bottom_count();
  l.Check(p.xcoord_size() == parts && p.ycoord_size() == parts, "combination_param.xcoord",
          StrCat("xcoord and ycoord must be given once for each of the ", parts, " bottoms, found ", p.xcoord_size(),
                 " and ", p.ycoord_size()));
  for (int i = 0; i < parts; ++i) {
    const Shape x = l.shape(i);
    l.Check(x.rank() == 4 && x[0] == l.shape(0)[0] && x[1] == l.shape(0)[1], StrCat("bottom[", i, "]"),
            StrCat("the parts must be [N,C,h,w] of one N and C, found ", l.shape(0).ToString(), " and ", x.ToString()));
  }
  std::vector<ValueId> bands;
  int64_t top = 0;
  for (int i = 0; i < parts;) {
    const int64_t height = l.shape(i)[2];
    std::vector<ValueId> band;
    int64_t left = 0;
    for (; i < parts && p.ycoord(i) == top; ++i) {
      if (p.xcoord(i) != left || l.shape(i)[2] != height) FailTiling(l, i);
      left += l.shape(i)[3];
      band.push_back(l.bottom(i));
    }
    if (band.empty()) FailTiling(l, i);
    bands.push_back(band.size() == 1 ? band[0] : b.Add1("concat", band, {{"axis", int64_t{3}}}));
    if (b.shape(bands.back())[3] != b.shape(bands[0])[3]) FailTiling(l, i - 1);
    top += height;
  }
  l.SetTop(0, bands.size() == 1 ? bands[0] : b.Add1("concat", bands, {{"axis", int64_t{2}}}));
}

}  // namespace

LayerDef CombinationLayer() {
  return {
      .type = "Combination",
      .doc =
          "Pictures [N,C,h,w] put together to one: combination_param gives the left and upper edge of each (xcoord, "
          "ycoord). They must cover it row by row, without gaps and overlaps.",
      .max_bottoms = -1,
      .build = BuildCombination,
      .page = {
          .params = {"combination_param"},
          .formula = "`y[n,c,ycoord_i + h, xcoord_i + w] = x_i[n,c,h,w]`; the top ends where the last part does.",
          .gradient = "Each bottom: its part of dy.",
          .source = "Facial action unit detection using attention and relation learning (Shao et al., arXiv "
                    "1808.03457); ARL's Caffe, combination_layer, where later parts overwrite earlier ones and "
                    "gaps keep what was in memory: both are errors here.",
          .example = R"(layer { name: "a" type: "Input" top: "a" input_param { shape { dim: 1 dim: 2 dim: 3 dim: 4 } } }
layer { name: "b" type: "Input" top: "b" input_param { shape { dim: 1 dim: 2 dim: 3 dim: 5 } } }
layer {
  name: "whole"
  type: "Combination"
  bottom: "a"
  bottom: "b"
  top: "whole"
  combination_param { xcoord: 0 xcoord: 4 ycoord: 0 ycoord: 0 }
})"}};
}

LayerDef DivisionLayer() {
  return {
      .type = "Division",
      .doc =
          "Parts of a picture [N,C,H,W], one a top, all of division_param.height x width pixels; xcoord and ycoord "
          "give "
          "the left and upper edge of each.",
      .max_tops = -1,
      .build = BuildDivision,
      .page = {
          .params = {"division_param"},
          .formula = "`y_i[n,c,h,w] = x[n,c,ycoord_i + h, xcoord_i + w]`, `[N,C,height,width]`.",
          .gradient = "x: the sum of the parts' gradients where they lie (the original keeps the last part's where "
                      "parts overlap), 0 where there is none.",
          .source = "Facial action unit detection using attention and relation learning (Shao et al., arXiv "
                    "1808.03457); ARL's Caffe, division_layer.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 2 dim: 4 dim: 6 } } }
layer {
  name: "parts"
  type: "Division"
  bottom: "x"
  top: "left"
  top: "right"
  division_param { width: 3 height: 4 xcoord: 0 xcoord: 3 ycoord: 0 ycoord: 0 }
})"}};
}

}  // namespace moka
