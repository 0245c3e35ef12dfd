// Numbers of data that are NaN or infinite, looked for at the speed at which memory is read.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>

namespace moka {

// Where the first value stands that is not finite.
inline std::optional<int64_t> PlaceOfNonFinite(std::span<const float> values) {
  constexpr uint32_t kExponent = 0x7F800000U;
  constexpr size_t kBlock = 1024;  // without a branch inside, so that a compiler takes many at once
  const auto is_wrong = [](float value) { return (std::bit_cast<uint32_t>(value) & kExponent) == kExponent; };
  for (size_t first = 0; first < values.size(); first += kBlock) {
    const std::span<const float> block = values.subspan(first, std::min(kBlock, values.size() - first));
    uint32_t wrong = 0;
    for (const float value : block) wrong |= static_cast<uint32_t>(is_wrong(value));
    if (wrong == 0) continue;
    return static_cast<int64_t>(first) + (std::ranges::find_if(block, is_wrong) - block.begin());
  }
  return {};
}

}  // namespace moka
