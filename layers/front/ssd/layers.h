// Single-shot detection: priors, matching, output, evaluation. One file each, alphabetical.
#pragma once

#include <string>
#include <vector>

#include "layers/layer.h"

namespace moka {

LayerDef AnnotatedDataLayer();
LayerDef CenterGridOutputLayer();
LayerDef CocoEvaluateLayer();
LayerDef DetectionEvaluateLayer();
LayerDef DetectionOutputLayer();
LayerDef MultiBoxCenterLossLayer();
LayerDef MultiBoxFocalLossLayer();
LayerDef MultiBoxLossLayer();
LayerDef MultiBoxSsdLossLayer();
LayerDef PriorBoxClusteredLayer();
LayerDef PriorBoxLayer();

std::vector<LayerDef> SsdLayers();

// The word of a code_type in ops' attribute "code".
inline std::string BoxCodeWord(PriorBoxParameter::CodeType type) {
  if (type == PriorBoxParameter::CENTER_SIZE) return "center_size";
  return type == PriorBoxParameter::CORNER_SIZE ? "corner_size" : "corner";
}

}  // namespace moka
