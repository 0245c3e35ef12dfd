// ICNetSubgraph (Synopsys): ICNet's pyramid pooling as one layer, with the windows it has for Cityscapes.
#include <algorithm>

#include "core/text.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

struct Branch {
  Ints kernel;
  Ints stride;
};

const std::vector<Branch>& Branches() {
  static const std::vector<Branch> branches = {
      {{33, 65}, {33, 65}}, {{17, 33}, {16, 32}}, {{13, 25}, {10, 20}}, {{8, 15}, {5, 10}}};
  return branches;
}

// The means of a branch's windows, whose number is rounded up; the last ones end with the map.
ValueId Pooled(const LayerBuilder& l, const Branch& branch) {
  const Shape x = l.shape(0);
  Ints end;
  for (size_t i = 0; i < 2; ++i) {
    const int64_t in = x[static_cast<int>(i) + 2];
    const int64_t room = in - branch.kernel[i];
    const int64_t steps = room > 0 ? (room + branch.stride[i] - 1) / branch.stride[i] : 0;
    l.Check(room + branch.stride[i] > 0 && steps * branch.stride[i] < in, "bottom[0]",
            StrCat("windows of ", branch.kernel[0], " x ", branch.kernel[1], " every ", branch.stride[0], " and ",
                   branch.stride[1], " pixels do not fit the bottom ", x.ToString()));
    end.push_back(std::max<int64_t>(steps * branch.stride[i] + branch.kernel[i] - in, 0));
  }
  const Ints none{0, 0};
  return l.b().Add1("pool_average", {l.bottom(0)},
                    {{"kernel", branch.kernel},
                     {"stride", branch.stride},
                     {"pad_begin", none},
                     {"pad_end", end},
                     {"count_begin", none},
                     {"count_end", none}});
}

void BuildIcnetSubgraph(LayerBuilder& l) {
  const Shape x = l.shape(0);
  l.Check(x.rank() == 4, "bottom[0]", StrCat("the bottom must be [N,C,H,W], found ", x.ToString()));
  std::vector<ValueId> terms{l.bottom(0)};
  for (const Branch& branch : Branches()) {
    const ValueId means = Pooled(l, branch);
    const bool is_large = l.b().shape(means) == x;
    terms.push_back(is_large ? means : l.b().Add1("interpolate", {means}, {{"size", Ints{x[2], x[3]}}}));
  }
  l.SetTop(0, l.b().Pointwise("x0+x1+x2+x3+x4", terms));
}

}  // namespace

LayerDef IcNetSubgraphLayer() { return {.type = "ICNetSubgraph", .build = BuildIcnetSubgraph}; }

}  // namespace moka
