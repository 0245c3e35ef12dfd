// moka data vocabulary: the words of texts, numbered for the layers that read texts.
#include "data/text/vocabulary.h"
#include "core/error.h"
#include "core/text.h"
#include "tools/cli/command_line.h"
#include "tools/cli/print.h"

namespace moka {
namespace {

TextTokens TokensOf(const Arguments& arguments) {
  const std::string tokens = arguments.Get("tokens", "words");
  if (tokens == "words") return WORDS;
  if (tokens == "blanks") return BLANKS;
  throw Error(ErrorKind::kUsage, StrCat("--tokens wants words or blanks, found \"", Printable(tokens), "\""));
}

int RunVocabulary(const Arguments& arguments) {
  if (arguments.positionals.size() < 2) {
    throw Error(ErrorKind::kUsage, "missing argument: text files, then the vocabulary to write");
  }
  VocabularyOptions options{.tokens = TokensOf(arguments), .are_stories = arguments.Has("stories")};
  if (options.are_stories && arguments.Has("tokens")) {
    throw Error(ErrorKind::kUsage, "--tokens does not go with --stories, whose form says what words are");
  }
  if (arguments.Has("pieces")) {
    for (const char* other : {"tokens", "stories", "most"}) {
      if (arguments.Has(other)) throw Error(ErrorKind::kUsage, StrCat("--pieces does not go with --", other));
    }
    constexpr int64_t kLeastPieces = 16;
    options.tokens = PIECES;
    options.pieces = arguments.Int("pieces", 0, kLeastPieces, 1 << 24);
  }
  options.min_count = arguments.Int("min-count", options.min_count, 1, INT64_MAX);
  options.most = arguments.Int("most", options.most, 1, INT64_MAX);
  const std::vector<std::filesystem::path> files(arguments.positionals.begin(), arguments.positionals.end() - 1);
  const std::string& out = arguments.positionals.back();
  const VocabularyReport report = MakeVocabulary(files, out, options);
  const double known = 100 * static_cast<double>(report.known) / static_cast<double>(report.tokens);
  const int64_t numbers = report.kept + static_cast<int64_t>(kMarkWords.size());
  if (options.tokens == PIECES) {
    Print("{}: {} pieces, with the marks {} numbers; {} lines are {} pieces, of which {:.2f} % are known\n", out,
          report.kept, numbers, report.lines, report.tokens, known);
    return 0;
  }
  Print("{}: {} of {} different words, with the marks {} numbers; of {} words in {} lines {:.2f} % are known\n", out,
        report.kept, report.types, numbers, report.tokens, report.lines, known);
  return 0;
}

}  // namespace

Verb VocabularyVerb() {
  Verb verb;
  verb.name = "vocabulary";
  verb.under = "data";
  verb.summary = "count the words of texts and number them for TextPairData and StoryData";
  verb.usage = "FILE.. OUT [--flags]";
  verb.examples = {"moka data vocabulary train.de.gz de.txt --min-count 2",
                   "moka data vocabulary train.de.gz de.txt --pieces 6000",
                   "moka data vocabulary qa1_train.txt qa1_test.txt words.txt --stories"};
  verb.options = {{"tokens", "KIND", "words (lower case, punctuation marks are words; default) or blanks"},
                  {"pieces", "N", "N numbers of parts of words, which spell all words (the layer's tokens: PIECES)"},
                  {"min-count", "N", "leave out words (with --pieces: letters) that come less often (default 1)"},
                  {"most", "N", "at most N words, besides the four marks"},
                  {"stories", "", "bAbI's form: sentences, questions and answers"}};
  verb.run = RunVocabulary;
  return verb;
}

}  // namespace moka
