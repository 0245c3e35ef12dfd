// Any bytes as an image file, strict and lenient, kept, colour and grey, within a small pixel limit.
#include "data/image.h"
#include "tests/fuzz/one_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return moka::RunOneInput(data, size, [](std::string_view file) {
    static moka::ImageDecoder decoder;
    static moka::Image image;
    constexpr moka::ImageChannels kChannels[] = {moka::ImageChannels::kAsStored, moka::ImageChannels::kColor,
                                                 moka::ImageChannels::kGrey};
    moka::DecodeOptions options{.channels = kChannels[file.size() % 3], .pixel_limit = 1 << 16};
    if (file.size() % 2 == 1) options.damage = moka::DecodeOptions::Damage::kLenient;
    decoder.Decode(file, options, image);
    if (image.pixels.size() != static_cast<size_t>(image.width * image.height * image.channels)) std::abort();
  });
}
