// Words are counted in a hash table and written by falling count, then by bytes, so that a text makes one file
// everywhere.
#include "data/text/vocabulary.h"

#include <algorithm>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/text.h"
#include "core/utf8.h"
#include "data/text/pieces.h"
#include "data/text/stories.h"
#include "data/text/tokens.h"

namespace moka {
namespace {

constexpr int64_t kMostWords = 1 << 24;

bool IsMarkWord(std::string_view word) { return std::ranges::find(kMarkWords, word) != kMarkWords.end(); }

// Marks that no blank stands before, that none stands behind, and that stand inside of words.
constexpr std::array<std::string_view, 13> kClosing = {".", ",", ";", ":", "!", "?", ")", "]", "}", "%", "…", "»", "”"};
constexpr std::array<std::string_view, 8> kOpening = {"(", "[", "{", "«", "“", "„", "¿", "¡"};
constexpr std::array<std::string_view, 3> kInside = {"'", "’", "-"};

bool IsAmong(std::span<const std::string_view> marks, std::string_view word) {
  return std::ranges::find(marks, word) != marks.end();
}

bool HasBlankBetween(std::string_view before, std::string_view word) {
  return !IsAmong(kClosing, word) && !IsAmong(kOpening, before) && !IsAmong(kInside, word) && !IsAmong(kInside, before);
}

class WordCounts {
 public:
  void Add(const std::string& word) {
    ++tokens_;
    ++counts_[word];
  }
  int64_t tokens() const { return tokens_; }
  // Words that are spelt like a mark keep the mark's number and are not listed.
  std::vector<std::pair<std::string_view, int64_t>> Ranked() const {
    std::vector<std::pair<std::string_view, int64_t>> words;
    for (const auto& [word, count] : counts_) {
      if (!IsMarkWord(word)) words.emplace_back(word, count);
    }
    std::ranges::sort(words, [](const auto& a, const auto& b) {
      return a.second != b.second ? a.second > b.second : a.first < b.first;
    });
    return words;
  }

