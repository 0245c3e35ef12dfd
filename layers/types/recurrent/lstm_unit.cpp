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
  return {.type = "LSTMUnit",
          .doc =
              "One step of an LSTM: bottoms c_prev [1,N,H], gates [1,N,4H] in the order i, f, o, g before their "
              "nonlinearities, cont [1,N]; tops c = cont sigmoid(f) c_prev + sigmoid(i) tanh(g) and h = sigmoid(o) "
              "tanh(c), [1,N,H] each.",
          .min_bottoms = 3,
          .max_bottoms = 3,
          .min_tops = 2,
          .max_tops = 2,
          .build = BuildLstmUnit,
          .page = {
              .params = {},
              .formula = "`c = cont sigmoid(f) c_prev + sigmoid(i) tanh(g)` and `h = sigmoid(o) tanh(c)`, where i, f, "
                         "o, g are the four parts of H columns of the gates `[1,N,4H]`; c_prev, c and h are `[1,N,H]`, "
                         "cont is `[1,N]`. Where cont is 0 c_prev counts as 0 whatever it holds.",
              .gradient = "With `e = dc + dh o (1 - tanh(c)^2)` and i, f, o, g after their nonlinearities: c_prev: `e "
                          "cont f`; gates: i: `e g i (1 - i)`, f: `e cont c_prev f (1 - f)`, o: `dh tanh(c) o (1 - "
                          "o)`, g: `e i (1 - g^2)`. cont gets none.",
              .source = "BVLC Caffe's lstm_unit_layer (Donahue et al., arXiv 1411.4389).",
              .example =
                  R"(layer { name: "c_prev" type: "Input" top: "c_prev" input_param { shape { dim: 1 dim: 2 dim: 5 } } }
layer { name: "gates" type: "Input" top: "gates" input_param { shape { dim: 1 dim: 2 dim: 20 } } }
layer { name: "cont" type: "Input" top: "cont" input_param { shape { dim: 1 dim: 2 } } }
layer {
  name: "unit"
  type: "LSTMUnit"
  bottom: "c_prev"
  bottom: "gates"
  bottom: "cont"
  top: "c"
  top: "h"
})"}};
}

}  // namespace moka
