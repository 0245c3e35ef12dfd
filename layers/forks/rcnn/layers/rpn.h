// The part that the layers of region proposal networks have in common, whichever fork or module they come from.
#pragma once

#include <vector>

#include "layers/types/python/python.h"

namespace moka {

// Reads what proposals and anchor targets have in common (feat_stride, base_size, ratios, scales): attributes anchors
// and stride.
Attributes AnchorFields(const LayerBuilder& l, const PythonFields& fields);
// Attributes of "proposals": as above with pre_nms_topn, post_nms_topn, nms_thresh and min_size.
Attributes ProposalFields(const LayerBuilder& l, const PythonFields& fields);
// Adds to attributes of "anchor_targets" what samples them; `batch` where batch_size is not given.
void SetSampling(const LayerBuilder& l, const PythonFields& fields, int64_t batch, Attributes& attributes);
// The four tops of an anchor target layer; `more` follow gt_boxes, im_info and the key.
void BuildAnchorTargets(LayerBuilder& l, const PythonFields& fields, const std::vector<ValueId>& more);

// mtnet's proposals in training, matched with gt_boxes [G,4] (mtnet.cpp).
void BuildMatchedProposal(LayerBuilder& l, const PythonFields& fields);
// A bottom of true boxes [G,4] with a class, 1 or 0 for padding: [G,5]; others as they are.
ValueId WithClass(const LayerBuilder& l, int bottom);

// R-C3D's layers of the same modules, over windows in time (windows_in_time.cpp). Which of the two is meant shows in
// the bottoms: scores [1,2A,L,1,1] in place of [1,2A,H,W], regions [R,3] in place of [R,5].
void BuildProposalInTime(LayerBuilder& l, const PythonFields& fields);
void BuildAnchorTargetInTime(LayerBuilder& l, const PythonFields& fields);
void BuildProposalTargetInTime(LayerBuilder& l, const PythonFields& fields);

}  // namespace moka
