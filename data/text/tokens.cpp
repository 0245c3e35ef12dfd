// Splits at blanks and marks in one pass over the bytes of a line; UTF-8 is checked as it goes.
#include "data/text/tokens.h"

#include "core/text.h"
#include "core/utf8.h"
#include "data/files/list_text.h"
#include "data/text/letters.h"

namespace moka {
namespace {

constexpr size_t kMostLineBytes = 1U << 20U;
constexpr size_t kBufferBytes = 1U << 16U;

Character CheckedCharacter(std::string_view text, size_t at) {
  const Character character = CharacterAt(text, at);
  if (character.bytes > 0) return character;
  constexpr size_t kShown = 20;
  const size_t begin = at < kShown ? 0 : at - kShown;
  throw Error(ErrorKind::kBadData, {},
              StrCat("byte ", at + 1, " of the line is not UTF-8: \"", Printable(text.substr(begin, 2 * kShown)), "\""),
              "convert the file, for example with `iconv -f latin1 -t utf8`");
}

enum class Marks { kWords, kJoinedWords, kLeftOut };

void SplitLower(std::string_view line, Marks marks, std::vector<std::string>& words) {
  words.clear();
  bool is_open = false;
  bool is_behind_blank = true;
  for (size_t at = 0; at < line.size();) {
    const Character c = CheckedCharacter(line, at);
    at += c.bytes;
    const bool is_mark = IsMark(c.code) && marks != Marks::kLeftOut;
    const bool is_word = !IsBlank(c.code) && !IsMark(c.code);
    if ((is_word && !is_open) || is_mark) {
      words.emplace_back(is_behind_blank || marks != Marks::kJoinedWords ? "" : "##");
    }
    if (is_word || is_mark) AppendCharacter(LowerCase(c.code), words.back());
    is_open = is_word;
    is_behind_blank = !is_word && !is_mark;
  }
}

}  // namespace

bool TextLines::Fill() {
  if (!file_) return false;
  buffer_.resize(kBufferBytes);
  buffer_.resize(static_cast<size_t>(file_->Read(buffer_.data(), static_cast<int64_t>(kBufferBytes))));
  at_ = 0;
  return !buffer_.empty();
}

bool TextLines::Next() {
  line_.clear();
  if (at_ == buffer_.size() && !Fill()) return false;
  if (number_ == 0) RefuseWideText(buffer_, path().string());
  ++number_;
  for (;;) {
    const size_t end = std::min(buffer_.find('\n', at_), buffer_.size());
    line_.append(buffer_, at_, end - at_);
    if (line_.size() > kMostLineBytes) {
      throw Error(ErrorKind::kBadData, place(), StrCat("the line is longer than ", kMostLineBytes, " bytes"));
    }
    at_ = end;
    if (at_ < buffer_.size()) {
      ++at_;
      break;
    }
    if (!Fill()) break;
  }
  if (line_.ends_with('\r')) line_.pop_back();
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (number_ == 1 && line_.starts_with(kByteOrderMark)) line_.erase(0, kByteOrderMark.size());
  return true;
}

void SplitWords(std::string_view line, TextTokens tokens, std::vector<std::string>& words) {
  if (tokens == WORDS) return SplitLower(line, Marks::kWords, words);
  if (tokens == PIECES) return SplitLower(line, Marks::kJoinedWords, words);
  words.clear();
  bool is_open = false;
  for (size_t at = 0; at < line.size();) {
    const Character c = CheckedCharacter(line, at);
    const bool is_word = !IsBlank(c.code);
    if (is_word && !is_open) words.emplace_back();
    if (is_word) words.back().append(line, at, c.bytes);
    is_open = is_word;
    at += c.bytes;
  }
}

void SplitPlainWords(std::string_view line, std::vector<std::string>& words) {
  SplitLower(line, Marks::kLeftOut, words);
}

std::string LowerCased(std::string_view text) {
  std::string lower;
  for (size_t at = 0; at < text.size();) {
    const Character c = CheckedCharacter(text, at);
    AppendCharacter(LowerCase(c.code), lower);
    at += c.bytes;
  }
  return lower;
}

}  // namespace moka
