// A whole number must become itself as a float; a double may round, which is said once, but not to infinity.
#include "proto/weights/wide_numbers.h"

#include <fmt/format.h>

#include <atomic>
#include <concepts>

#include "core/error.h"
#include "core/exact_float.h"
#include "core/log.h"
#include "core/text.h"

namespace moka {
namespace {

template <std::integral T>
void CopyWhole(std::span<const T> from, std::string_view what, int64_t first, std::span<float> to) {
  Require(from.size() == to.size(), "CopyWide: a place for each number");
  for (size_t i = 0; i < from.size(); ++i) {
    to[i] = static_cast<float>(from[i]);
    if (IsExactFloat(from[i])) continue;
    throw Error(ErrorKind::kBadData, {},
                fmt::format("{}: value {} is {}, which would become {:.0f}", what, first + static_cast<int64_t>(i),
                            from[i], to[i]),
                "a net's numbers are floats, which hold every whole number up to 2^24 = 16777216; number from 0 on");
  }
}

}  // namespace

void CopyWide(std::span<const int64_t> from, std::string_view what, int64_t first, std::span<float> to) {
  CopyWhole(from, what, first, to);
}

void CopyWide(std::span<const uint64_t> from, std::string_view what, int64_t first, std::span<float> to) {
  CopyWhole(from, what, first, to);
}

void CopyWide(std::span<const double> from, std::string_view what, int64_t first, std::span<float> to) {
  Require(from.size() == to.size(), "CopyWide: a place for each number");
  static std::atomic<bool> has_told = false;
  for (size_t i = 0; i < from.size(); ++i) {
    const int64_t place = first + static_cast<int64_t>(i);
    if (IsBeyondFloat(from[i])) {
      throw Error(ErrorKind::kBadData, fmt::format("{}: value {} is {}, larger than any float", what, place, from[i]));
    }
    to[i] = static_cast<float>(from[i]);
    if (has_told || IsExactFloat(from[i]) || has_told.exchange(true)) continue;
    LogWarning(fmt::format("{}: numbers of 64 bits are rounded to floats (value {}, {}, becomes {}; this is said once)",
                           what, place, from[i], to[i]));
  }
}

}  // namespace moka
