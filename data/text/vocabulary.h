// Vocabularies: text files of a word a line, whose number is the line's, from 0. The first four are marks.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "proto/moka.pb.h"

namespace moka {

inline constexpr int32_t kNoWord = 0;  // where there is none
inline constexpr int32_t kBeginWord = 1;
inline constexpr int32_t kEndWord = 2;
inline constexpr int32_t kUnknownWord = 3;
inline constexpr std::array<std::string_view, 4> kMarkWords = {"<pad>", "<s>", "</s>", "<unk>"};

// Lets a map of strings be searched without making one.
struct WordHash {
  using is_transparent = void;
  size_t operator()(std::string_view word) const { return std::hash<std::string_view>()(word); }
};
template <class Value>
using WordMap = std::unordered_map<std::string, Value, WordHash, std::equal_to<>>;

class Vocabulary {
 public:
  // Errors: kNoInput; kBadData at the line: other marks than those above, a word that stands there twice (both lines
  // named), a line that is not one word, bytes that are no UTF-8, more than 2^24 words (their numbers are floats).
  explicit Vocabulary(const std::filesystem::path& path);
  // kUnknownWord for words that it lacks and for those that are spelt like a mark.
  int32_t NumberOf(std::string_view word) const;
  // Marks as they are written. Requires: 0 <= number < size().
  const std::string& WordOf(int32_t number) const { return words_[static_cast<size_t>(number)]; }
  const std::vector<std::string>& words() const { return words_; }
  int64_t size() const { return static_cast<int64_t>(words_.size()); }
  // Bytes of its longest word.
  size_t longest() const { return longest_; }

 private:
  WordMap<int32_t> numbers_;  // without the marks
  std::vector<std::string> words_;
  size_t longest_ = 0;
};

// Appends the numbers of a part's pieces: at each place the longest piece that the vocabulary has, or kUnknownWord for
// a character that no piece begins with.
void AppendPieces(std::string_view part, const Vocabulary& vocabulary, std::vector<int32_t>& numbers);

// The numbers of a line's words, in place of what `numbers` held. Errors: as SplitWords.
void NumberWords(std::string_view line, TextTokens tokens, const Vocabulary& vocabulary, std::vector<int32_t>& numbers);
// How many words of a text a vocabulary has.
struct KnownWords {
  void Count(std::span<const int32_t> numbers);
  // Warns where more than a tenth are not in it: it is likely another text's.
  void Warn(const std::filesystem::path& text, const std::filesystem::path& vocabulary) const;

  int64_t words = 0;
  int64_t unknown = 0;
};
// The line that words of these numbers make; <pad>, <s> and </s> are left out. PIECES: as it was, in lower case.
// BLANKS: words between blanks. WORDS: so, but none before closing punctuation, behind opening one and around ' and -
// inside of words.
std::string JoinWords(std::span<const int32_t> numbers, TextTokens tokens, const Vocabulary& vocabulary);

struct VocabularyOptions {
  TextTokens tokens = WORDS;
  bool are_stories = false;  // bAbI's form: words of sentences and questions, and whole answers
  int64_t min_count = 1;     // rarer words are left out
  int64_t most = 0;          // words kept, besides the marks; 0: all
  int64_t pieces = 0;        // PIECES: numbers of the vocabulary, marks among them, at most; min_count is of letters
};
struct VocabularyReport {
  int64_t lines = 0;
  int64_t tokens = 0;  // words of the text
  int64_t types = 0;   // different ones
  int64_t kept = 0;    // of these in the vocabulary
  int64_t known = 0;   // words of the text that are in the vocabulary
};
// Counts the words of text files (.gz too) and writes the marks and then the words by falling count, then by bytes.
// Errors: those of the files, at the line; kBadData when they have no word; kCantCreate where `out` is another file
// than an older vocabulary; those of writing.
VocabularyReport MakeVocabulary(const std::vector<std::filesystem::path>& files, const std::filesystem::path& out,
                                const VocabularyOptions& options);

}  // namespace moka
