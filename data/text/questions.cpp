// A line reader with one state, the story so far; faults are told at their lines.
#include "data/text/questions.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "data/text/tokens.h"

namespace moka {
namespace {

// The number a line begins with and the blank after it; empty without.
std::string_view NumberBefore(std::string_view line) {
  size_t end = 0;
  while (end < line.size() && IsDigit(line[end])) ++end;
  return end > 0 && end < line.size() && line[end] == ' ' ? line.substr(0, end + 1) : std::string_view();
}

class QuestionReader {
 public:
  void Take(const std::string& line, int number) {
    if (Trim(line).empty()) {
      story_.clear();
      return;
    }
    std::string_view rest = line;
    if (is_first_) is_numbered_ = NumberBefore(line) == "1 ";
    is_first_ = false;
    if (is_numbered_) {
      const std::string_view before = NumberBefore(line);
      if (before.empty()) {
        throw Error(ErrorKind::kBadData, {}, StrCat("expected \"NUMBER SENTENCE\", found \"", Printable(line), "\""),
                    "either all lines of a text are numbered or none");
      }
      if (before == "1 ") story_.clear();
      rest.remove_prefix(before.size());
    }
    const std::vector<std::string> parts = Split(rest, '\t');
    StorySentence sentence{.text = std::string(Trim(parts[0])), .words = {}};
    SplitPlainWords(parts[0], sentence.words);
    if (sentence.words.empty()) throw Error(ErrorKind::kBadData, "the sentence has no words");
    if (parts.size() == 1 && !sentence.text.ends_with('?')) {
      story_.push_back(std::move(sentence));
      return;
    }
    AskedQuestion asked{.question = std::move(sentence), .story = story_, .answer = {}, .line = number};
    if (parts.size() > 1 && !Trim(parts[1]).empty()) asked.answer = LowerCased(Trim(parts[1]));
    questions_.push_back(std::move(asked));
  }
  std::vector<AskedQuestion> TakeQuestions() { return std::move(questions_); }

 private:
  bool is_first_ = true;
  bool is_numbered_ = false;
  std::vector<StorySentence> story_;
  std::vector<AskedQuestion> questions_;
};

}  // namespace

std::vector<AskedQuestion> ReadQuestions(TextLines lines) {
  QuestionReader reader;
  while (lines.Next()) {
    try {
      reader.Take(lines.line(), lines.number());
    } catch (Error& e) {
      e.SetPlace(lines.place());
      throw;
    }
  }
  std::vector<AskedQuestion> questions = reader.TakeQuestions();
  if (!questions.empty()) return questions;
  throw Error(ErrorKind::kBadData, {},
              StrCat(lines.path().empty() ? "" : StrCat(lines.path().string(), ": "), "no question"),
              "a question is a line that ends with a question mark");
}

}  // namespace moka
