// Sets of made-up pictures in the layouts that moka new takes: a class is a colour, an object a square of it.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/file.h"
#include "core/rng.h"
#include "core/text.h"
#include "data/image/image.h"

namespace moka {

struct MadeSquare {
  int64_t x = 0;
  int64_t y = 0;
  int64_t side = 0;
};

// A picture of noise with a square of class 0 (blue), 1 (green) or 2 (red), a function of the seed.
inline Image MadePicture(uint64_t seed, int kind, int64_t width, int64_t height, MadeSquare* square) {
  RandomStream random(seed, StableHash("made picture"));
  Image image;
  image.Resize(width, height, 3);
  for (uint8_t& value : image.pixels) value = static_cast<uint8_t>(random.Uniform(60, 120));
  const auto side =
      static_cast<int64_t>(random.Uniform(static_cast<double>(height) / 3, static_cast<double>(height) / 2));
  square->side = side;
  square->x = static_cast<int64_t>(random.Uniform(0, static_cast<double>(width - side)));
  square->y = static_cast<int64_t>(random.Uniform(0, static_cast<double>(height - side)));
  for (int64_t y = square->y; y < square->y + side; ++y) {
    for (int64_t x = square->x; x < square->x + side; ++x) {
      image.pixels[static_cast<size_t>((y * width + x) * 3 + kind)] = 230;
    }
  }
  return image;
}

inline constexpr std::array<const char*, 3> kMadeClasses = {"blue", "green", "red"};

// FOLDER/CLASS/I.png, numbers from `first` on.
inline void MakeClassFolders(const std::filesystem::path& folder, int classes, int pictures, int first = 0,
                             int64_t width = 96, int64_t height = 80) {
  for (int kind = 0; kind < classes; ++kind) {
    const std::filesystem::path own = folder / kMadeClasses.at(static_cast<size_t>(kind));
    std::filesystem::create_directories(own);
    for (int i = first; i < first + pictures; ++i) {
      MadeSquare square;
      const Image image = MadePicture(static_cast<uint64_t>(1000 * kind + i), kind, width, height, &square);
      PlaceFile(own / StrCat(i, ".png"), EncodePng(image));
    }
  }
}

// FOLDER/images/I.png with FOLDER/labels/I.txt (YOLO's), FOLDER/masks/I.png (0 and 255) and FOLDER/classes.txt.
inline void MakeObjects(const std::filesystem::path& folder, int pictures) {
  for (const char* part : {"images", "labels", "masks"}) std::filesystem::create_directories(folder / part);
  PlaceFile(folder / "classes.txt", "blue\ngreen\nred\n");
  constexpr int64_t kWidth = 96;
  constexpr int64_t kHeight = 64;
  for (int i = 0; i < pictures; ++i) {
    MadeSquare square;
    const Image image = MadePicture(static_cast<uint64_t>(i), i % 3, kWidth, kHeight, &square);
    const auto part = [](double value, int64_t all) { return ToText(value / static_cast<double>(all)); };
    const double half = static_cast<double>(square.side) / 2;
    PlaceFile(folder / "images" / StrCat(i, ".png"), EncodePng(image));
    PlaceFile(
        folder / "labels" / StrCat(i, ".txt"),
        StrCat(i % 3, " ", part(static_cast<double>(square.x) + half, kWidth), " ",
               part(static_cast<double>(square.y) + half, kHeight), " ", part(static_cast<double>(square.side), kWidth),
               " ", part(static_cast<double>(square.side), kHeight), "\n"));
    Image mask;
    mask.Resize(kWidth, kHeight, 1);
    for (int64_t y = square.y; y < square.y + square.side; ++y) {
      for (int64_t x = square.x; x < square.x + square.side; ++x)
        mask.pixels[static_cast<size_t>(y * kWidth + x)] = 255;
    }
    PlaceFile(folder / "masks" / StrCat(i, ".png"), EncodePng(mask));
  }
}

}  // namespace moka
