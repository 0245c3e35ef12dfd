// One step of an LSTM on given gates, as Caffe's LSTM layer runs inside.
#include "core/size.h"
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/recurrent/recurrence.h"

namespace moka {
namespace {

void BuildLstmUnit(LayerBuilder& l) {
  const GraphBuilder& b = l.b();
  const Shape c = l.shape(0);
  l.Check(c.rank() == 3 && c[0] == 1, "bottom[0]", StrCat("c_prev must be [1,streams,H], found ", c.ToString()));
  l.Check(l.shape(1) == Shape({1, c[1], (Size(4) * c[2]).value()}), "bottom[1]",
          StrCat("the gates must be [1,", c[1], ",4*", c[2], "] to go with c_prev ", c.ToString(), ", found ",
                 l.shape(1).ToString()));
  l.Check(l.shape(2) == Shape({1, c[1]}), "bottom[2]",
          StrCat("cont must be [1,", c[1], "] to go with c_prev ", c.ToString(), ", found ", l.shape(2).ToString()));
  const LstmCell cell = NextCell(b, b.Reshape(l.bottom(1), {c[1], 4 * c[2]}), b.Reshape(l.bottom(0), {c[1], c[2]}),
                                 MarksOf(l, l.bottom(2), 1)[0]);
  l.SetTop(0, b.Reshape(cell.c, c));
  l.SetTop(1, b.Reshape(cell.h, c));
}

}  // namespace

LayerDef LstmUnitLayer() {
  return {.type = "LSTMUnit", .min_bottoms = 3, .max_bottoms = 3, .min_tops = 2, .max_tops = 2, .build = BuildLstmUnit};
}

}  // namespace moka
