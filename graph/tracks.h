// Tracks: stretches of steps that run at the same time, each from its first step to its last in one thread. The pass
// "tracks" (graph/passes/tracks.cpp) cuts an inference net into parts of the images between slices and concats of its
// own; here the parts are found again in the finished graph and shared out.
#pragma once

#include <string_view>

#include "core/threads/parallel.h"
#include "graph/graph.h"
#include "graph/schedule.h"

namespace moka {

inline constexpr std::string_view kTracksPass = "tracks";

// Whether the pass made the node to run in a track, or as a slice or concat along axis 0 to share out or join images.
bool IsInTrack(const Node& node);

// Moves the steps of all parts together and fills schedule.tracks: `threads` tracks of equally many parts, or as many
// as there are parts. Steps that need no part's results come before, the others after. Nothing changes in a graph
// without parts, or where something made of several parts goes back into one.
void FindTracks(const Graph& graph, int threads, NodeSchedule& schedule);

// While it lives kernels are made for one thread, as those of a track must be.
class OneThread {
 public:
  OneThread() { SetThreadCount(1); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;
  ~OneThread() { SetThreadCount(before_); }

 private:
  int before_ = ThreadCount();
};

}  // namespace moka
