// A border of one value on any axes (TensorFlow's pad, as Synopsys's Caffe has it).
#include "core/size.h"
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/shape/moves.h"

namespace moka {

ValueId Bordered(const GraphBuilder& b, ValueId x, int axis, int64_t before, int64_t after, double value) {
  std::vector<ValueId> parts;
  const auto border = [&](int64_t size) {
    if (size > 0) parts.push_back(b.Full(b.shape(x).With(axis, size), value));
  };
  border(before);
  parts.push_back(x);
  border(after);
  return parts.size() == 1 ? x : b.Add1("concat", parts, {{"axis", int64_t{axis}}});
}

ValueId CutOut(const GraphBuilder& b, ValueId x, int axis, int64_t begin, int64_t size) {
  const int64_t rest = b.shape(x)[axis] - begin - size;
  if (begin == 0 && rest == 0) return x;
  Ints sizes{size};
  if (begin > 0) sizes.insert(sizes.begin(), begin);
  if (rest > 0) sizes.push_back(rest);
  return b.Add("slice", {x}, {{"axis", int64_t{axis}}, {"sizes", sizes}})[begin > 0 ? 1 : 0];
}

namespace {

void BuildPad(LayerBuilder& l) {
  const PadParameter& p = l.param().pad_param();
  const Shape x = l.shape(0);
  l.Check(p.paddings_size() == 2 * x.rank(), "pad_param.paddings",
          StrCat("pad_param.paddings is given ", p.paddings_size(), " times for the bottom ", x.ToString(),
                 "; give two for each of its ", x.rank(), " axes"));
  const double value = Finite(l, "pad_param.constant_values", p.constant_values());
  ValueId y = l.bottom(0);
  for (int i = 0; i < x.rank(); ++i) {
    y = Bordered(l.b(), y, i, p.paddings(2 * i), p.paddings(2 * i + 1), value);
  }
  l.SetTop(0, y);
}

}  // namespace

LayerDef PadLayer() { return {.type = "Pad", .build = BuildPad, .params = {"pad_param"}}; }

}  // namespace moka
