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
std::vector<PythonLayerDef> LossPythonLayers();
std::vector<PythonLayerDef> MncPythonLayers();
std::vector<PythonLayerDef> RpnPythonLayers();

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
// The four tops of an anchor target layer; `more` follow gt_boxes, im_info and the key.
void BuildAnchorTargets(LayerBuilder& l, const PythonFields& fields, const std::vector<ValueId>& more);

}  // namespace moka
