// Stories with questions in bAbI's text form (Weston et al., "Towards AI-complete question answering", 2015, arXiv
// 1502.05698):
//
//   1 Mary moved to the bathroom.
//   2 John went to the hallway.
//   3 Where is Mary?        <tab> bathroom <tab> 1
//
// Lines are numbered; 1 begins a new story. A question has its answer after a tab, and after another the numbers of the
// sentences that support it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/text/tokens.h"

namespace moka {

struct StoryLine {
  int64_t number = 0;
  std::vector<std::string> words;     // lower-cased, without marks
  std::optional<std::string> answer;  // of a question; lower-cased, one word: several are joined by commas
  std::vector<int64_t> support;       // numbers of sentences
};

// Errors: kBadData, without a place: no number, no words, a question (with a question mark at its end, or a tab)
// without an answer, an answer with blanks, support that is no number, bytes that are no UTF-8.
StoryLine ParseStoryLine(std::string_view line);

// Calls `take` with each line of a file and its place. Errors: those of ParseStoryLine and of `take` at the line;
// kBadData for a number that is neither 1 nor one more than the line's before it. With `bad`, an error of kBadData of a
// line is given to it in place of being thrown, and the line is left out.
using TakeStoryLine = std::function<void(const StoryLine& line, int file_line)>;
void ReadStoryLines(const std::filesystem::path& path, const TakeStoryLine& take,
                    const std::function<void(const Error&)>& bad = nullptr);

}  // namespace moka
