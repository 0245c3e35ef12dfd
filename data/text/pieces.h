// Pieces of words, so that a small vocabulary spells every word: learned by byte pair encoding (Sennrich, Haddow and
// Birch, "Neural machine translation of rare words with subword units", 2016, arXiv 1508.07909) over letters, and taken
// longest first from the vocabulary alone (Wu et al., "Google's neural machine translation system", 2016, arXiv
// 1609.08144, and Schuster and Nakajima 2012).
//
// A piece that no blank stands before, inside a word or at a mark, begins with "##": "t-shirts." is, say,
// t ##- ##sh ##irt ##s ##. and whoever joins pieces gets the line back, in lower case and with single blanks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moka {

inline constexpr std::string_view kJoined = "##";

// kJoined where the piece begins with it, and goes on.
std::string_view PrefixOf(std::string_view piece);

// Parts of words (data/text/tokens.h) and how often each comes.
struct CountedPart {
  std::string text;
  int64_t count = 0;
};

// At most `most` pieces: all letters that come at least `min_count` times, with and without "##", then what the most
// frequent pairs of neighbours make, one after another, while a pair comes twice. The order is that of finding. Errors:
// kBadData where the letters alone are more than `most`.
std::vector<std::string> LearnPieces(const std::vector<CountedPart>& parts, int64_t most, int64_t min_count);

}  // namespace moka
