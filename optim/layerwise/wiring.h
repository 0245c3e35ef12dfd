// How Caffe wires a net's blobs: copies of blobs that several layers read (Split layers, so that each reader has a
// gradient of its own and they are added), and which layers and bottoms the backward pass visits.
#pragma once

#include <string>
#include <vector>

#include "proto/moka.pb.h"

namespace moka {

// The net with a Split layer after each top that is read more than once (a loss weight counts as a reading), named as
// Caffe names them: "BLOB_LAYER_INDEX_split" with tops "..._split_K"; the readers read those. Requires: filtered.
// Errors: kConfig for a bottom that no layer before produces (nearest name given).
NetParameter InsertSplits(const NetParameter& net);

// Tops that a loss layer of an old net does not write down get names: "(automatic)".
void NameAutomaticTops(NetParameter& net);

// The facts that the search for the backward pass looks at: one entry a layer, blobs by id.
struct BackwardFacts {
  std::vector<int> bottoms;
  std::vector<int> tops;
  std::vector<char> is_loss;         // by top
  std::vector<char> trains;          // by parameter: lr_mult is not 0
  std::vector<char> propagate_down;  // by bottom, or empty
};

// The search's result for a layer.
struct BackwardPlan {
  bool visits = false;
  std::vector<char> bottoms;  // whose diffs are computed
  std::vector<char> params;
};

// Caffe's rules: a layer is visited if something before it (or in it) is trained and it leads to a loss; with
// force_backward all are.
std::vector<BackwardPlan> PlanBackward(const std::vector<BackwardFacts>& layers, int blob_count, bool force);

}  // namespace moka
