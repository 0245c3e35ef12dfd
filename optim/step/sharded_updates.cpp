// TrainNet: updates that are shared out among the ranks. The weights that a rank updates go from it to all of them
// while the next forward pass goes on: whoever reads the store between two steps waits for them first (Gather).
#include <algorithm>
#include <iterator>

#include "comm/exchange/sum_over_ranks.h"
#include "optim/step/train_net.h"
#include "optim/step/train_pipeline.h"
#include "optim/strategies/ownership.h"
#include "optim/strategies/served_updates.h"

namespace moka {

void TrainNet::ShareUpdates(Graph& graph, const std::vector<ValueId>& sums) {
  std::vector<OwnedWeight> weights;
  std::vector<size_t> assigned;  // index among the assignments
  for (size_t i = 0; i < reached_.size(); ++i) {
    const NetBlob& blob = reached_[i];
    auto it = std::ranges::find(graph.assignments(), blob.state, &Assignment::state);
    const bool is_own = it != graph.assignments().end();
    weights.push_back({.state = blob.state,
                       .sum = sums[i],
                       .updated = is_own ? it->value : kNoId,
                       .layer = blob.layer,
                       .key = exchanged_ + static_cast<int64_t>(i)});
    if (!is_own) {
      graph.Assign(blob.state, sums[i]);  // until it is given what comes from its owner
      it = std::prev(graph.assignments().end());
    }
    assigned.push_back(static_cast<size_t>(it - graph.assignments().begin()));
  }
  const std::vector<ValueId> gathered = GatherOwned(graph, weights, fence_);
  for (size_t i = 0; i < gathered.size(); ++i) graph.assignments()[assigned[i]].value = gathered[i];
  all_slots_ = ServedUpdates::Slots({.solver = &solver_, .net = &param_, .blobs = reached_});
  std::erase_if(all_slots_, [](const SlotState& slot) { return slot.name == SlotName(slot.blob, kSumSlot); });
}

void TrainNet::RouteToOwners() {
  for (size_t rank = 0; rank < owned_.size(); ++rank) {
    for (const NetBlob& blob : owned_[rank]) {
      const auto i = std::ranges::find(reached_, blob.name, &NetBlob::name) - reached_.begin();
      const int owner = static_cast<int>(rank);
      exchange_->SetWay(gradient_keys_[static_cast<size_t>(i)], GradientExchange::Way::kToOwner, owner);
      exchange_->SetWay(exchanged_ + i, GradientExchange::Way::kFromOwner, owner);
    }
  }
}

std::vector<std::string> TrainNet::AllSlots() const {
  std::vector<std::string> names;
  for (const SlotState& slot : WholeSlots()) names.push_back(slot.name);
  return names;
}

ParameterStore& TrainNet::StoreOfAllSlots(ParameterStore& store) {
  if (!shards_ && splits_.empty()) return store;
  whole_slots_ = std::make_unique<ParameterStore>();
  const std::vector<SlotState> slots = WholeSlots();
  for (const SlotState& slot : slots) whole_slots_->Add(slot.name, slot.shape);
  if (shards_) ShareValues(*world_, SlotsOf(owned_, all_slots_), store, *whole_slots_);
  for (size_t i = 0; !splits_.empty() && i < slots.size(); ++i) {
    const SlotState& own = updates_.slots[i];
    const std::vector<float> values = store.Values(own.name);
    whole_slots_->Set(slots[i].name, SplitOf(own.blob) == nullptr ? values : WholeOf(*world_, values));
  }
  return *whole_slots_;
}

void TrainNet::Gather(ParameterStore& store) const {
  if (shards_ || !splits_.empty()) exchange_->Drain();
  for (const SplitBlob& split : splits_) {
    if (!store.Has(split.whole.name)) store.Add(split.whole.name, split.whole.shape);
    store.Set(split.whole.name, WholeOf(*world_, store.Values(split.part)));
  }
  if (!pipeline_) return;
  std::vector<std::vector<std::string>> names(static_cast<size_t>(pipeline_world_->size()));
  for (const auto& [name, owner] : pipeline_->stage_of_state) names[static_cast<size_t>(owner)].push_back(name);
  ShareValues(*pipeline_world_, names, store, store);
}

std::optional<NonFinite> TrainNet::FindNonFinite() {
  if (shards_) exchange_->Drain();
  return ran_->step_->FindNonFinite();
}

}  // namespace moka
