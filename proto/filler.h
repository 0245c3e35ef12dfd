// Fillers: the first values of parameters and the values of made-up data, as Caffe defines them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/types.h"
#include "proto/moka.pb.h"

namespace moka {

// Errors: kConfig without a place when the type is unknown or does not go with its numbers or the shape.
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
