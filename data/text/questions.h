// Stories with questions as people write them, for nets that answer:
//
//   Mary moved to the bathroom.
//   John went to the hallway.
//   Where is Mary?
//
// A line that ends with a question mark, or that has a tab, is a question about the sentences before it; a blank line
// ends a story. What stands after a tab is the answer that is right. Where the first line is numbered 1 the text is of
// bAbI's form (data/text/stories.h): 1 begins a story, and a question needs no answer here.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/text/tokens.h"

namespace moka {

struct StorySentence {
  std::string text;                // as written, without its number
  std::vector<std::string> words;  // lower-cased, without marks
};

struct AskedQuestion {
  StorySentence question;
  std::vector<StorySentence> story;   // what was said before it, the first sentence first; questions are not part of it
  std::optional<std::string> answer;  // lower-cased
  int line = 0;
};

// Errors: those of TextLines; kBadData at the line for bytes that are no UTF-8 and for a sentence without words;
// kBadData for a file without a question.
std::vector<AskedQuestion> ReadQuestions(TextLines lines);

}  // namespace moka
