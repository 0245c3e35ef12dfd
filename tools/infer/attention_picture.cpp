// Weights become greys of a table, with source words above it and target words at its side, drawn by
// data/image/drawing.h.
#include "tools/infer/attention_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/image/drawing.h"
#include "data/image/image.h"

namespace moka {
namespace {

constexpr int64_t kSquare = 22;  // pixels of a target and source word's square
constexpr int64_t kMargin = 8;
constexpr int64_t kMostRows = 32768;
const WordStyle kGridWords{.scale = 0.45, .color = {0, 0, 0}};

int64_t WidthOf(const std::vector<std::string>& words) {
  int64_t most = 0;
  for (const std::string& word : words) most = std::max(most, SizeOfWords(word, kGridWords).width);
  return most;
}

// Words that stand upright, one beside another: drawn on paper of their own and turned.
void DrawUpright(const std::string& words, int64_t x, int64_t bottom, Image& image) {
  const WordSize size = SizeOfWords(words, kGridWords);
  Image line = Paper(size.width + 2, kSquare);
  DrawWords(words, 1, (kSquare - size.height) / 2, kGridWords, line);
  Image turned = Paper(line.height, line.width);
  for (int64_t row = 0; row < turned.height; ++row) {
    for (int64_t column = 0; column < turned.width; ++column) {
      for (int64_t c = 0; c < 3; ++c) {
        const int64_t from = (column * line.width + (line.width - 1 - row)) * 3 + c;
        turned.pixels[static_cast<size_t>((row * turned.width + column) * 3 + c)] =
            line.pixels[static_cast<size_t>(from)];
      }
    }
  }
  Paste(turned, x, bottom - turned.height, image);
}

Image PictureOf(const AttentionGrid& grid) {
  const int64_t left = WidthOf(grid.targets) + 2 * kMargin;
  const int64_t top = WidthOf(grid.sources) + 2 * kMargin;
  const auto columns = static_cast<int64_t>(grid.sources.size());
  const auto rows = static_cast<int64_t>(grid.targets.size());
  Image image = Paper(left + columns * kSquare + kMargin, top + rows * kSquare + kMargin);
  for (int64_t column = 0; column < columns; ++column) {
    DrawUpright(grid.sources[static_cast<size_t>(column)], left + column * kSquare, top - 4, image);
  }
  for (int64_t row = 0; row < rows; ++row) {
    const std::string& word = grid.targets[static_cast<size_t>(row)];
    const WordSize size = SizeOfWords(word, kGridWords);
    DrawWords(word, left - kMargin - size.width, top + row * kSquare + (kSquare - size.height) / 2, kGridWords, image);
    for (int64_t column = 0; column < columns; ++column) {
      const float seen = grid.seen[static_cast<size_t>(row)][static_cast<size_t>(column)];
      Image square = Paper(kSquare - 1, kSquare - 1);
      std::ranges::fill(square.pixels, static_cast<uint8_t>(std::lround(255 * (1 - std::clamp(seen, 0.0F, 1.0F)))));
      Paste(square, left + column * kSquare, top + row * kSquare, image);
    }
  }
  return image;
}

}  // namespace

std::string AttentionText(const AttentionGrid& grid) {
  constexpr float kShown = 0.1F;
  size_t width = 0;
  for (const std::string& word : grid.targets) width = std::max(width, word.size());
  std::string text;
  for (size_t row = 0; row < grid.targets.size(); ++row) {
    const std::vector<float>& seen = grid.seen[row];
    std::vector<size_t> order(seen.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, std::greater<>(), [&](size_t i) { return seen[i]; });
    std::vector<std::string> words;
    for (const size_t i : order) {
      if (seen[i] >= kShown) words.push_back(fmt::format("{} {:.0f} %", grid.sources[i], 100 * seen[i]));
    }
    text += fmt::format("  {:<{}}  {}\n", grid.targets[row], width, Join(words, ", "));
  }
  return text;
}

void WriteAttentionPicture(const std::vector<AttentionGrid>& grids, const std::filesystem::path& file) {
  std::vector<Image> images;
  int64_t width = 1;
  int64_t height = 1;
  for (const AttentionGrid& grid : grids) {
    if (grid.targets.empty()) continue;
    images.push_back(PictureOf(grid));
    width = std::max(width, images.back().width);
    height += images.back().height;
    if (height <= kMostRows) continue;
    throw Error(ErrorKind::kUsage,
                StrCat("the attention of ", grids.size(), " lines makes a picture of more than ", kMostRows,
                       " rows; draw fewer lines, or leave out the file and read it as text"));
  }
  Image all = Paper(width, height);
  int64_t y = 0;
  for (const Image& image : images) {
    Paste(image, 0, y, all);
    y += image.height;
  }
  PlaceFile(file, EncodePng(all));
}

}  // namespace moka
