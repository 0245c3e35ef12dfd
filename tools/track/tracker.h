// Objects followed from picture to picture by their boxes: Y. Zhang et al., ByteTrack: Multi-Object Tracking by
// Associating Every Detection Box, ECCV 2022 (arXiv 2110.06864), algorithm 1.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/tracks/track_set.h"
#include "tools/track/box_filter.h"

namespace moka {

struct DetectedBox {
  int32_t label = 0;
  PixelBox box;
  double score = 0;
};

struct TrackerOptions {
  double high = 0.5;               // detections from here on may begin tracks
  double low = 0.1;                // others from here on only go on with one
  double begin_above = 0.1;        // a new track wants so much more than `high`
  double least_overlap = 0.2;      // intersection over union, times the score, of a detection and a track
  double least_overlap_low = 0.5;  // of a detection of the second pass
  double least_overlap_new = 0.3;  // of the second detection of a track
  int64_t lost_frames = 30;        // a track that was not seen for longer is ended
};

// In each picture tracks are predicted by their filters, then matched with the detections of high scores, those left
// with the ones of low scores, by overlap, each time at the least sum of 1 - overlap (LeastAssignment), and only within
// a class. A track is one from its second detection on (in the first picture from the first); ids are 1, 2, .. in the
// order in which tracks begin, and are never used again. The same detections give the same tracks.
class BoxTracker {
 public:
  explicit BoxTracker(const TrackerOptions& options = {}) : options_(options) {}

  // The tracks that the next picture shows, by their ids, where they were detected.
  std::vector<TrackedBox> Next(std::span<const DetectedBox> detections);

 private:
  enum class State : uint8_t { kNew, kTracked, kLost };
  struct Followed {
    int64_t id = 0;  // 0: not shown yet
    BoxFilter filter;
    DetectedBox seen;   // last
    int64_t frame = 0;  // of the last detection
    State state = State::kNew;
  };
  // A pass: matched detections leave `detections`, and matched tracks `tracks` (places in tracks_).
  void Match(std::vector<size_t>& tracks, std::vector<DetectedBox>& detections, double least_overlap, bool by_score);

  TrackerOptions options_;
  std::vector<Followed> tracks_;
  int64_t frame_ = 0;
  int64_t next_id_ = 1;
};

// Intersection over union; 0 for boxes without an area.
double OverlapOf(const PixelBox& a, const PixelBox& b);

}  // namespace moka
