// Padding (DeepLab's first Caffe): zeros around the image, or, with negative numbers, a crop.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/shape/moves.h"

namespace moka {
namespace {

void BuildPadding(LayerBuilder& l) {
  const PaddingParameter& p = l.param().padding_param();
  const int64_t begin = p.pad_beg();
  const int64_t end = p.pad_end();
  l.Check(l.shape(0).rank() == 4, "bottom[0]", StrCat("the bottom must be [N,C,H,W], found ", l.shape(0).ToString()));
  l.Check((begin >= 0 && end >= 0) || (begin <= 0 && end <= 0), "padding_param.pad_beg",
          StrCat("pad_beg and pad_end must both pad or both crop, found ", begin, " and ", end));
  ValueId y = l.bottom(0);
  for (const int axis : {2, 3}) {
    if (begin > 0 || end > 0) {
      y = Bordered(l.b(), y, axis, begin, end, 0);
      continue;
    }
    const int64_t left = l.shape(0)[axis] + begin + end;
    l.Check(left >= 1, "padding_param.pad_beg",
            StrCat("pad_beg and pad_end crop all ", l.shape(0)[axis], " pixels of axis ", axis));
    y = CutOut(l.b(), y, axis, -begin, left);
  }
  l.SetTop(0, y);
}

}  // namespace

LayerDef PaddingLayer() { return {.type = "Padding", .build = BuildPadding, .params = {"padding_param"}}; }

}  // namespace moka
