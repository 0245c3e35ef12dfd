// moka new translate: two texts whose lines belong together to a net of GRUs with attention, by the recipe of
// models/multi30k_attention. The parts are files of lines, as the layer reads texts.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <set>

#include "core/checksum.h"
#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/files/file_tree.h"
#include "data/text/tokens.h"
#include "data/text/vocabulary.h"
#include "tools/new/file_parts.h"
#include "tools/new/recipe.h"
#include "tools/new/templates.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kFewestPairs = 100;  // of the training
constexpr int64_t kBatch = 64;
constexpr int64_t kMostLength = 80;  // pieces with the mark; longer lines are left out of the training

// Two texts whose lines belong together.
struct TextPair {
  std::string part;  // empty: of all parts
  fs::path source;
  fs::path target;
};

// Whether a language is a word of a file's name: "train.de.gz", "train_de.txt".
bool IsOfLanguage(std::string_view name, std::string_view language) {
  constexpr std::string_view kBetween = "._- ";
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find_first_of(kBetween, begin), name.size());
    if (begin > 0 && name.substr(begin, end - begin) == language) return true;
    begin = end + 1;
  }
  return false;
}

// The one file of a part in a language. Errors: kNoInput for none, kBadData for two.
fs::path TextOf(const PartFiles& part, const std::string& language, const std::string& folder) {
  fs::path found;
  for (const fs::path& file : part.files) {
    if (!IsOfLanguage(file.filename().string(), language)) continue;
    if (!found.empty()) {
      throw Error(ErrorKind::kBadData, {},
                  StrCat(Printable(found.string()), " and ", Printable(file.string()), " are both the part ", part.part,
                         " in \"", Printable(language), "\""),
                  "rename or remove one of them");
    }
    found = file;
  }
  if (!found.empty()) return found;
  throw Error(ErrorKind::kNoInput, {},
              StrCat(Printable(folder), " has no text of the part ", part.part, " in \"", Printable(language), "\""),
              StrCat("expected for example ", part.part, ".", Printable(language)));
}

struct TextSource {
  std::vector<PartFiles> own;  // parts that files have; empty: none
  std::vector<TextPair> pairs;
};

// "SOURCE,TARGET", or "FOLDER,LANGUAGE,LANGUAGE". Errors: kUsage, kNoInput, kBadData.
TextSource SourceOf(const std::string& word, std::vector<std::string>& remarks) {
  const std::vector<std::string> words = Split(word, ',');
  std::error_code ignored;
  const bool is_folder = fs::is_directory(words[0], ignored);
  if (words.size() == 2 && !is_folder) return {{}, {{{}, words[0], words[1]}}};
  if (words.size() != 3 || !is_folder) {
    const std::string found = is_folder ? "a folder, expected FOLDER,LANGUAGE,LANGUAGE"
                                        : "no pair of texts, expected two with a comma between them";
    throw Error(ErrorKind::kUsage, {}, StrCat(Printable(word), " is ", found),
                is_folder
                    ? "for example moka new translate multi30k,de,en --out german, with train.de and train.en there"
                    : "for example moka new translate train.de.gz,train.en.gz --out german");
  }
  TextSource source{PartFilesIn(words[0], remarks), {}};
  if (source.own.empty()) {
    throw Error(ErrorKind::kNoInput, {}, StrCat(Printable(words[0]), " has no texts that are called train"),
                StrCat("expected for example train.", Printable(words[1])));
  }
  for (const PartFiles& part : source.own)
    source.pairs.push_back({part.part, TextOf(part, words[1], words[0]), TextOf(part, words[2], words[0])});
  return source;
}

// A part's files of lines.
struct PartLines {
  std::ofstream source;
  std::ofstream target;
};