 private:
  WordMap<int64_t> counts_;
  int64_t tokens_ = 0;
};

void CountLines(const std::filesystem::path& file, TextTokens tokens, WordCounts& counts, int64_t& count) {
  TextLines lines(file);
  for (std::vector<std::string> words; lines.Next(); ++count) {
    try {
      SplitWords(lines.line(), tokens, words);
    } catch (Error& e) {
      e.SetPlace(lines.place());
      throw;
    }
    for (const std::string& word : words) counts.Add(word);
  }
}

void CountStories(const std::filesystem::path& file, WordCounts& counts, int64_t& count) {
  ReadStoryLines(file, [&](const StoryLine& line, int /*file_line*/) {
    for (const std::string& word : line.words) counts.Add(word);
    if (line.answer) counts.Add(*line.answer);
    ++count;
  });
}

void WriteVocabulary(const std::filesystem::path& out, const std::vector<std::string>& words) {
  std::string text;
  for (const std::string_view mark : kMarkWords) text += StrCat(mark, "\n");
  for (const std::string& word : words) text += StrCat(word, "\n");
  WriteFileAtomically(out, text);
}

// Pieces by how often the text has them once it is cut by all of them, then by bytes. The file is written twice: the
// first time to cut the text by it.
VocabularyReport MakePieces(const WordCounts& counts, const std::filesystem::path& out,
                            const VocabularyOptions& options, VocabularyReport report) {
  std::vector<CountedPart> parts;
  for (const auto& [part, count] : counts.Ranked()) parts.push_back({std::string(part), count});
  if (parts.empty()) throw Error(ErrorKind::kBadData, StrCat(out.string(), ": the texts have no words"));
  std::vector<std::string> pieces =
      LearnPieces(parts, options.pieces - static_cast<int64_t>(kMarkWords.size()), options.min_count);
  WriteVocabulary(out, pieces);
  const Vocabulary vocabulary(out);
  std::vector<int64_t> times(static_cast<size_t>(vocabulary.size()));
  std::vector<int32_t> numbers;
  for (const CountedPart& part : parts) {
    numbers.clear();
    AppendPieces(part.text, vocabulary, numbers);
    for (const int32_t number : numbers) times[static_cast<size_t>(number)] += part.count;
  }
  std::ranges::sort(pieces, [&](const std::string& a, const std::string& b) {
    const int64_t count_a = times[static_cast<size_t>(vocabulary.NumberOf(a))];
    const int64_t count_b = times[static_cast<size_t>(vocabulary.NumberOf(b))];
    return count_a != count_b ? count_a > count_b : a < b;
  });
  WriteVocabulary(out, pieces);
  for (const int64_t count : times) report.tokens += count;
  report.types = report.kept = static_cast<int64_t>(pieces.size());
  report.known = report.tokens - times[kUnknownWord];
  return report;
}

// The last file of the command is written: a text that stands there by mistake must not be lost.
void CheckWritable(const std::filesystem::path& out) {
  if (!std::filesystem::exists(out)) return;
  TextLines lines(out);
  if (!lines.Next() || lines.line() == kMarkWords[0]) return;
  throw Error(ErrorKind::kCantCreate, {}, StrCat(out.string(), " exists and is no vocabulary"),
              "the vocabulary to write comes last, after the texts");
}

}  // namespace

Vocabulary::Vocabulary(const std::filesystem::path& path) {
  TextLines lines(path);
  const auto fail = [&](const std::string& text, const std::string& hint = {}) {
    throw Error(ErrorKind::kBadData, lines.place(), text, hint);
  };
  std::vector<std::string> words;
  while (lines.Next()) {
    const auto number = static_cast<size_t>(lines.number()) - 1;
    if (number < kMarkWords.size()) {
      words_.emplace_back(kMarkWords.at(number));
      if (lines.line() != kMarkWords.at(number)) {
        fail(StrCat("expected \"", kMarkWords.at(number), "\", found \"", Printable(lines.line()), "\""),
             "a vocabulary begins with the marks <pad>, <s>, </s> and <unk>; `moka data vocabulary` makes one");
      }
      continue;
    }
    try {
      SplitWords(lines.line(), BLANKS, words);
    } catch (const Error& e) {
      fail(e.text(), e.hint());
    }
    if (words.size() != 1 || words[0] != lines.line() || IsMarkWord(words[0])) {
      fail(StrCat("expected a word, found \"", Printable(lines.line()), "\""));
    }
    longest_ = std::max(longest_, words[0].size());
    words_.push_back(words[0]);
    if (static_cast<int64_t>(number) >= kMostWords) fail(StrCat("more than ", kMostWords, " words"));
    const auto [before, is_new] = numbers_.emplace(words[0], static_cast<int32_t>(number));
    if (!is_new) fail(StrCat("\"", Printable(words[0]), "\" stands in line ", before->second + 1, " already"));
  }
  if (lines.number() < static_cast<int>(kMarkWords.size())) {
    throw Error(ErrorKind::kBadData, {},
                StrCat(path.string(), ": ", lines.number(), " lines; a vocabulary begins with the marks <pad>, <s>, ",
                       "</s> and <unk>"),
                "`moka data vocabulary` makes one");
  }
}

int32_t Vocabulary::NumberOf(std::string_view word) const {
  const auto found = numbers_.find(word);
  return found == numbers_.end() ? kUnknownWord : found->second;
}

void AppendPieces(std::string_view part, const Vocabulary& vocabulary, std::vector<int32_t>& numbers) {
  const size_t begin = PrefixOf(part).size();
  std::string piece;
  for (size_t at = begin; at < part.size();) {
    const std::string_view prefix = at > begin || begin > 0 ? kJoined : std::string_view();
    int32_t number = kUnknownWord;
    size_t taken = CharacterAt(part, at).bytes;
    for (size_t end = at; end < part.size() && end - at < vocabulary.longest();) {
      end += CharacterAt(part, end).bytes;
      piece.assign(prefix).append(part, at, end - at);
      const int32_t found = vocabulary.NumberOf(piece);
      if (found == kUnknownWord) continue;
      number = found;
      taken = end - at;
    }
    numbers.push_back(number);
    at += taken;
  }
}

void NumberWords(std::string_view line, TextTokens tokens, const Vocabulary& vocabulary,
                 std::vector<int32_t>& numbers) {
  std::vector<std::string> words;
  SplitWords(line, tokens, words);
  numbers.clear();
  for (const std::string& word : words) {
    if (tokens == PIECES)
      AppendPieces(word, vocabulary, numbers);
    else
      numbers.push_back(vocabulary.NumberOf(word));
  }
}

void KnownWords::Count(std::span<const int32_t> numbers) {
  words += std::ssize(numbers);
  unknown += std::ranges::count(numbers, kUnknownWord);
}

void KnownWords::Warn(const std::filesystem::path& text, const std::filesystem::path& vocabulary) const {
  if (unknown * 10 <= words) return;
  LogWarning(StrCat(text.string(), ": ", unknown, " of ", words, " words are not in ", vocabulary.string(),
                    "; `moka data vocabulary` makes one of a text"));
}

std::string JoinWords(std::span<const int32_t> numbers, TextTokens tokens, const Vocabulary& vocabulary) {
  std::string line;
  std::string_view before;
  for (const int32_t number : numbers) {
    if (number == kNoWord || number == kBeginWord || number == kEndWord) continue;
    std::string_view word = vocabulary.WordOf(number);
    bool has_blank = !line.empty();
    if (tokens == PIECES && word.starts_with(kJoined) && word.size() > kJoined.size()) {
      word.remove_prefix(kJoined.size());
      has_blank = false;
    }
    if (tokens == WORDS) has_blank = has_blank && HasBlankBetween(before, word);
    if (has_blank) line += ' ';
    line += word;
    before = word;
  }
  return line;
}

VocabularyReport MakeVocabulary(const std::vector<std::filesystem::path>& files, const std::filesystem::path& out,
                                const VocabularyOptions& options) {
  CheckWritable(out);
  WordCounts counts;
  VocabularyReport report;
  for (const std::filesystem::path& file : files) {
    if (options.are_stories)
      CountStories(file, counts, report.lines);
    else
      CountLines(file, options.tokens, counts, report.lines);
  }
  if (options.tokens == PIECES) return MakePieces(counts, out, options, report);
  const auto ranked = counts.Ranked();
  if (ranked.empty()) throw Error(ErrorKind::kBadData, StrCat(files.front().string(), ": no words"));
  report.tokens = counts.tokens();
  report.types = static_cast<int64_t>(ranked.size());
  const int64_t most =
      std::min(options.most > 0 ? options.most : kMostWords, kMostWords - static_cast<int64_t>(kMarkWords.size()));
  std::vector<std::string> words;
  for (const auto& [word, count] : ranked) {
    if (report.kept == most || count < options.min_count) break;
    words.emplace_back(word);
    ++report.kept;
    report.known += count;
  }
  WriteVocabulary(out, words);
  return report;
}

}  // namespace moka
