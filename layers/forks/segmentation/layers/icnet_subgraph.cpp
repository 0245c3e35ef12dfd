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

LayerDef IcNetSubgraphLayer() {
  return {
      .type = "ICNetSubgraph",
      .doc =
          "A map [N,C,H,W] and, added to it, its means over four grids of windows, resized to its size: ICNet's "
          "pyramid pooling for Cityscapes, whose maps are 33 x 65, in one layer. No fields; the top has the bottom's "
          "shape.",
      .build = BuildIcnetSubgraph,
      .page = {
          .params = {},
          .formula = "`y = x + sum over b of resize(mean_b(x))`. mean_b is average pooling (AVE, sizes rounded up, "
                     "the last windows ending with the map) with kernels 33 x 65, 17 x 33, 13 x 25 and 8 x 15 and "
                     "strides 33 x 65, 16 x 32, 10 x 20 and 5 x 10; resize is bilinear to H x W with aligned "
                     "corners, as Interp's.",
          .gradient = "`dx` is dy and what comes back from the four branches.",
          .source = "ICNet (Zhao et al., arXiv 1704.08545), icnet_subgraph_layer of Synopsys's Caffe, which has no "
                    "gradient.",
          .example =
              R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 2 dim: 33 dim: 65 } } }
layer { name: "sum" type: "ICNetSubgraph" bottom: "x" top: "sum" })"}};
}

}  // namespace moka
