// The order of steps. One stream: a topological order in which what reads a state's old value runs before what
// overwrites it, and gradients are turned into updates as soon as they exist, so their memory is free again.
#pragma once

#include <algorithm>
#include <vector>

#include "graph/graph.h"

namespace moka {

struct NodeSchedule {
  std::vector<NodeId> constants;  // run once (Program::RefreshConstants)
  std::vector<NodeId> steps;      // run each time
  // For each assignment, whether the new value may be written straight over the state; otherwise it is copied after the
  // last step.
  std::vector<bool> in_place;
  // Steps that run beside each other (graph/tracks.h): track i has those from tracks[i] to tracks[i + 1], all tracks
  // follow one another in `steps`. Empty: none.
  std::vector<int> tracks;

  int track_count() const { return std::max(0, static_cast<int>(tracks.size()) - 1); }
  // The track of a step; -1 outside.
  int TrackOf(int step) const {
    if (tracks.empty() || step < tracks.front() || step >= tracks.back()) return -1;
    return static_cast<int>(std::upper_bound(tracks.begin(), tracks.end(), step) - tracks.begin()) - 1;
  }
};

// `constant` is indexed by NodeId (ConstantNodes).
NodeSchedule MakeSchedule(const Graph& graph, const std::vector<bool>& constant);

}  // namespace moka
