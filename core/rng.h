// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
// A number is a pure function of (seed, stream, counter), so results depend on no thread order and need no saved state.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace moka {

// Ten rounds over a 128-bit counter with a 64-bit key.
constexpr std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53U} * counter[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32U) ^ counter[1] ^ key[0], static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32U) ^ counter[3] ^ key[1], static_cast<uint32_t>(p0)};
    key = {key[0] + 0x9E3779B9U, key[1] + 0xBB67AE85U};
  }
  return counter;
}

// A uniform float in [0, 1) from 32 random bits (24 of them used, so 1 is never reached).
constexpr float UnitFloat(uint32_t bits) { return static_cast<float>(bits >> 8U) * 0x1.0p-24F; }

// The i-th 32-bit word of a stream. One Philox block makes four words.
constexpr uint32_t RandomWord(uint64_t seed, uint64_t stream, uint64_t i) {
  const uint64_t block = i / 4;
  const auto words = Philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32U),
                             static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32U)},
                            {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32U)});
  return words[i % 4];
}

// A sequential reader of one stream; its whole state is (seed, stream, position).
class RandomStream {
 public:
  constexpr RandomStream(uint64_t seed, uint64_t stream, uint64_t position = 0)
      : seed_(seed), stream_(stream), position_(position) {}

  uint32_t Bits();
  // [0, 1) with 53 random bits.
  double Uniform();
  double Uniform(double low, double high) { return low + (high - low) * Uniform(); }
  // Unbiased in [0, bound). Requires: bound > 0.
  uint64_t Below(uint64_t bound);
  // Normal by Box-Muller; uses two uniforms a call.
  double Normal(double mean, double stddev);
  uint64_t position() const { return position_; }

 private:
  uint64_t seed_;
  uint64_t stream_;
  uint64_t position_;
  std::array<uint32_t, 4> block_{};
  uint64_t block_index_ = UINT64_MAX;
};

// A bijection of [0, count) that is a pure function of (key, count): the order of an epoch without a stored
// permutation. A four-round Feistel network over the next even power of two, walked until it lands inside ("cycle
// walking").
class Permutation {
 public:
  // Requires: count >= 1.
  Permutation(uint64_t count, uint64_t seed, uint64_t stream);
  // Requires: i < count.
  uint64_t operator()(uint64_t i) const;

 private:
  uint64_t count_;
  uint64_t seed_;
  uint64_t stream_;
  int half_bits_;
};

}  // namespace moka
