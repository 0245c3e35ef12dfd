// Proposals of a region proposal network, as the C++ layer of PVANet and Intel's Caffe.
#include "core/text.h"
#include "layers/forks/rcnn/layers/anchors.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

Doubles Positive(const LayerBuilder& l, const std::string& field, const google::protobuf::RepeatedField<float>& values,
                 const Doubles& fallback) {
  Doubles list;
  for (int i = 0; i < values.size(); ++i) {
    list.push_back(Finite(l, StrCat(field, "[", i, "]"), values[i]));
    l.Check(list.back() > 0, StrCat(field, "[", i, "]"), StrCat(field, " must be greater than 0, found ", list.back()));
  }
  return list.empty() ? fallback : list;
}

void BuildProposal(LayerBuilder& l) {
  const ProposalParameter& p = l.param().proposal_param();
  l.Check(p.post_nms_topn() >= 1 && p.post_nms_topn() <= 1000000, "proposal_param.post_nms_topn",
          StrCat("proposal_param.post_nms_topn must be from 1 to 1000000, found ", p.post_nms_topn()));
  l.Check(p.feat_stride() >= 1 && p.base_size() >= 1, "proposal_param",
          "proposal_param.feat_stride and base_size must be at least 1");
  const Doubles ratios = Positive(l, "proposal_param.ratio", p.ratio(), {0.5, 1, 2});
  const Doubles scales = Positive(l, "proposal_param.scale", p.scale(), {8, 16, 32});
  const std::vector<ValueId> tops =
      l.b().Add("proposals", l.bottoms(),
                {{"anchors", GenerateAnchors(p.base_size(), ratios, scales)},
                 {"stride", double{static_cast<double>(p.feat_stride())}},
                 {"min_size", static_cast<double>(p.min_size())},
                 {"pre_nms", int64_t{p.pre_nms_topn()}},
                 {"post_nms", int64_t{p.post_nms_topn()}},
                 {"nms_threshold", Finite(l, "proposal_param.nms_thresh", p.nms_thresh())}});
  for (int i = 0; i < l.top_count(); ++i) l.SetTop(i, tops[static_cast<size_t>(i)]);
}

}  // namespace

LayerDef ProposalLayer() {
  return {.type = "Proposal",
          .min_bottoms = 3,
          .max_bottoms = 3,
          .max_tops = 2,
          .build = BuildProposal,
          .params = {"proposal_param"}};
}

}  // namespace moka
