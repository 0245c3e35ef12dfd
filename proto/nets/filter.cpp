// Caffe's rules of include and exclude, exactly, with the sentences that say which rule kept a layer out, as later
// errors about its missing tops need them.
#include "proto/nets/filter.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <set>
#include <string>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "proto/text/places.h"
#include "proto/upgrade/crop_offsets.h"

namespace moka {
namespace {

bool HasStage(const NetState& state, const std::string& stage) {
  return std::find(state.stage().begin(), state.stage().end(), stage) != state.stage().end();
}

// An absent layer's unknown fields do no harm.
void WarnOfUnknown(const LayerParameter& layer, Phase phase) {
  for (const Error& error : UnknownFieldsOf(layer.origin())) {
    LogWarning(StrCat(error.place().ToString(), ": ", error.text(), "; layer \"", layer.name(),
                      "\" is not part of the net in phase ", Phase_Name(phase)));
  }
}

// Adds the note that errors carry for a layer that is left out.
void NoteLeftOut(const LayerParameter& layer, NetParameter& filtered) {
  if (layer.top_size() == 0) return;
  LayerParameter note;
  note.set_name(layer.name());
  note.set_type(layer.type());
  *note.mutable_top() = layer.top();
  *note.mutable_include() = layer.include();
  *note.mutable_exclude() = layer.exclude();
  note.mutable_origin()->set_file(layer.origin().file());
  note.mutable_origin()->set_line(layer.origin().line());
  note.mutable_origin()->set_column(layer.origin().column());
  filtered.mutable_origin()->add_left_out(note.SerializeAsString());
}

}  // namespace

bool StateMeetsRule(const NetState& state, const NetStateRule& rule) {
  if (rule.has_phase() && rule.phase() != state.phase()) return false;
  if (rule.has_min_level() && state.level() < rule.min_level()) return false;
  if (rule.has_max_level() && state.level() > rule.max_level()) return false;
  const auto set = [&](const std::string& stage) { return HasStage(state, stage); };
  return std::all_of(rule.stage().begin(), rule.stage().end(), set) &&
         std::none_of(rule.not_stage().begin(), rule.not_stage().end(), set);
}

bool IsPresent(const LayerParameter& layer, const NetState& state) {
  if (layer.include_size() > 0 && layer.exclude_size() > 0) {
    throw ErrorAt(layer, "exclude[0]", StrCat("layer \"", layer.name(), "\" has both include and exclude rules"),
                  "give one kind: a layer is present if any include rule holds, or unless any exclude rule holds");
  }
  const auto met = [&](const NetStateRule& rule) { return StateMeetsRule(state, rule); };
  if (layer.include_size() > 0) return std::any_of(layer.include().begin(), layer.include().end(), met);
  return std::none_of(layer.exclude().begin(), layer.exclude().end(), met);
}

bool ChoosesLayers(const NetState& given) { return given.stage_size() > 0 || given.has_level(); }

void AddState(const NetState& given, NetState& state) {
  if (given.has_phase()) state.set_phase(given.phase());
  if (given.has_level()) state.set_level(given.level());
  for (const std::string& stage : given.stage()) {
    if (!HasStage(state, stage)) state.add_stage(stage);
  }
}

NetParameter FilterNet(const NetParameter& net, const NetState& given) {
  NetParameter filtered = net;
  AddState(given, *filtered.mutable_state());
  const NetState state = filtered.state();
  int kept = 0;
  for (int i = 0; i < net.layer_size(); ++i) {
    if (!IsPresent(net.layer(i), state)) {
      WarnOfUnknown(net.layer(i), state.phase());
      NoteLeftOut(net.layer(i), filtered);
      continue;
    }
    if (kept != i) filtered.mutable_layer()->SwapElements(kept, i);
    LayerParameter& layer = *filtered.mutable_layer(kept++);
    if (!layer.has_phase()) layer.set_phase(state.phase());
  }
  filtered.mutable_layer()->DeleteSubrange(kept, filtered.layer_size() - kept);
  SetCropOffsets(filtered);
  return filtered;
}

NetParameter FilterNet(const NetParameter& net, Phase phase) {
  NetState state;
  state.set_phase(phase);
  return FilterNet(net, state);
}

std::vector<LayerParameter> LayersLeftOut(const NetParameter& filtered) {
  std::vector<LayerParameter> layers;
  for (const std::string& wire : filtered.origin().left_out()) {
    Require(layers.emplace_back().ParseFromString(wire), "NoteLeftOut wrote it");
  }
  return layers;
}

std::string StateText(const NetState& state) {
  std::vector<std::string> stages;
  for (const std::string& stage : state.stage()) stages.push_back(StrCat("\"", stage, "\""));
  return StrCat("phase ", Phase_Name(state.phase()), ", level ", state.level(), ", ",
                stages.empty() ? "no stage" : StrCat("stage ", Join(stages, ", ")));
}

std::string RulesText(const LayerParameter& layer) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::vector<std::string> rules;
  for (const auto& [word, list] : {std::pair("include", &layer.include()), std::pair("exclude", &layer.exclude())}) {
    for (const NetStateRule& rule : *list) {
      std::string text;
      printer.PrintToString(rule, &text);
      rules.push_back(StrCat(word, " { ", Trim(text), " }"));
    }
  }
  return rules.empty() ? "no rule" : Join(rules, " ");
}

