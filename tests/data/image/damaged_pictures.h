// Pictures with bytes that are wrong: they are decoded or refused, and nothing else happens.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/rng.h"
#include "data/image/image.h"

namespace moka {

// `rounds` times one of the files in turn, three of its bytes drawn; every fifth is cut as well if `cuts`. Some of them
// must still be pictures, with all their pixels.
inline void ExpectDamagedAreDecodedOrRefused(const std::vector<std::string>& files, int rounds, bool cuts,
                                             RandomStream random) {
  ImageDecoder decoder;
  Image image;
  int good = 0;
  for (int i = 0; i < rounds; ++i) {
    std::string file = files[static_cast<size_t>(i) % files.size()];
    for (int k = 0; k < 3; ++k) file[random.Below(file.size())] = static_cast<char>(random.Bits());
    if (cuts && i % 5 == 0) file.resize(random.Below(file.size()));
    const auto damage = i % 2 == 0 ? DecodeOptions::Damage::kStrict : DecodeOptions::Damage::kLenient;
    try {
      decoder.Decode(file, {.damage = damage, .pixel_limit = 1 << 16}, image);
      EXPECT_EQ(static_cast<int64_t>(image.pixels.size()), image.width * image.height * image.channels);
      ++good;
    } catch (const Error&) {
    }
  }
  EXPECT_GT(good, 0);
}

}  // namespace moka
