// Axes of size one dropped (TensorFlow's squeeze, as Synopsys's Caffe has it).
#include <algorithm>

#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildSqueeze(LayerBuilder& l) {
  const auto& given = l.param().squeeze_param().axis();
  const Shape x = l.shape(0);
  std::vector<int> dropped;
  for (int i = 0; i < given.size(); ++i) {
    const std::string field = StrCat("squeeze_param.axis[", i, "]");
    dropped.push_back(AxisOf(l, field, given.Get(i), x));
    l.Check(x[dropped.back()] == 1, field,
            StrCat("axis ", dropped.back(), " of the bottom ", x.ToString(), " has not size 1; only such can go"));
  }
  std::vector<int64_t> dims;
  for (int i = 0; i < x.rank(); ++i) {
    const bool goes = given.empty() ? x[i] == 1 : std::ranges::find(dropped, i) != dropped.end();
    if (!goes) dims.push_back(x[i]);
  }
  l.SetTop(0, l.b().Reshape(l.bottom(0), Shape(dims)));
}

}  // namespace

LayerDef SqueezeLayer() {
  return {.type = "Squeeze", .build = BuildSqueeze, .traits = {.hands_on = true}, .params = {"squeeze_param"}};
}

}  // namespace moka
