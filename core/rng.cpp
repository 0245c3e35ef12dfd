// Derived draws: 53 bits for a double, rejection for a bounded whole number (no bias), Box-Muller for normals (two
// uniforms each, no state kept between calls) and a Feistel network over the index for permutations of any length in
// constant memory.
#include "core/rng.h"

#include <bit>
#include <numbers>

#include "core/error.h"

namespace moka {

uint32_t RandomStream::Bits() {
  const uint64_t block = position_ / 4;
  if (block != block_index_) {
    block_ = Philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32U), static_cast<uint32_t>(stream_),
                     static_cast<uint32_t>(stream_ >> 32U)},
                    {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32U)});
    block_index_ = block;
  }
  return block_[position_++ % 4];
}

double RandomStream::Uniform() {
  const uint64_t high = Bits() >> 5U;
  const uint64_t low = Bits() >> 6U;
  return static_cast<double>((high << 26U) | low) * 0x1.0p-53;
}

uint64_t RandomStream::Below(uint64_t bound) {
  Require(bound > 0, "RandomStream::Below: bound is positive");
  const uint64_t limit = UINT64_MAX - UINT64_MAX % bound;  // a multiple of bound: rejecting above it removes the bias
  for (;;) {
    const uint64_t high = Bits();
    const uint64_t value = (high << 32U) | Bits();
    if (value < limit) return value % bound;
  }
}

double RandomStream::Normal(double mean, double stddev) {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - Uniform()));
  return mean + stddev * radius * std::cos(2.0 * std::numbers::pi * Uniform());
}

Permutation::Permutation(uint64_t count, uint64_t seed, uint64_t stream)
    : count_(count), seed_(seed), stream_(stream), half_bits_(0) {
  Require(count >= 1, "Permutation: count is positive");
  const auto bits = static_cast<int>(std::bit_width(count - 1));
  half_bits_ = (bits + 1) / 2;
}

uint64_t Permutation::operator()(uint64_t i) const {
  Require(i < count_, "Permutation: index below count");
  if (count_ == 1) return 0;
  constexpr uint32_t kRounds = 4;
  const uint64_t mask = (uint64_t{1} << static_cast<unsigned>(half_bits_)) - 1;
  do {
    uint64_t left = i >> static_cast<unsigned>(half_bits_);
    uint64_t right = i & mask;
    for (uint32_t round = 0; round < kRounds; ++round) {
      const auto words =
          Philox({static_cast<uint32_t>(right), static_cast<uint32_t>(right >> 32U), static_cast<uint32_t>(stream_),
                  static_cast<uint32_t>(stream_ >> 32U) ^ (round << 30U)},
                 {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32U)});
      const uint64_t mixed = words[0];
      const uint64_t next = (left ^ mixed) & mask;
      left = right;
      right = next;
    }
    i = (left << static_cast<unsigned>(half_bits_)) | right;
  } while (i >= count_);
  return i;
}

}  // namespace moka