// Writes the pairs of two texts to the files of their parts. Returns how many are left out, as a line is empty. Errors:
// kBadData where one text is longer.
int64_t WritePairs(const TextPair& texts, Parting& parting, NewData& data, std::vector<PartLines>& files) {
  TextLines from(texts.source);
  TextLines to(texts.target);
  int64_t empty = 0;
  for (int64_t i = 0;; ++i) {
    const bool has_from = from.Next();
    const bool has_to = to.Next();
    if (has_from != has_to) {
      throw Error(ErrorKind::kBadData, {},
                  StrCat(Printable((has_from ? texts.target : texts.source).string()), " has ", i, " lines and ",
                         Printable((has_from ? texts.source : texts.target).string()), " more"),
                  "line by line they are to say the same");
    }
    if (!has_from) return empty;
    if (Trim(from.line()).empty() || Trim(to.line()).empty()) {
      ++empty;
      continue;
    }
    const int part = parting.PartOf(texts.part, Hash64(StrCat(from.line(), "\n", to.line()), 0));
    if (part < 0) continue;
    files[static_cast<size_t>(part)].source << from.line() << '\n';
    files[static_cast<size_t>(part)].target << to.line() << '\n';
    data.parts[static_cast<size_t>(part)].pictures.push_back(i);
  }
}

// Writes the pairs to "PART.source" and "PART.target". Errors: those of WritePairs; kBadData for too few pairs, kIo.
NewData WriteParts(const NewSource& source) {
  NewData data;
  data.source = source.word;
  data.items = "pairs";
  data.hashed = "its lines";
  const TextSource texts = SourceOf(source.word, data.remarks);
  Parting parting(source, texts.own);
  std::vector<PartLines> files;
  data.parts = parting.Parts(source.word, 1);
  for (const NewPart& part : data.parts) {
    files.push_back({std::ofstream(source.databases / (part.name + ".source"), std::ios::binary),
                     std::ofstream(source.databases / (part.name + ".target"), std::ios::binary)});
  }
  int64_t empty = 0;
  for (const TextPair& pair : texts.pairs) empty += WritePairs(pair, parting, data, files);
  if (empty > 0) data.remarks.push_back(StrCat(empty, " pairs are left out: a line of them is empty"));
  for (std::string& remark : parting.CopiesIn(data.items)) data.remarks.push_back(std::move(remark));
  for (PartLines& lines : files) {
    lines.source.close();
    lines.target.close();
    if (!lines.source || !lines.target)
      throw Error(ErrorKind::kIo, StrCat("cannot write the lines to ", Printable(source.databases.string())));
  }
  CheckPartSizes(data, kFewestPairs, "a translator wants some thousands of pairs");
  return data;
}

// How many pieces, with the mark, the lines of a file have.
std::vector<double> LengthsOf(const fs::path& file, const Vocabulary& vocabulary) {
  std::vector<double> lengths;
  std::vector<int32_t> numbers;
  for (TextLines lines(file); lines.Next();) {
    NumberWords(lines.line(), PIECES, vocabulary, numbers);
    lengths.push_back(static_cast<double>(numbers.size() + 1));
  }
  return lengths;
}

struct Lengths {
  int64_t source = 0;
  int64_t target = 0;
  int64_t median = 0;  // of the longer of a pair
  std::vector<int64_t> buckets;
};

Lengths LengthsOfPairs(const std::vector<double>& source, const std::vector<double>& target) {
  constexpr double kNearlyAll = 0.995;
  constexpr int kBuckets = 12;
  const auto most = [](const std::vector<double>& lengths) {
    return std::clamp<int64_t>(std::lround(Quantile(lengths, kNearlyAll)), 4, kMostLength);
  };
  Lengths lengths;
  lengths.source = most(source);
  lengths.target = most(target);
  std::vector<double> longer;
  for (size_t i = 0; i < source.size(); ++i) longer.push_back(std::max(source[i], target[i]));
  lengths.median = std::lround(Quantile(longer, 0.5));
  const int64_t longest = std::max(lengths.source, lengths.target);
  std::set<int64_t> bounds;
  for (int i = 1; i < kBuckets; ++i) {
    const int64_t bound = std::lround(Quantile(longer, static_cast<double>(i) / kBuckets));
    if (bound < longest) bounds.insert(bound);
  }
  lengths.buckets.assign(bounds.begin(), bounds.end());
  return lengths;
}

