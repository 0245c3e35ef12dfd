// Images cut into parts that get layers of their own, and put together again (ARL and DRML's regional learning).
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
  return {.type = "Combination", .max_bottoms = -1, .build = BuildCombination, .params = {"combination_param"}};
}

LayerDef DivisionLayer() {
  return {.type = "Division", .max_tops = -1, .build = BuildDivision, .params = {"division_param"}};
}

}  // namespace moka
