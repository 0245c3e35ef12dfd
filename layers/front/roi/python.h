// Python layers that are built in: a row for each (module, class) that known nets name, in place of the interpreter. A
// group lists its rows in a function of its own; python.cpp joins them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "layers/front/roi/python_fields.h"
#include "layers/layer.h"

namespace moka {

struct PythonLayerDef {
  std::string module;
  std::string layer;
  std::string doc;  // one sentence, part of the doc of layer type Python
  int min_bottoms = 0;
  int max_bottoms = 0;
  int min_tops = 1;
  int max_tops = 1;
  bool reads_list = false;  // param_str has no keys: build reads it itself and gets no fields
  void (*build)(LayerBuilder&, const PythonFields&) = nullptr;
};

std::vector<PythonLayerDef> DataPythonLayers();
std::vector<PythonLayerDef> DetectNetPythonLayers();
std::vector<PythonLayerDef> ImageLossPythonLayers();
std::vector<PythonLayerDef> LossPythonLayers();
std::vector<PythonLayerDef> MncPythonLayers();
std::vector<PythonLayerDef> MtcnnPythonLayers();
std::vector<PythonLayerDef> MtnetPythonLayers();
std::vector<PythonLayerDef> RegionPythonLayers();
std::vector<PythonLayerDef> RpnPythonLayers();
std::vector<PythonLayerDef> TripletPythonLayers();
std::vector<PythonLayerDef> YoloPythonLayers();

// All of them, sorted by module and class.
const std::vector<PythonLayerDef>& AllPythonLayers();

// Null if the module and class are not built in.
const PythonLayerDef* FindPythonLayer(std::string_view module, std::string_view layer);

// The random stream of a layer: its name's hash, an integer that doubles hold.
int64_t StreamOf(const LayerBuilder& l);

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
