// Lines of text files and the words they are split into.
#pragma once

#include <string>
#include <string_view>
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
  explicit TextLines(const std::filesystem::path& path) : file_(path) {}
  // Steps to the next line; false at the end. Errors: kBadData for damaged compression and lines above 1 MiB.
  bool Next();
  // These tell of the present line; the text is good until the next step. Requires: Next() returned true.
  const std::string& line() const { return line_; }
  int number() const { return number_; }  // from 1
  SourcePlace place() const { return {.file = file_.path().string(), .line = number_}; }
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  bool Fill();

  PackedFile file_;
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
