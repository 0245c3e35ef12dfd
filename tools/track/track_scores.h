// How well found tracks are the true ones, as the program TrackEval measures it (class by class where there are
// several, an object being matched with those of its class alone):
// - CLEAR (K. Bernardin and R. Stiefelhagen, EURASIP 2008): MOTA = (TP - FP - switches) / truth, boxes matched from an
//   overlap of 0.5 on, and what was matched in the picture before first;
// - identity (E. Ristani et al., ECCV 2016 workshops): IDF1 over the best assignment of whole tracks;
// - HOTA (J. Luiten et al., IJCV 2020): sqrt(DetA AssA), the mean over overlaps of 0.05, 0.10 .. 0.95.
#pragma once

#include <cstdint>
#include <vector>

#include "data/tracks/track_set.h"

namespace moka {

using FrameBoxes = std::vector<std::vector<TrackedBox>>;

struct TrackScores {
  double hota = 0;
  double det_a = 0;  // detection
  double ass_a = 0;  // association
  double loc_a = 0;  // overlap of what was matched
  double mota = 0;
  double motp = 0;  // mean overlap of matched boxes
  double idf1 = 0;
  int64_t true_boxes = 0;
  int64_t found_boxes = 0;
  int64_t true_tracks = 0;
  int64_t found_tracks = 0;
  int64_t missed = 0;          // boxes of the truth without a match
  int64_t false_boxes = 0;     // found boxes without one
  int64_t switches = 0;        // a true track that is matched with another found track than the last time
  int64_t mostly_tracked = 0;  // true tracks of which more than 80 % is matched
  int64_t mostly_lost = 0;     // less than 20 %
  int64_t fragments = 0;       // times that a matched track was interrupted
};

// Requires: as many frames in both; an id once a frame.
TrackScores ScoreTracks(const FrameBoxes& truth, const FrameBoxes& found);

}  // namespace moka
