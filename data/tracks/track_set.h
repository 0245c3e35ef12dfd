// Objects that are followed through the pictures of a video: boxes at key frames, and between them where they were.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/labels/annotation_file.h"

namespace moka {

// A video's frames at most: a day at 24 a second. Scores hold two files' boxes by frame, some 100 bytes a frame and box
// each.
inline constexpr int64_t kMostTrackFrames = int64_t{1} << 21;

struct TrackKey {
  int64_t frame = 0;  // from 0
  PixelBox box = {};
  bool is_outside = false;  // the object is not to be seen from here on, to the next key
  double score = 1;
  int line = 0;  // of the file
};

struct Track {
  int64_t id = 0;
  int32_t label = 0;           // from 1, TrackSet::labels
  std::vector<TrackKey> keys;  // by frame, each frame once
};

struct TrackSet {
  std::string file;
  PictureSize size;                 // of the video; 0: not stated
  std::vector<std::string> labels;  // names by label, from 0, which stands for none
  std::vector<Track> tracks;        // in the order of their ids
  // Whether boxes between two keys are those of a straight line between them. Otherwise frames without a key have none.
  bool is_interpolated = true;
  std::vector<std::string> warnings = {};
};

struct TrackedBox {
  int64_t id = 0;
  int32_t label = 0;
  PixelBox box;
  double score = 1;
};

// Returns the boxes of each of the first `frames` frames, by the tracks' order. A track ends with its last key; from a
// key that is outside to the next there is none, as CVAT has it: towards such a key boxes still move. Errors: kBadData
// at the line of a key beyond the last frame, and of the key with which there are more boxes than kMostTrackBoxes.
inline constexpr int64_t kMostTrackBoxes = int64_t{1} << 21;
std::vector<std::vector<TrackedBox>> BoxesByFrame(const TrackSet& set, int64_t frames);

// One more than the last frame that has a key.
int64_t FramesOf(const TrackSet& set);

}  // namespace moka
