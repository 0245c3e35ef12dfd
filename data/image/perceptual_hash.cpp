// The picture is averaged to 72 x 64 pixels once: 9 x 8 cells of 8 x 8 of these make the bits, 8 x 8 cells of 9 x 8 the
// averages.
#include "data/image/perceptual_hash.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>

namespace moka {
namespace {

constexpr int64_t kWidth = 72;
constexpr int64_t kHeight = 64;

// Luma with OpenCV's weights in parts of 256.
int GrayAt(const Image& image, int64_t y, int64_t x) {
  const auto* pixel = image.pixels.data() + (y * image.width + x) * image.channels;
  if (image.channels == 1) return pixel[0];
  constexpr int kBlue = 29;
  constexpr int kGreen = 150;
  constexpr int kRed = 77;
  constexpr int kSum = 256;
  return (kBlue * pixel[0] + kGreen * pixel[1] + kRed * pixel[2]) / kSum;
}

// Returns the sum of the grey values of one cell of so many columns and rows.
int CellSum(const Image& image, int64_t row, int64_t column, int64_t height, int64_t width) {
  int sum = 0;
  for (int64_t y = row * height; y < (row + 1) * height; ++y) {
    for (int64_t x = column * width; x < (column + 1) * width; ++x) sum += GrayAt(image, y, x);
  }
  return sum;
}

std::array<uint8_t, 3> MeanColor(const Image& image) {
  std::array<int64_t, 3> sums = {};
  const int64_t count = image.width * image.height;
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t c = 0; c < 3; ++c) {
      const int64_t at = i * image.channels + (image.channels == 1 ? 0 : c);
      sums.at(static_cast<size_t>(c)) += image.pixels[static_cast<size_t>(at)];
    }
  }
  std::array<uint8_t, 3> mean = {};
  for (size_t c = 0; c < mean.size(); ++c) mean.at(c) = static_cast<uint8_t>(sums.at(c) / count);
  return mean;
}

int MeanOf(const PerceptualHash& hash) {
  int sum = 0;
  for (const uint8_t cell : hash.cells) sum += cell;
  return sum / static_cast<int>(hash.cells.size());
}

// How far the cells lie from the shade that half of them do not exceed: a drawing's ground counts nothing.
int ContrastOf(const PerceptualHash& hash) {
  std::array<uint8_t, 64> cells = hash.cells;
  std::ranges::nth_element(cells, cells.begin() + cells.size() / 2);
  const int ground = cells.at(cells.size() / 2);
  int contrast = 0;
  for (const uint8_t cell : cells) contrast += std::abs(cell - ground);
  return contrast;
}

}  // namespace

PerceptualHash PerceptualHashOf(const Image& image) {
  constexpr int64_t kCells = 8;
  constexpr int kLeastRange = 4;  // grey levels
  Image small;
  ResizeImage(image, kWidth, kHeight, Interpolation::kArea, small);
  PerceptualHash hash;
  for (int64_t row = 0; row < kCells; ++row) {
    int left = CellSum(small, row, 0, kHeight / kCells, kWidth / (kCells + 1));
    for (int64_t column = 0; column < kCells; ++column) {
      const int right = CellSum(small, row, column + 1, kHeight / kCells, kWidth / (kCells + 1));
      // Cells of one shade differ by rounding: a bit is of more than a level and a half.
      constexpr int kNoise = static_cast<int>(kHeight / kCells * (kWidth / (kCells + 1))) * 3 / 2;
      hash.bits = hash.bits << 1U | (right - left > kNoise ? 1U : 0U);
      left = right;
      constexpr int kPixels = static_cast<int>(kHeight / kCells * (kWidth / kCells));
      hash.cells.at(static_cast<size_t>(row * kCells + column)) =
          static_cast<uint8_t>(CellSum(small, row, column, kHeight / kCells, kWidth / kCells) / kPixels);
    }
  }
  const auto [least, most] = std::ranges::minmax(hash.cells);
  hash.is_flat = most - least < kLeastRange;
  hash.mean_color = MeanColor(small);
  return hash;
}

bool AreNear(const PerceptualHash& a, const PerceptualHash& b) {
  constexpr int kBrightness = 24;  // grey levels that a whole picture may be brighter
  constexpr int kColor = 32;       // the same of one colour
  constexpr int kRounding = 32;    // half a level a cell
  constexpr int kParts = 12;       // of the contrast, that the cells may differ by
  constexpr int kCell = 24;        // grey levels that one cell may differ by: strokes that lie elsewhere make more
  if (a.is_flat || b.is_flat || HammingDistance(a.bits, b.bits) > kNearBits) return false;
  for (size_t c = 0; c < a.mean_color.size(); ++c) {
    if (std::abs(a.mean_color.at(c) - b.mean_color.at(c)) > kColor) return false;
  }
  const int mean_a = MeanOf(a);
  const int mean_b = MeanOf(b);
  if (std::abs(mean_a - mean_b) > kBrightness) return false;
  int difference = 0;
  for (size_t i = 0; i < a.cells.size(); ++i) {
    const int of_cell = std::abs((a.cells.at(i) - mean_a) - (b.cells.at(i) - mean_b));
    if (of_cell > kCell) return false;
    difference += of_cell;
  }
  return difference <= kRounding || difference <= kRounding + std::min(ContrastOf(a), ContrastOf(b)) / kParts;
}

}  // namespace moka
