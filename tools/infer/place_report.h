// The counts of lines and zones of a tracked video: in JSON, in words, and on its pictures.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "data/image/image.h"
#include "tools/infer/picture_report.h"
#include "tools/infer/source.h"
#include "tools/track/place_counts.h"

namespace moka {

// Errors: kUsage for a line or a zone that lies outside pictures of that size.
void CheckPlaces(const PlaceCounter& counter, int64_t width, int64_t height);

// Adds "lines" and "zones", where there are some. `times_s`: of the frames.
void AddPlaces(const PlaceCounter& counter, const InferSource& source, std::span<const double> times_s,
               PictureJson& json);
// A line each.
void PrintPlaces(const PlaceCounter& counter);

// Draws lines and zones with what they have counted so far. Requires: three channels.
void DrawPlaces(const PlaceCounter& counter, Image& picture);

}  // namespace moka
