// Stories with questions: bAbI's form where the first byte is a digit, else as people write them.
#include "data/text/questions.h"
#include "data/text/stories.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/input_file.h"

namespace moka {

FuzzTarget StoryFuzz() {
  return {"story", [](std::string_view text) {
            static InputFile file("story.txt");
            file.Write(text);
            if (text.starts_with('1')) {
              ReadStoryLines(file.path(), [](const StoryLine& line, int) {
                if (line.words.empty()) std::abort();
              });
            } else {
              for (const AskedQuestion& asked : ReadQuestions(TextLines(file.path()))) {
                if (asked.line < 1) std::abort();
              }
            }
          }};
}

}  // namespace moka