std::string HowToAdmit(const LayerParameter& layer, const NetState& state) {
  for (const NetStateRule& rule : layer.include()) {
    NetState wanted = state;
    if (rule.has_min_level()) wanted.set_level(std::max(wanted.level(), rule.min_level()));
    if (rule.has_max_level()) wanted.set_level(std::min(wanted.level(), rule.max_level()));
    std::vector<std::string> fields;
    std::vector<std::string> flags;
    if (wanted.level() != state.level()) {
      fields.push_back(StrCat("level: ", wanted.level()));
      flags.push_back(StrCat("--level=", wanted.level()));
    }
    std::vector<std::string> stages;
    for (const std::string& stage : rule.stage()) {
      if (HasStage(wanted, stage)) continue;
      wanted.add_stage(stage);
      fields.push_back(StrCat("stage: \"", stage, "\""));
      stages.push_back(stage);
    }
    if (!stages.empty()) flags.push_back(StrCat("--stage=", Join(stages, ",")));
    if (fields.empty() || !StateMeetsRule(wanted, rule)) continue;
    const char* of_solver = state.phase() == TRAIN ? "train_state" : "test_state";
    return StrCat("write ", of_solver, " { ", Join(fields, " "), " } in the solver, or give ", Join(flags, " "),
                  " to moka ", state.phase() == TRAIN ? "train, time or model show" : "test or model show");
  }
  return {};
}

void WarnOfUnknownStages(const NetParameter& net, const NetState& given, const std::string& place) {
  std::set<std::string> known;
  for (const LayerParameter& layer : net.layer()) {
    for (const auto* rules : {&layer.include(), &layer.exclude()}) {
      for (const NetStateRule& rule : *rules) {
        known.insert(rule.stage().begin(), rule.stage().end());
        known.insert(rule.not_stage().begin(), rule.not_stage().end());
      }
    }
  }
  for (const std::string& stage : given.stage()) {
    if (known.contains(stage)) continue;
    const std::string near = DidYouMean(stage, {known.begin(), known.end()});
    const std::string rules = known.empty()  ? "the net has no rules of stages"
                              : near.empty() ? StrCat("they name ", Join({known.begin(), known.end()}, ", "))
                                             : near;
    LogWarningOnce(
        StrCat(place, ": no rule of the net names stage \"", Printable(stage), "\", which changes nothing; ", rules));
  }
}

void WarnOfUselessLevel(const NetParameter& net, const NetState& given, const std::string& place) {
  if (given.level() == 0) return;
  for (const LayerParameter& layer : net.layer()) {
    for (const auto* rules : {&layer.include(), &layer.exclude()}) {
      for (const NetStateRule& rule : *rules) {
        if (rule.has_min_level() || rule.has_max_level()) return;
      }
    }
  }
  LogWarningOnce(
      StrCat(place, ": level ", given.level(), " changes nothing: no rule of the net has min_level or max_level"));
}

}  // namespace moka
