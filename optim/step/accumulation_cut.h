// Leaving an accumulation (iter_size above 1) between two of its batches. What its batches have changed before the
// update comes back, so that the training stands where its last whole iteration ended: running statistics, states that
// go on from batch to batch, the sums of gradients and the positions of the data.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "graph/parameter_store.h"
#include "optim/step/feed.h"

namespace moka {

class AccumulationCut {
 public:
  // From now on `wants_cut` is asked between the batches; at first nobody is. `states` come back as they were before
  // the first batch, `sums` to zero; the store must outlive this.
  void Ask(ParameterStore& store, std::vector<std::string> states, std::vector<std::string> sums,
           std::function<bool()> wants_cut);

  // To be called before the first batch.
  void Begin(const Feed& feed);
  // Whether the accumulation ends before a further batch; all is as before it then.
  bool Leaves(Feed& feed);
  // Whether the last one ended so.
  bool has_left() const { return has_left_; }

 private:
  ParameterStore* store_ = nullptr;
  std::vector<std::pair<std::string, std::vector<float>>> states_;
  std::vector<std::string> sums_;
  std::map<std::string, int64_t> positions_;
  std::function<bool()> wants_cut_;
  bool has_left_ = false;
};

}  // namespace moka
