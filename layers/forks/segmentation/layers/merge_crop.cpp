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
      .type = "MergeCrop", .min_bottoms = 2, .max_bottoms = 2, .build = BuildMergeCrop, .params = {"mergecrop_param"}};
}

}  // namespace moka
