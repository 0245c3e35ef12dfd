// States are saved before the first batch of an accumulation and put back if it is left, as half of an iteration must
// not be seen.
#include "optim/step/accumulation_cut.h"

namespace moka {

void AccumulationCut::Ask(ParameterStore& store, std::vector<std::string> states, std::vector<std::string> sums,
                          std::function<bool()> wants_cut) {
  store_ = &store;
  states_.clear();
  for (std::string& state : states) {
    const auto count = static_cast<size_t>(store.type(state).shape.Count());
    states_.emplace_back(std::move(state), std::vector<float>(count));
  }
  sums_ = std::move(sums);
  wants_cut_ = std::move(wants_cut);
}

void AccumulationCut::Begin(const Feed& feed) {
  has_left_ = false;
  if (!wants_cut_) return;
  positions_.clear();
  feed.SavePositions(positions_);
  for (auto& [name, values] : states_) store_->Get(name, values);
}

bool AccumulationCut::Leaves(Feed& feed) {
  if (!wants_cut_ || !wants_cut_()) return false;
  for (const auto& [name, values] : states_) store_->Set(name, values);
  for (const std::string& sum : sums_) {
    store_->Set(sum, std::vector<float>(static_cast<size_t>(store_->type(sum).shape.Count())));
  }
  feed.Seek(positions_);
  has_left_ = true;
  return true;
}

}  // namespace moka