// Writes a part's pieces. Returns their number, with the marks.
Vocabulary PiecesOf(const fs::path& text, const fs::path& out, int64_t pieces) {
  VocabularyOptions options;
  options.tokens = PIECES;
  options.pieces = pieces;
  (void)MakeVocabulary({text}, out, options);
  return Vocabulary(out);
}

void SetWidth(int64_t width, Values& values) { values["w1"] = StrCat(width); }

Search SearchOf(const NewData& data, const NewOptions& options, const Lengths& lengths) {
  constexpr int64_t kMany = 10'000;
  const int64_t pairs = data.train().size();
  Search search;
  search.items = data.items;
  search.widths = options.budget.size == NewSize::kSmall || pairs < kMany ? std::vector<int64_t>{128, 64}
                                                                          : std::vector<int64_t>{256, 192, 128, 64};
  search.pictures = pairs;
  search.batch = std::clamp<int64_t>(pairs / 8, 4, kBatch);
  search.samples = 290'000;
  search.least_epochs = 5;
  search.most_epochs = 60;
  const int64_t time = lengths.median;
  for (const char* top : {"source", "source_cont", "source_mask", "target", "target_mask", "next"})
    search.shapes[top] = Shape{time, search.batch};
  search.shapes["source_length"] = Shape{search.batch};
  return search;
}

NewModel MakeTranslator(const NewSource& source, const NewOptions& options) {
  constexpr int64_t kFewestPieces = 200;
  constexpr int64_t kMostPieces = 8000;
  constexpr int64_t kPairsOfPiece = 6;  // a piece is to be met often enough
  const NewData data = WriteParts(source);
  source.tell(data.remarks);
  const fs::path& made = source.databases;
  const int64_t pieces = std::clamp(data.train().size() / kPairsOfPiece, kFewestPieces, kMostPieces);
  const Vocabulary from = PiecesOf(made / "train.source", made / "source.txt", pieces);
  const Vocabulary to = PiecesOf(made / "train.target", made / "target.txt", pieces);
  const Lengths lengths = LengthsOfPairs(LengthsOf(made / "train.source", from), LengthsOf(made / "train.target", to));
  Search search = SearchOf(data, options, lengths);
  Values values = CommonValues(data, options);
  AddTestBatches(data, kBatch, values);
  for (const NewPart& part : data.parts) {
    for (const char* side : {"source", "target"}) {
      values[StrCat(part.name, "_", side)] = Quoted((options.databases / StrCat(part.name, ".", side)).string());
      values[StrCat(side, "_vocabulary")] = Quoted((options.databases / StrCat(side, ".txt")).string());
    }
  }
  values["source_words"] = StrCat(from.size());
  values["target_words"] = StrCat(to.size());
  values["source_length"] = StrCat(lengths.source);
  values["target_length"] = StrCat(lengths.target);
  std::vector<std::string> bounds;
  for (const int64_t bound : lengths.buckets) bounds.push_back(StrCat("bucket: ", bound));
  values["buckets"] = Join(bounds, " ");
  values["piece_words"] =
      fmt::format("{} numbers of the source and {} of the target, a sixth of the pairs, within {} and {}.", from.size(),
                  to.size(), kFewestPieces, kMostPieces);
  values["length_words"] = fmt::format(
      "99.5 % of the lines have up to {} pieces (source) and {} (target), with the mark of their end; longer ones are "
      "left out of the training. Bounds of buckets are twelfths of the pairs.",
      lengths.source, lengths.target);
  values["batch"] = StrCat(search.batch);
  const Recipe recipe{.text = TranslateTemplate(),
                      .front = {"head", "blocks"},
                      .net = {"body"},
                      .set_width = SetWidth,
                      .has_deploy = false};
  const NetChoice choice = ChooseNet(recipe, data, options, search, values);
  return MakeModel(recipe, data, choice,
                   fmt::format("pieces of words: {} of the source, {} of the target", from.size(), to.size()), values);
}

}  // namespace

NewTask TranslateNewTask() {
  return {.name = "translate",
          .source =
              "two texts whose lines belong together, de.txt,en.txt (.gz too); FOLDER,de,en with train.de, val.de, ...",
          .make = MakeTranslator};
}

}  // namespace moka
