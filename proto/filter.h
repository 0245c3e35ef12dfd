// Which layers of a net are present in a phase, level and set of stages.
#pragma once

#include "proto/moka.pb.h"

namespace moka {

// Every condition of the rule holds in the state.
bool StateMeetsRule(const NetState& state, const NetStateRule& rule);

// Whether the layer's rules admit it in the state: no rules, or any include rule met, or no exclude rule met. Errors:
// kConfig at a layer with both include and exclude.
bool IsPresent(const LayerParameter& layer, const NetState& state);

// The net with the layers that are present in the state. The state is stored in the net, and its phase in every layer
// that has none of its own. AutoCrop layers get their offsets (crop_offsets.h). Errors: as IsPresent; kConfig at a crop
// that cannot be aligned.
NetParameter FilterNet(const NetParameter& net, const NetState& state);
// The same with no level and no stage.
NetParameter FilterNet(const NetParameter& net, Phase phase);

}  // namespace moka
