// Corners move on straight lines at constant speed from one key to the next.
#include "data/tracks/track_set.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

PixelBox Between(const PixelBox& a, const PixelBox& b, double part) {
  const auto mix = [&](double from, double to) { return from + (to - from) * part; };
  return {mix(a.xmin, b.xmin), mix(a.ymin, b.ymin), mix(a.xmax, b.xmax), mix(a.ymax, b.ymax)};
}

// Two keys that lie far apart are a few bytes of a file and a box for each picture between them: they are counted
// before any is made. Errors: kBadData at the line of the key with which there are too many.
void CheckBoxes(const TrackSet& set, int64_t frames) {
  int64_t boxes = 0;
  for (const Track& track : set.tracks) {
    for (size_t k = 0; k < track.keys.size(); ++k) {
      const bool goes_on = k > 0 && set.is_interpolated && !track.keys[k - 1].is_outside;
      const int64_t from = goes_on ? track.keys[k - 1].frame : track.keys[k].frame - 1;
      boxes += std::max<int64_t>(0, std::min(track.keys[k].frame, frames) - from);
      if (boxes <= kMostTrackBoxes) continue;
      throw Error(
          ErrorKind::kBadData, SourcePlace{.file = set.file, .line = track.keys[k].line},
          StrCat("track ", track.id, ": with the boxes between keys there are more than ", kMostTrackBoxes, " boxes"),
          "a key that is outside ends a track where its object leaves the picture");
    }
  }
}

}  // namespace

std::vector<std::vector<TrackedBox>> BoxesByFrame(const TrackSet& set, int64_t frames) {
  CheckBoxes(set, frames);
  std::vector<std::vector<TrackedBox>> by_frame(static_cast<size_t>(frames));
  for (const Track& track : set.tracks) {
    for (size_t k = 0; k < track.keys.size(); ++k) {
      const TrackKey& key = track.keys[k];
      if (key.frame >= frames) {
        throw Error(ErrorKind::kBadData, SourcePlace{.file = set.file, .line = key.line},
                    StrCat("track ", track.id, " has a box in picture ", key.frame + 1, ", and there are ", frames));
      }
      if (key.is_outside) continue;
      by_frame[static_cast<size_t>(key.frame)].push_back({track.id, track.label, key.box, key.score});
      if (k + 1 == track.keys.size() || !set.is_interpolated) continue;
      const TrackKey& next = track.keys[k + 1];
      const auto steps = static_cast<double>(next.frame - key.frame);
      for (int64_t frame = key.frame + 1; frame < std::min(next.frame, frames); ++frame) {
        const PixelBox box = Between(key.box, next.box, static_cast<double>(frame - key.frame) / steps);
        by_frame[static_cast<size_t>(frame)].push_back({track.id, track.label, box, key.score});
      }
    }
  }
  return by_frame;
}

int64_t FramesOf(const TrackSet& set) {
  int64_t frames = 0;
  for (const Track& track : set.tracks) {
    if (!track.keys.empty()) frames = std::max(frames, track.keys.back().frame + 1);
  }
  return frames;
}

}  // namespace moka
