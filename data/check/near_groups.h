// Groups of pictures that look alike, found without a comparison of each with each other. A hash of 64 bits is cut into
// four bands of 16; of two hashes that differ in at most 7 bits some band differs in at most one (M. Norouzi,
// A. Punjani, D. J. Fleet: Fast Search in Hamming Space with Multi-Index Hashing, CVPR 2012). So a picture is compared
// with those alone that share a band with it but for one bit.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "data/image/perceptual_hash.h"

namespace moka {

// The bits of each band, by their places from the lowest. Bits that are the same in nearly all hashes, as those of a
// border are in drawn digits, tell nothing: they are dealt out among the bands, so that no band has them alone.
using HashBands = std::array<std::array<uint8_t, 16>, 4>;
HashBands BandsFor(std::span<const PerceptualHash> hashes);
uint16_t BandOf(uint64_t bits, const std::array<uint8_t, 16>& places);

struct NearGroups {
  // Places in the span, ascending, of groups of two and more: each is near another one of its group.
  std::vector<std::vector<int64_t>> groups;
  int64_t cut = 0;  // pictures that share bands with more others than were compared with them
};
// The team's threads share the work; the result does not depend on their number. `most_comparisons` bounds the work of
// sets whose hashes are much alike.
NearGroups FindNearGroups(std::span<const PerceptualHash> hashes, int64_t most_comparisons = int64_t{1} << 32U);

}  // namespace moka
