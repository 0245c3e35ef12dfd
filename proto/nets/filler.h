// Fillers: the first values of parameters and the values of made-up data, as Caffe defines them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"
#include "proto/moka.pb.h"

namespace moka {

// A field that a filler has and its type does not read, and the types that do ("gaussian", "xavier or msra"; empty:
// none).
struct UnreadFillerField {
  std::string name;
  std::string readers;
};
// Returns the unread fields. Of a filler with a type these are those that say something other than their defaults;
// without a type, all that are there.
std::vector<UnreadFillerField> UnreadFieldsOf(const FillerParameter& filler);

// Errors: kConfig without a place when the type is unknown, does not go with its numbers or the shape, or is not there
// beside fields that the default, constant, does not read.
void CheckFiller(const FillerParameter& filler, const Shape& shape);

// Numbers of random streams: of the values, and of which of them a sparse filler keeps.
struct FillerStreams {
  uint64_t values = 0;
  uint64_t kept = 0;
};

// Writes the values, a pure function of (filler, shape, seed, streams). Caffe's definitions (fan in = count / dim 0,
// fan out = count / dim 1). Errors: those of CheckFiller.
void FillValues(const FillerParameter& filler, const Shape& shape, uint64_t seed, const FillerStreams& streams,
                std::span<float> values);

// The same with streams of a blob's name.
void FillBlob(const FillerParameter& filler, const Shape& shape, uint64_t seed, std::string_view name,
              std::span<float> values);

}  // namespace moka
