// Masks of objects as run lengths in COCO's order: down a picture's columns, one column after another, pixels that are
// not the object's and such that are by turns, beginning with the former. T.-Y. Lin et al., Microsoft COCO, ECCV 2014;
// the rules are those of its programs (cocoapi, maskApi).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "data/image/image.h"

namespace moka {

using RunLengths = std::vector<uint32_t>;

// Returns the runs of the pixels of `mask` (one channel) that are not 0.
RunLengths RunLengthsOf(const Image& mask);
// 1 where the runs are the object's, else 0. Errors: kBadData when they do not sum to height x width.
Image MaskOf(std::span<const uint32_t> runs, int64_t width, int64_t height);

// Corners x0 y0 x1 y1 .. in pixels. COCO's rule: the outline is drawn in steps of a fifth of a pixel, and a column's
// pixels lie inside where it was crossed an odd number of times above their middle.
// Errors: kBadData for an odd number of values, fewer than six, a corner 2^20 pixels or farther from 0, an outline of
// more than 2^26 points.
RunLengths RunLengthsOf(std::span<const double> polygon, int64_t width, int64_t height);
// COCO's text of run lengths: digits of five bits, each number from the fourth on as its difference to the one two
// before it. Errors: kBadData.
RunLengths RunLengthsOf(std::string_view text);
// The pixels of any of several masks of one size. Errors: kBadData for runs that do not sum to height x width.
RunLengths Union(const std::vector<RunLengths>& masks, int64_t width, int64_t height);

// The pixels of each value but 0 of a picture of objects' numbers [height, width].
std::map<uint16_t, RunLengths> RunLengthsByValue(std::span<const uint16_t> values, int64_t width, int64_t height);

// The least window that holds the object's pixels; empty without any. Requires: the runs sum to height x width.
ImageWindow WindowOf(std::span<const uint32_t> runs, int64_t width, int64_t height);

}  // namespace moka
