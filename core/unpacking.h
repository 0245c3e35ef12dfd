// How much more than it was packed what comes out of a file may be: a small file could fill memory otherwise.
#pragma once

#include <cstdint>
#include <string_view>

namespace moka {

// The hint for archives, which may be unpacked before they are given.
inline constexpr std::string_view kUnpackByHand = "unpack it yourself if that is meant";

// Refuses what unpacks to more than 100 times its bytes: images, texts, weights and blobs shrink so far nowhere,
// where deflate can pack to a thousandth. Up to 64 MiB may have been packed by any factor. Errors: kBadData, "WHAT: ...
// unpack to ...", with the hint.
void CheckUnpackedBytes(std::string_view what, int64_t packed, int64_t unpacked, std::string_view hint = {});

}  // namespace moka
