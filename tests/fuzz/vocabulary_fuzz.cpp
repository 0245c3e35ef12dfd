// A vocabulary, and the words of a line by it: the file's last line. The first byte says how lines become words.
#include <algorithm>

#include "data/text/vocabulary.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/input_file.h"

namespace moka {

FuzzTarget VocabularyFuzz() {
  return {"vocabulary", [](std::string_view text) {
            if (text.empty()) return;
            const TextTokens tokens = text.front() == 'b' ? BLANKS : text.front() == 'p' ? PIECES : WORDS;
            text.remove_prefix(1);
            const size_t cut = text.rfind('\n');
            const std::string_view line = text.substr(cut == std::string_view::npos ? 0 : cut + 1);
            static InputFile file("vocabulary.txt");
            const Vocabulary vocabulary(file.Write(text.substr(0, text.size() - line.size())));
            std::vector<int32_t> numbers;
            NumberWords(line, tokens, vocabulary, numbers);
            for (const int32_t number : numbers) {
              if (number < 0 || number >= vocabulary.size()) std::abort();
            }
            JoinWords(numbers, tokens, vocabulary);
          }};
}

}  // namespace moka
