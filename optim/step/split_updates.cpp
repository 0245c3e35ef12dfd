// TrainNet: layers whose outputs are split among the ranks (optim/step/split_columns.h). Each rank updates its part;
// whoever reads whole blobs or slots gathers them first.
#include <algorithm>

#include "optim/optimizers/gradient_sums.h"
#include "optim/step/train_net.h"

namespace moka {

void TrainNet::AddParts(ParameterStore& store) const {
  for (const SplitBlob& split : splits_) store.Add(split.part, split.part_shape);
  TakeParts(store);
}

void TrainNet::TakeParts(ParameterStore& store) const {
  for (const SplitBlob& split : splits_) {
    store.Set(split.part, PartOf(split, world_->rank(), world_->size(), store.Values(split.whole.name)));
  }
}

void TrainNet::ReleaseWhole(ParameterStore& store) const {
  std::vector<std::string> names;
  for (const SplitBlob& split : splits_) {
    if (store.Has(split.whole.name)) names.push_back(split.whole.name);
  }
  if (!names.empty()) store.Remove(names);
}

const SplitBlob* TrainNet::SplitOf(std::string_view part) const {
  const auto it = std::ranges::find(splits_, part, &SplitBlob::part);
  return it == splits_.end() ? nullptr : &*it;
}

// A part's gradient is the sum over ranks as it is: its rank has computed it from the rows of all.
void TrainNet::SumWhole(Graph& graph, const std::vector<NetBlob>& trained, std::vector<ValueId>& gradients,
                        ValueId& loss) {
  std::vector<ValueId> parts(gradients.size(), kNoId);
  for (size_t i = 0; i < trained.size(); ++i) {
    if (SplitOf(trained[i].name) != nullptr) std::swap(parts[i], gradients[i]);
  }
  SumOverAll(graph, gradients, loss, {});
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] != kNoId) gradients[i] = parts[i];
  }
}

// All ranks skip an update together: a part that is not finite on one of them makes a scalar NaN on all.
std::vector<ValueId> TrainNet::GradientsToGuard(Graph& graph, const std::vector<NetBlob>& trained,
                                                std::vector<ValueId> gradients) const {
  std::vector<ValueId> parts(gradients.size(), kNoId);
  for (size_t i = 0; i < trained.size(); ++i) {
    if (SplitOf(trained[i].name) != nullptr) std::swap(parts[i], gradients[i]);
  }
  const GraphBuilder b(graph, NodeOrigin{"(ranks)", {}, "update"});
  const ValueId own = SumOverGradients(b, parts, Select(IsFinite(Term::Input(0)), 0, 1));
  if (own == kNoId) return gradients;
  const ValueId all = NormsOverRanks().Sum(b, own, "overflow");
  gradients.push_back(b.Pointwise(Sqrt(Select(Term::Input(0) > 0, -1, 0)), {all}));
  return gradients;
}

SplitNorms TrainNet::NormsOverRanks() const {
  SplitNorms norms;
  for (const SplitBlob& split : splits_) norms.blobs.push_back(split.part);
  if (!splits_.empty()) norms.ranks = world_->size();
  norms.fence = fence_;
  return norms;
}

std::vector<SlotState> TrainNet::WholeSlots() const {
  std::vector<SlotState> slots = shards_ ? all_slots_ : updates_.slots;
  for (SlotState& slot : slots) {
    const SplitBlob* split = SplitOf(slot.blob);
    if (split == nullptr) continue;
    slot = {split->whole.name + slot.name.substr(slot.blob.size()), split->whole.name, split->whole.shape};
  }
  return slots;
}

std::optional<std::string> TrainNet::SetSlot(const std::string& name, const StateTensor& whole,
                                             ParameterStore& store) const {
  const std::vector<SlotState> slots = WholeSlots();
  const auto it = std::ranges::find(slots, name, &SlotState::name);
  if (it != slots.end() && !store.Has(name) && splits_.empty()) return std::string();
  if (it != slots.end() && !splits_.empty() && it->shape == whole.shape) {
    const SlotState& own = updates_.slots[static_cast<size_t>(it - slots.begin())];
    const SplitBlob* split = SplitOf(own.blob);
    if (split != nullptr) {
      store.Set(own.name, PartOf(*split, world_->rank(), world_->size(), whole.values));
      return own.name;
    }
  }
  if (!store.Has(name) || !(store.type(name).shape == whole.shape)) return std::nullopt;
  store.Set(name, whole.values);
  return name;
}

}  // namespace moka
