// Stories with questions: bAbI's form where the first byte is a digit, else as people write them.
#include "data/text/questions.h"
#include "data/text/stories.h"
#include "tests/fuzz/input_file.h"
#include "tests/fuzz/one_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return moka::RunOneInput(data, size, [](std::string_view text) {
    static moka::InputFile file("story.txt");
    file.Write(text);
    if (text.starts_with('1')) {
      moka::ReadStoryLines(file.path(), [](const moka::StoryLine& line, int) {
        if (line.words.empty()) std::abort();
      });
    } else {
      for (const moka::AskedQuestion& asked : moka::ReadQuestions(file.path())) {
        if (asked.line < 1) std::abort();
      }
    }
  });
}
