// Lines of text files and the words they are split into.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "data/files/packed_file.h"
#include "proto/moka.pb.h"

namespace moka {

inline bool IsDigit(char c) { return c >= '0' && c <= '9'; }  // ASCII

// Lines of a file, plain or gzip, without their ends ("\n", "\r\n") and without a byte order mark. One thread.
class TextLines {
 public:
  // Errors: as PackedFile.
  explicit TextLines(const std::filesystem::path& path) : path_(path), file_(path) {}
  // Lines of a text that is no file; errors call it `name`.
  TextLines(std::string text, const std::string& name) : path_(name), buffer_(std::move(text)) {}
  // Steps to the next line; false at the end. Errors: kBadData for damaged compression and lines above 1 MiB.
  bool Next();
  // These tell of the present line; the text is good until the next step. Requires: Next() returned true.
  const std::string& line() const { return line_; }
  int number() const { return number_; }  // from 1
  SourcePlace place() const { return {.file = path_.string(), .line = number_}; }
  const std::filesystem::path& path() const { return path_; }

 private:
  bool Fill();

  std::filesystem::path path_;
  std::optional<PackedFile> file_;
  std::string buffer_;
  size_t at_ = 0;  // in the buffer
  std::string line_;
  int number_ = 0;
};

// The words of a line, in place of what `words` held. BLANKS: what stands between blanks, as it is. WORDS: lower-cased,
// and each mark is a word of its own, apostrophes and hyphens inside words too (data/text/letters.h says what marks
// are). PIECES: these, where no blank stands before one with "##" before it; pieces are made of them
// (data/text/pieces.h). Errors: kBadData, without a place, for a byte that is no UTF-8.
void SplitWords(std::string_view line, TextTokens tokens, std::vector<std::string>& words);
// WORDS without the marks.
void SplitPlainWords(std::string_view line, std::vector<std::string>& words);

// Errors: as SplitWords.
std::string LowerCased(std::string_view text);

}  // namespace moka
