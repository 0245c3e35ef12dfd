// Whole states from those that ranks have apart, by collectives, and this rank's own from whole ones.
#include "optim/step/trained_states.h"

#include <algorithm>
#include <set>

#include "core/text.h"
#include "optim/strategies/ownership.h"

namespace moka {

TrainedStates::TrainedStates(const TrainingGraph& step, Communicator* stage_world)
    : world_(step.spec.ranks.world),
      exchange_(step.spec.ranks.exchange),
      splits_(step.spec.ranks.splits),
      slots_(step.updates.slots),
      shards_(step.spec.ranks.shards_updates),
      owned_(step.owned),
      all_slots_(step.all_slots),
      reached_(step.reached),
      gradient_keys_(step.summed.gradients),
      stage_world_(stage_world) {
  if (!step.spec.stages) return;
  std::set<std::string> seen;
  of_stages_.resize(static_cast<size_t>(step.spec.stages->count));
  const auto add = [&](const std::string& name, const std::string& layer) {
    if (seen.insert(name).second) {
      of_stages_[static_cast<size_t>(step.spec.stages->of_layer.at(layer))].push_back(name);
    }
  };
  std::map<std::string, std::string> layer_of;
  for (const NetBlob& blob : step.net.blobs) {
    layer_of.try_emplace(blob.name, blob.layer);
    add(blob.name, blob.layer);
  }
  for (const SlotState& slot : slots_) add(slot.name, layer_of.at(slot.blob));
}

void TrainedStates::Gather(ParameterStore& store) const {
  if (shards_ || !splits_.empty()) exchange_->Drain();
  for (const SplitBlob& split : splits_) {
    if (!store.Has(split.whole.name)) store.Add(split.whole.name, split.whole.shape);
    store.Set(split.whole.name, WholeOf(*world_, store.Values(split.part)));
  }
  if (stage_world_ != nullptr) ShareValues(*stage_world_, of_stages_, store, store);
}

void TrainedStates::TakeParts(ParameterStore& store) const {
  if (!splits_.empty()) SetParts(splits_, *world_, store);
}

void TrainedStates::ReleaseWhole(ParameterStore& store) const {
  std::vector<std::string> names;
  for (const SplitBlob& split : splits_) {
    if (store.Has(split.whole.name)) names.push_back(split.whole.name);
  }
  if (!names.empty()) store.Remove(names);
}

std::vector<SlotState> TrainedStates::WholeSlots() const {
  std::vector<SlotState> slots = shards_ ? all_slots_ : slots_;
  for (SlotState& slot : slots) {
    const SplitBlob* split = FindPart(splits_, slot.blob);
    if (split == nullptr) continue;
    slot = {split->whole.name + slot.name.substr(slot.blob.size()), split->whole.name, split->whole.shape};
  }
  return slots;
}

std::vector<std::string> TrainedStates::AllSlots() const {
  std::vector<std::string> names;
  for (const SlotState& slot : WholeSlots()) names.push_back(slot.name);
  return names;
}

ParameterStore& TrainedStates::StoreOfAllSlots(ParameterStore& store) {
  if (!shards_ && splits_.empty()) return store;
  whole_slots_ = std::make_unique<ParameterStore>();
  const std::vector<SlotState> slots = WholeSlots();
  for (const SlotState& slot : slots) whole_slots_->Add(slot.name, slot.shape);
  if (shards_) ShareValues(*world_, SlotsOf(owned_, all_slots_), store, *whole_slots_);
  for (size_t i = 0; !splits_.empty() && i < slots.size(); ++i) {
    const SlotState& own = slots_[i];
    const std::vector<float> values = store.Values(own.name);
    whole_slots_->Set(slots[i].name, FindPart(splits_, own.blob) == nullptr ? values : WholeOf(*world_, values));
  }
  return *whole_slots_;
}

std::optional<std::string> TrainedStates::SetSlot(const std::string& name, const StateTensor& whole,
                                                  ParameterStore& store) const {
  const std::vector<SlotState> slots = WholeSlots();
  const auto it = std::ranges::find(slots, name, &SlotState::name);
  if (it != slots.end() && !store.Has(name) && splits_.empty()) return std::string();
  if (it != slots.end() && !splits_.empty() && it->shape == whole.shape) {
    const SlotState& own = slots_[static_cast<size_t>(it - slots.begin())];
    const SplitBlob* split = FindPart(splits_, own.blob);
    if (split != nullptr) {
      store.Set(own.name, PartOf(*split, world_->rank(), world_->size(), whole.values));
      return own.name;
    }
  }
  if (!store.Has(name) || !(store.type(name).shape == whole.shape)) return std::nullopt;
  store.Set(name, whole.values);
  return name;
}

void TrainedStates::StartMeans(ParameterStore& store) const {
  for (const SlotState& slot : slots_) {
    if (slot.name == SlotName(slot.blob, kEmaSlot)) store.Set(slot.name, store.Values(slot.blob));
  }
}

void TrainedStates::SaveWaiting(ParameterStore& store) const {
  const DelayedSums* delays = Delays();
  for (size_t i = 0; delays != nullptr && i < reached_.size(); ++i) {
    std::vector<float> values(static_cast<size_t>(reached_[i].shape.Count()));
    for (int age = 1; age <= delays->setting().delay; ++age) {
      delays->Save(exchange_->announced().IndexOf(gradient_keys_[i]), age, values);
      store.Set(SlotName(reached_[i].name, StrCat(kWaitingSlot, age)), values);
    }
  }
}

void TrainedStates::LoadWaiting(const ParameterStore& store, float scale) const {
  DelayedSums* delays = Delays();
  for (size_t i = 0; delays != nullptr && i < reached_.size(); ++i) {
    for (int age = 1; age <= delays->setting().delay; ++age) {
      std::vector<float> values = store.Values(SlotName(reached_[i].name, StrCat(kWaitingSlot, age)));
      for (float& value : values) value *= scale;
      delays->Load(exchange_->announced().IndexOf(gradient_keys_[i]), age, values);
    }
  }
}

}  // namespace moka
