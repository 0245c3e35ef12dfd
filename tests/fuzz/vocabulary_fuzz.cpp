// A vocabulary, and the words of a line by it: the file's last line. The first byte says how lines become words.
#include <algorithm>

#include "data/text/vocabulary.h"
#include "tests/fuzz/input_file.h"
#include "tests/fuzz/one_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return moka::RunOneInput(data, size, [](std::string_view text) {
    if (text.empty()) return;
    const moka::TextTokens tokens = text.front() == 'b'   ? moka::BLANKS
                                    : text.front() == 'p' ? moka::PIECES
                                                          : moka::WORDS;
    text.remove_prefix(1);
    const size_t cut = text.rfind('\n');
    const std::string_view line = text.substr(cut == std::string_view::npos ? 0 : cut + 1);
    static moka::InputFile file("vocabulary.txt");
    const moka::Vocabulary vocabulary(file.Write(text.substr(0, text.size() - line.size())));
    std::vector<int32_t> numbers;
    moka::NumberWords(line, tokens, vocabulary, numbers);
    for (const int32_t number : numbers) {
      if (number < 0 || number >= vocabulary.size()) std::abort();
    }
    moka::JoinWords(numbers, tokens, vocabulary);
  });
}
