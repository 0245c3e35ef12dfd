// Any bytes as an image file, strict and lenient, kept, colour and grey, within a small pixel limit: whole, and a
// window of it, whose place the bytes choose.
#include <array>

#include "data/image/image.h"
#include "tests/fuzz/fuzz_target.h"

namespace moka {
namespace {

int64_t Chosen(uint64_t& bits, int64_t below) {
  bits = bits * 6364136223846793005U + 1442695040888963407U;
  return static_cast<int64_t>((bits >> 33U) % static_cast<uint64_t>(below));
}

void DecodeSomeWindow(ImageDecoder& decoder, std::string_view file, const DecodeOptions& options) {
  const ImageSize size = decoder.Open(file, options);
  uint64_t bits = file.size();
  for (const char c : file) bits = bits * 31 + static_cast<uint8_t>(c);
  ImageWindow window{.x = Chosen(bits, size.width), .y = Chosen(bits, size.height)};
  window.width = 1 + Chosen(bits, size.width - window.x);
  window.height = 1 + Chosen(bits, size.height - window.y);
  const ImageDecoder::Part part = decoder.DecodeWindow(window, 1 + Chosen(bits, 40), 1 + Chosen(bits, 40));
  constexpr double kSlack = 1e-6;
  const bool fits = part.box.x >= 0 && part.box.y >= 0 &&
                    part.box.x + part.box.width <= static_cast<double>(part.image->width) + kSlack &&
                    part.box.y + part.box.height <= static_cast<double>(part.image->height) + kSlack;
  if (!fits || part.image->channels != size.channels) std::abort();
}

}  // namespace

FuzzTarget ImageDecodeFuzz() {
  return {"image_decode", [](std::string_view file) {
            static ImageDecoder decoder;
            static Image image;
            constexpr std::array<ImageChannels, 3> kChannels = {ImageChannels::kAsStored, ImageChannels::kColor,
                                                                ImageChannels::kGray};
            DecodeOptions options{.channels = kChannels[file.size() % 3], .pixel_limit = 1 << 16};
            if (file.size() % 2 == 1) options.damage = DecodeOptions::Damage::kLenient;
            if (file.size() / 2 % 2 == 1) return DecodeSomeWindow(decoder, file, options);
            decoder.Decode(file, options, image);
            if (image.pixels.size() != static_cast<size_t>(image.width * image.height * image.channels)) std::abort();
          }};
}

}  // namespace moka
