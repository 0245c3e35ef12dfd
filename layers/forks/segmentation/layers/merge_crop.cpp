// MergeCrop (Greentea): the second bottom's centre cut to the first's size and joined with it, U-Net's bridge.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/shape/moves.h"

namespace moka {
namespace {

template <class Flags>
bool Flag(const LayerBuilder& l, const std::string& field, const Flags& flags, int i, bool fallback) {
  l.Check(flags.size() <= 2, field, StrCat(field, " is given ", flags.size(), " times for 2 bottoms"));
  return i < flags.size() ? flags.Get(i) : fallback;
}

void BuildMergeCrop(LayerBuilder& l) {
  const MergeCropParameter& p = l.param().mergecrop_param();
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  const Shape other = l.shape(1);
  const bool is_sum = p.operation() == MergeCropParameter::ADD;
  l.Check(x.rank() >= 2 && other.rank() == x.rank() && x[0] == other[0] && (!is_sum || x[1] == other[1]), "bottom[1]",
          StrCat("bottoms ", x.ToString(), " and ", other.ToString(), " must have one batch, one number of axes",
                 is_sum ? " and of channels" : ""));
  ValueId second = l.bottom(1);
  for (int i = 2; i < x.rank(); ++i) {
    l.Check(other[i] >= x[i], "bottom[1]",
            StrCat("axis ", i, " of the second bottom ", other.ToString(), " is smaller than that of the first ",
                   x.ToString()));
    second = CutOut(b, second, i, (other[i] - x[i]) / 2, x[i]);
  }
  std::vector<ValueId> parts{l.bottom(0), second};
  for (int i = 0; i < 2; ++i) {
    ValueId& part = parts[static_cast<size_t>(i)];
    // A part that is left out still takes its place: with zeros in STACK, as nothing in ADD.
    if (!Flag(l, "mergecrop_param.forward", p.forward(), i, true)) {
      part = b.Full(b.shape(part), 0);
    } else if (!Flag(l, "mergecrop_param.backward", p.backward(), i, i == 0)) {
      part = b.Add1("stop_gradient", {part});
    }
  }
  l.SetTop(0, is_sum ? b.Pointwise("x0+x1", parts) : b.Add1("concat", parts, {{"axis", int64_t{1}}}));
}

}  // namespace

LayerDef MergeCropLayer() {
  return {
      .type = "MergeCrop",
      .doc =
          "The second bottom [N,C2,..], cut to the centre of the first's size, stacked on the channels of the first "
          "[N,C1,..] (STACK) or added to it (ADD). forward: 0 puts zeros in a bottom's place; backward: 0 stops its "
          "gradient, and the second's is stopped unless backward is given for it.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .build = BuildMergeCrop,
      .page = {
          .params = {"mergecrop_param"},
          .formula = "With z the second bottom's part from `floor((size2 - size1) / 2)` on, of the first's size on "
                     "each axis from 2 on: STACK, `y = [x, z]` along the channels `[N,C1+C2,..]`; ADD, `y = x + z`. "
                     "A bottom whose `forward` is 0 counts as zeros.",
          .gradient = "`dx` is dy's part for x. z's part of dy goes to the second bottom only if `backward` is given "
                      "as 1 for it; a bottom whose `backward` or `forward` is 0 gets none.",
          .source = "Greentea (Tschopp, \"Efficient convolutional neural networks for pixelwise classification on "
                    "heterogeneous hardware systems\", arXiv 1509.03371), mergecrop_layer.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 2 dim: 4 dim: 4 } } }
layer { name: "z" type: "Input" top: "z" input_param { shape { dim: 1 dim: 3 dim: 7 dim: 6 } } }
layer {
  name: "merge"
  type: "MergeCrop"
  bottom: "x"
  bottom: "z"
  top: "merge"
  mergecrop_param { backward: 1 backward: 1 }
})"}};
}

}  // namespace moka
