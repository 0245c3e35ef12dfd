// A line is its number, its words and, for a question, answer and support after tabs. Numbers must count up, and 1
// begins a story.
#include "data/text/stories.h"

#include <charconv>

#include "core/text.h"
#include "core/utf8.h"
#include "data/text/letters.h"

namespace moka {
namespace {

Error Fault(const std::string& text) { return {ErrorKind::kBadData, text}; }

std::optional<int64_t> Whole(std::string_view text) {
  int32_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = read.ec == std::errc() && read.ptr == text.data() + text.size() && number >= 0;
  return is_number ? std::optional<int64_t>(number) : std::nullopt;
}

std::string AnswerOf(std::string_view part) {
  std::string answer = LowerCased(Trim(part));
  if (answer.empty()) throw Fault("the question has no answer; it stands after a tab");
  for (size_t at = 0; at < answer.size(); at += CharacterAt(answer, at).bytes) {
    if (!IsBlank(CharacterAt(answer, at).code)) continue;
    throw Fault(StrCat("the answer \"", Printable(answer), "\" has blanks; several words are joined by commas"));
  }
  return answer;
}

std::vector<int64_t> SupportOf(std::string_view part) {
  std::vector<int64_t> support;
  for (const std::string& word : Split(part, ' ')) {
    const std::string_view number = Trim(word);
    if (number.empty()) continue;
    const std::optional<int64_t> sentence = Whole(number);
    if (!sentence) throw Fault(StrCat("expected the number of a sentence, found \"", Printable(number), "\""));
    support.push_back(*sentence);
  }
  return support;
}

}  // namespace

StoryLine ParseStoryLine(std::string_view line) {
  const size_t blank = line.find(' ');
  const std::optional<int64_t> number = Whole(line.substr(0, blank));
  if (!number || blank == std::string_view::npos || *number == 0) {
    throw Fault(StrCat("expected \"NUMBER SENTENCE\", found \"", Printable(line.substr(0, 40)), "\""));
  }
  StoryLine story{.number = *number, .words = {}, .answer = {}, .support = {}};
  const std::vector<std::string> parts = Split(line.substr(blank + 1), '\t');
  SplitPlainWords(parts[0], story.words);
  if (story.words.empty()) throw Fault("the sentence has no words");
  const bool is_question = parts.size() > 1 || Trim(parts[0]).ends_with('?');
  if (is_question) story.answer = AnswerOf(parts.size() > 1 ? parts[1] : "");
  if (parts.size() > 2) story.support = SupportOf(parts[2]);
  if (parts.size() > 3) throw Fault("the question has more than an answer and its support");
  return story;
}

void ReadStoryLines(const std::filesystem::path& path, const TakeStoryLine& take,
                    const std::function<void(const Error&)>& bad) {
  TextLines lines(path);
  int64_t before = 0;
  while (lines.Next()) {
    try {
      // The number counts even where the rest of the line is bad, so that one bad line is one error.
      const std::optional<int64_t> number = Whole(std::string_view(lines.line()).substr(0, lines.line().find(' ')));
      const bool follows = !number || *number == 1 || *number == before + 1;
      const int64_t last = before;
      before = number.value_or(before + 1);
      if (!follows) {
        throw Fault(StrCat("the line is number ", *number, " and the one before it ", last,
                           "; lines count up, and 1 begins a story"));
      }
      take(ParseStoryLine(lines.line()), lines.number());
    } catch (Error& e) {
      e.SetPlace(lines.place());
      if (!bad || e.kind() != ErrorKind::kBadData) throw;
      bad(e);
    }
  }
}

}  // namespace moka
