// Files of tracks: CVAT's XML 1.1, the text of the MOT challenges, and lines of JSON.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "data/tracks/track_set.h"

namespace moka {

// By the file's contents:
// - XML: CVAT's <annotations>, version 1.1, as its "CVAT for video" is exported: <track id label> with <box frame xtl
//   ytl xbr ybr outside>, frames from 0. Tracks of other shapes are left out with a warning.
// - lines "frame,id,x,y,width,height[,conf[,class[,visibility]]]" (A. Milan et al., MOT16, arXiv 1603.00831), frames
//   from 1. Each line is a box of its own frame alone. In a file of truth a conf of 0 says that a box does not count:
//   such are left out with a warning. Without a class, or with -1, it is 1; the classes' names are their numbers.
// - lines of JSON {"track": 3, "frame": 1, "label": "car", "box": [left, top, right, bottom], "outside": true}, frames
//   from 1; "outside" and "score" may be left out.
// Boxes are in pixels. Errors: kNoInput; kBadData with the line for what is none of these, for a track that has two
// boxes in one frame, numbers that are none, a frame before the first, a box without an area, and for more than 32
// MiB, of XML 16, and for XML with a document type or entities.
enum class TrackRole { kTruth, kFound };
TrackSet ReadTracks(const std::filesystem::path& file, TrackRole role);

// A line "frame,id,x,y,width,height,conf,class,-1" a box; `frame` from 0.
std::string MotLines(int64_t frame, std::span<const TrackedBox> boxes);

}  // namespace moka
