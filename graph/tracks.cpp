// Finds the parts between the slices and the concats that the pass "tracks" has made, by one walk that carries each
// value's part, and gives each thread a run of parts. A graph that later passes have mixed is left as one track.
#include "graph/tracks.h"

#include <algorithm>

#include "graph/op.h"

namespace moka {
namespace {

constexpr int kBefore = -1;  // needs no part's results
constexpr int kAfter = -2;   // needs joined ones
constexpr int kMixed = -3;   // needs those of several parts, or joined ones and a part's

bool IsBorder(const Node& node) {
  const bool may_be = node.op->name == "slice" || node.op->name == "concat";
  return may_be && node.origin.pass == kTracksPass && node.attributes.Int("axis") == 0;
}

// Where a node stands whose inputs stand as they do in part_of.
int PlaceOf(const Node& node, const std::vector<int>& part_of) {
  int place = kBefore;
  for (const ValueId input : node.inputs) {
    const int part = part_of[static_cast<size_t>(input)];
    if (part == kBefore || part == place) continue;
    if (place != kBefore) return kMixed;
    place = part;
  }
  return place;
}

}  // namespace

bool IsInTrack(const Node& node) { return node.origin.pass == kTracksPass && !IsBorder(node); }

void FindTracks(const Graph& graph, int threads, NodeSchedule& schedule) {
  std::vector<int> part_of(static_cast<size_t>(graph.value_count()), kBefore);
  std::vector<NodeId> before;
  std::vector<NodeId> after;
  std::vector<std::vector<NodeId>> parts;
  for (const NodeId id : schedule.steps) {
    const Node& node = graph.node(id);
    int place = PlaceOf(node, part_of);
    if (IsBorder(node) && node.op->name == "slice" && place == kBefore) {
      parts.resize(std::max(parts.size(), node.outputs.size()));
      for (size_t k = 0; k < node.outputs.size(); ++k)
        part_of[static_cast<size_t>(node.outputs[k])] = static_cast<int>(k);
      before.push_back(id);
      continue;
    }
    if (IsBorder(node)) place = kAfter;
    if (place == kMixed) return;
    for (const ValueId output : node.outputs) part_of[static_cast<size_t>(output)] = place;
    (place == kBefore ? before : place == kAfter ? after : parts[static_cast<size_t>(place)]).push_back(id);
  }
  if (parts.size() < 2) return;
  schedule.steps = std::move(before);
  const size_t tracks = std::min(parts.size(), static_cast<size_t>(threads));
  size_t part = 0;
  for (size_t track = 0; track < tracks; ++track) {
    schedule.tracks.push_back(static_cast<int>(schedule.steps.size()));
    for (; part < parts.size() * (track + 1) / tracks; ++part) {
      schedule.steps.insert(schedule.steps.end(), parts[part].begin(), parts[part].end());
    }
  }
  schedule.tracks.push_back(static_cast<int>(schedule.steps.size()));
  schedule.steps.insert(schedule.steps.end(), after.begin(), after.end());
}

}  // namespace moka
