// Numbers of files, of up to 64 bits, as a net's floats. A whole number that would become another one is refused: it is
// a class, a word or an identity. A real number is rounded as any is, which is told once; one beyond all floats is
// refused.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace moka {

// `what` names the numbers' place in messages: "data.h5: dataset \"label\""; `first` is the number of from[0] in it.
// Requires: to.size() == from.size(). Errors: kBadData.
void CopyWide(std::span<const int64_t> from, std::string_view what, int64_t first, std::span<float> to);
void CopyWide(std::span<const uint64_t> from, std::string_view what, int64_t first, std::span<float> to);
void CopyWide(std::span<const double> from, std::string_view what, int64_t first, std::span<float> to);

}  // namespace moka
