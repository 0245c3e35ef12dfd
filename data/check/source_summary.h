// A source in a few numbers, for those who show them: text, JSON and page.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "data/check/source_look.h"

namespace moka {

struct SideRange {
  int32_t least = 0;
  int32_t median = 0;
  int32_t most = 0;
};

struct SourceSummary {
  int64_t pictures = 0;  // good and bad
  int64_t bad = 0;
  int64_t bytes = 0;  // of their files
  SideRange width;    // of those that can be decoded
  SideRange height;
  std::map<std::string, int64_t> formats;   // "jpeg"
  std::map<std::string, int64_t> channels;  // "grey", "colour"
  std::map<int64_t, int64_t> orientations;  // by EXIF, but for 1
  // The sizes "WxH" of most pictures, the most frequent first.
  std::vector<std::pair<std::string, int64_t>> sizes;
  int64_t distinct_sizes = 0;
};
SourceSummary SummaryOf(const SourceLook& look);

// Names and counts of classes in the order of their numbers.
std::vector<std::pair<std::string, int64_t>> NamedCounts(const std::map<int64_t, int64_t>& counts,
                                                         const std::vector<std::string>& names);
// The names of the classes of whole pictures, of boxes, and of pixels; empty where none are known.
std::vector<std::string> LabelNames(const SourceLook& look);
std::vector<std::string> BoxNames(const SourceLook& look);
std::vector<std::string> MaskNames(const SourceLook& look);
std::string ClassName(const std::vector<std::string>& names, int64_t label);

}  // namespace moka
