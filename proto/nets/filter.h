// Tells which layers of a net are present in a phase, level and set of stages.
#pragma once

#include <string>
#include <vector>

#include "proto/moka.pb.h"

namespace moka {

// Every condition of the rule holds in the state.
bool StateMeetsRule(const NetState& state, const NetStateRule& rule);

// Whether the layer's rules admit it in the state: no rules, or any include rule met, or no exclude rule met. Errors:
// kConfig at a layer with both include and exclude.
bool IsPresent(const LayerParameter& layer, const NetState& state);

// Whether a level or a stage is given, by which layers are chosen within a phase.
bool ChoosesLayers(const NetState& given);
// Adds what is given to a state: a phase and a level take the place of its own, stages add up, as Caffe's do.
void AddState(const NetState& given, NetState& state);

// The net with the layers that are present in its own state together with the given one (AddState). That state is
// stored in the net, and its phase in every layer that has none of its own. AutoCrop layers get their offsets
// (crop_offsets.h). Errors: as IsPresent; kConfig at a crop that cannot be aligned.
NetParameter FilterNet(const NetParameter& net, const NetState& given);
// The same with neither level nor stage given.
NetParameter FilterNet(const NetParameter& net, Phase phase);

// The layers with tops that filters have left out of the net: of each the name, type, tops, rules and place.
std::vector<LayerParameter> LayersLeftOut(const NetParameter& filtered);
// "phase TRAIN, level 0, no stage".
std::string StateText(const NetState& state);
// 'include { stage: "train" }', all rules of the layer.
std::string RulesText(const LayerParameter& layer);
// Returns what to write so that a layer that the state leaves out is present; empty where only other rules help.
std::string HowToAdmit(const LayerParameter& layer, const NetState& state);

// Warns of each given stage that no rule of the net names, which leaves the net as it is without that stage, with the
// nearest that one does; `place` is of the given words. Requires: the net is not filtered yet.
void WarnOfUnknownStages(const NetParameter& net, const NetState& given, const std::string& place);
// The same of a level where no rule of the net has levels.
void WarnOfUselessLevel(const NetParameter& net, const NetState& given, const std::string& place);

}  // namespace moka
