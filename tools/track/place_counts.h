// How many followed objects cross lines and are in zones of a video's pictures. An object is where the middle of its
// box is.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tracks/track_set.h"

namespace moka {

// In pixels from the upper left corner.
struct PlacePoint {
  double x = 0;
  double y = 0;
};

// Seen from its first end to its second, what lies to the right of a line is on its right: below a line that is drawn
// from left to right.
struct CountLine {
  PlacePoint from;
  PlacePoint to;
};
// The corners in order, the last joined to the first. Where sides cross, what an odd number of them surrounds is
// inside.
struct CountZone {
  std::vector<PlacePoint> corners;
};

// "X1,Y1,X2,Y2" each, joined by ':' as flags that are given several times are. Errors: kUsage naming --line for any
// other text and for a line without length.
std::vector<CountLine> LinesOfText(std::string_view text);
// "X1,Y1,X2,Y2,X3,Y3,..", three corners or more. Errors: kUsage naming --zone for any other text and for corners that
// lie on one line.
std::vector<CountZone> ZonesOfText(std::string_view text);
std::string TextOf(std::span<const PlacePoint> points);
// Whether some of the points' bounding box lies in a picture of that size.
bool TouchesPicture(std::span<const PlacePoint> points, int64_t width, int64_t height);
bool IsInside(const CountZone& zone, const PlacePoint& point);

struct LineCrossing {
  int64_t track = 0;
  int32_t label = 0;
  int64_t frame = 0;  // from 0: the first in which the object is on the other side
  bool is_to_right = false;
};
struct LineCount {
  CountLine line;
  std::vector<LineCrossing> crossings = {};  // by frame

  int64_t to_right() const;
  int64_t to_left() const;
};
struct ZoneCount {
  CountZone zone;
  std::map<int64_t, int32_t> tracks = {};  // that were inside: their labels by their ids
  int64_t entered = 0;                     // times that one was outside and came in
  int64_t left = 0;                        // times that one was inside and went out; not that it was seen no more
  int64_t inside = 0;                      // in the last picture
  int64_t most_inside = 0;                 // in one picture
  int64_t most_frame = 0;                  // the first such
  int64_t boxes = 0;                       // of all pictures
};

// Memory grows with the tracks and crossings, not with the pictures.
class PlaceCounter {
 public:
  PlaceCounter(const std::vector<CountLine>& lines, const std::vector<CountZone>& zones);

  // The tracks that picture `frame` shows. A track counts as crossing a line when its way from one picture in which it
  // was seen to the next meets the line between its ends and goes on at the other side; a way around an end does not
  // count. Requires: frames in ascending order.
  void Add(int64_t frame, std::span<const TrackedBox> boxes);

  const std::vector<LineCount>& lines() const { return lines_; }
  const std::vector<ZoneCount>& zones() const { return zones_; }

 private:
  // The memory that a line has of a track.
  struct Way {
    PlacePoint last;
    int side = 0;  // the last one: -1 left, 1 right; 0: it has only been on the line
    bool has_met = false;
  };
  void Cross(int64_t frame, const TrackedBox& box, const PlacePoint& at, LineCount& line, std::map<int64_t, Way>& ways);

  std::vector<LineCount> lines_;
  std::vector<ZoneCount> zones_;
  std::vector<std::map<int64_t, Way>> ways_;      // by line, then by track
  std::vector<std::map<int64_t, bool>> insides_;  // by zone: whether each track was inside when it was last seen
};

}  // namespace moka
