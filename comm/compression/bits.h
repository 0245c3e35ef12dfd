// Whole words in payloads, which travel as floats whose bits nobody touches.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "core/rng.h"

namespace moka {

inline void PutWord(std::span<float> payload, int64_t i, uint32_t word) {
  std::memcpy(payload.data() + i, &word, sizeof word);
}

inline uint32_t WordAt(std::span<const float> payload, int64_t i) {
  uint32_t word = 0;
  std::memcpy(&word, payload.data() + i, sizeof word);
  return word;
}

// True if no value is infinite or NaN.
bool AllFinite(std::span<const float> values);

// Random words for the elements of one gradient in one iteration on one rank: a pure function of these and the seed.
class RoundingWords {
 public:
  RoundingWords(uint64_t seed, uint32_t tensor, int rank, int64_t step)
      : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32U) ^ kDomain},
        tensor_(tensor),
        rank_(static_cast<uint32_t>(rank)),
        step_(static_cast<uint32_t>(step)) {}
  // Returns the bits of elements [4 * four, 4 * four + 4).
  std::array<uint32_t, 4> Four(int64_t four) const {
    return Philox({static_cast<uint32_t>(four), tensor_, step_, rank_}, key_);
  }

 private:
  static constexpr uint32_t kDomain = 0x434F4D50;  // apart from other uses of Philox with this seed
  std::array<uint32_t, 2> key_;
  uint32_t tensor_;
  uint32_t rank_;
  uint32_t step_;
};

}  // namespace moka
