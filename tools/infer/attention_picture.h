// Attention as people look at it: which source words each target word saw.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace moka {

struct AttentionGrid {
  std::vector<std::string> sources;
  std::vector<std::string> targets;
  std::vector<std::vector<float>> seen;  // of each target word, a part (0..1) of each source word
};

// A line a target word: the word, and the source words that it saw at least a tenth of, the most first.
std::string AttentionText(const AttentionGrid& grid);

// A PNG: grids one below another, target words down, source words across, dark where much was seen. Letters of Latin
// alphabets lose their accents; other letters that are no ASCII are shown as "?". Errors: those of writing a file;
// kUsage where the grids make a picture of more than 32,768 rows.
void WriteAttentionPicture(const std::vector<AttentionGrid>& grids, const std::filesystem::path& file);

}  // namespace moka
