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

LayerDef PaddingLayer() {
  return {
      .type = "Padding",
      .doc =
          "[N,C,H,W] with padding_param.pad_beg zeros before and pad_end after its rows and columns; negative numbers "
          "crop.",
      .build = BuildPadding,
      .page = {
          .params = {"padding_param"},
          .formula = "`y[n,c,i,j] = x[n,c, i - pad_beg, j - pad_beg]` inside the image, else 0; the top is `[N,C,H + "
                     "pad_beg + pad_end, W + pad_beg + pad_end]`. Both numbers pad or both crop.",
          .gradient = "`dx` is the part of dy where x lies, 0 for what was cropped.",
          .source = "The padding_layer of DeepLab's first Caffe (Chen et al., arXiv 1412.7062).",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 2 dim: 6 dim: 5 } } }
layer { name: "crop" type: "Padding" bottom: "x" top: "crop" padding_param { pad_beg: -1 pad_end: -2 } })"}};
}

}  // namespace moka
