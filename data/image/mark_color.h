// A colour of marks on pictures.
#pragma once

#include <cstdint>

namespace moka {

struct Color {
  uint8_t blue = 0;
  uint8_t green = 0;
  uint8_t red = 0;
};

}  // namespace moka
