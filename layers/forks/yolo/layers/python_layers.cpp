// Python layers of Synopsys's Caffe, which its nets translated from TensorFlow and darknet have.
#include "core/text.h"
#include "layers/forks/yolo/layers/reorganised.h"
#include "layers/net/layer.h"
#include "layers/types/maths/broadcast.h"
#include "layers/types/python/python.h"
#include "layers/types/shape/moves.h"

namespace moka {
namespace {

constexpr const char* kField = "python_param.param_str";

void BuildReorg(LayerBuilder& l, const PythonFields&) { l.SetTop(0, Reorganized(l, 2, "bottom[0]")); }

void BuildPad(LayerBuilder& l, const PythonFields& fields) {
  const Shape x = l.shape(0);
  l.Check(x.rank() == 4, "bottom[0]", StrCat("the bottom must be [N,C,H,W], found ", x.ToString()));
  const std::string mode = fields.Text("pad_mode", "");
  l.Check(mode == "constant", kField, StrCat(kField, ": 'pad_mode' must be 'constant', zeros, found '", mode, "'"));
  const ValueId tall =
      Bordered(l.b(), l.bottom(0), 2, fields.Count("pad_t", int64_t{0}), fields.Count("pad_b", int64_t{0}), 0);
  l.SetTop(0, Bordered(l.b(), tall, 3, fields.Count("pad_l", int64_t{0}), fields.Count("pad_r", int64_t{0}), 0));
}

// The number of the operation is that of Caffe's EltwiseOp with the fork's two.
void BuildEltwise(LayerBuilder& l, const PythonFields& fields) {
  const int64_t operation = fields.Count("operation", int64_t{0});
  l.Check(operation <= 4, kField, StrCat(kField, ": 'operation' must be from 0 to 4, found ", operation));
  if (operation != 1) {
    const Term a = Term::Input(0);
    const Term c = Term::Input(1);
    const Term formulas[] = {a * c, 0, Max(a, c), a / c, Min(a, c)};
    return l.SetTop(0, Broadcast(l, l.bottom(1), "bottom[1]", formulas[operation]));
  }
  const std::vector<double> coeff = fields.Numbers("coeff", {});
  l.Check(coeff.size() == 2, kField, StrCat(kField, ": 'coeff' must be two numbers, found ", coeff.size()));
  const Term sum = Decimal(coeff[0]) * Term::Input(0) + Decimal(coeff[1]) * Term::Input(1);
  l.SetTop(0, Broadcast(l, l.bottom(1), "bottom[1]", sum));
}

}  // namespace

std::vector<PythonLayerDef> SynopsysPythonLayers() {
  return {{.module = "eltwise",
           .layer = "Eltwise",
           .doc = "Synopsys: of two bottoms, broadcast as numpy does, by operation: 0 the product, 1 the sum times "
                  "coeff, 2 the larger, 3 the quotient, 4 the smaller. It has a gradient here, there none.",
           .min_bottoms = 2,
           .max_bottoms = 2,
           .build = BuildEltwise},
          {.module = "pad",
           .layer = "PadTensor",
           .doc = "Synopsys: [N,C,H,W] with pad_t, pad_b, pad_l and pad_r zeros around it (pad_mode constant).",
           .min_bottoms = 1,
           .max_bottoms = 1,
           .build = BuildPad},
          {.module = "yolov2",
           .layer = "darknet_reorg",
           .doc = "Synopsys: the layer Reorg with stride 2. It has a gradient here, there none.",
           .min_bottoms = 1,
           .max_bottoms = 1,
           .build = BuildReorg}};
}

}  // namespace moka
