// moka new answer: stories with questions in bAbI's form to a memory network, by the recipe of models/babi_memn2n. The
// parts are files of whole stories, as the layer reads texts.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "core/checksum.h"
#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/files/file_tree.h"
#include "data/text/stories.h"
#include "data/text/tokens.h"
#include "data/text/vocabulary.h"
#include "tools/new/recipe.h"
#include "tools/new/templates.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kFewestQuestions = 50;  // of the training
constexpr int64_t kBatch = 32;
constexpr int64_t kMostSentences = 50;  // of a memory

// The counts of all stories that the layer has to know.
struct StoryFacts {
  std::vector<double> sentences;  // before each question
  int64_t words = 1;              // of the longest sentence or question
};

// A file, or all texts of a folder. Errors: kNoInput.
std::vector<fs::path> FilesOf(const std::string& word) {
  std::error_code ignored;
  if (!fs::exists(word, ignored)) throw Error(ErrorKind::kNoInput, StrCat(Printable(word), " does not exist"));
  if (!fs::is_directory(word, ignored)) return {word};
  std::vector<fs::path> files;
  for (const fs::path& file : SortedEntries(word)) {
    if (file.extension() == ".txt" || file.extension() == ".gz") files.push_back(file);
  }
  if (!files.empty()) return files;
  throw Error(ErrorKind::kNoInput, StrCat(Printable(word), " holds no .txt and no .gz"));
}

// Reads all stories, so that a mistake is told at its line, and what they hold.
StoryFacts FactsOf(const std::vector<fs::path>& files) {
  StoryFacts facts;
  for (const fs::path& file : files) {
    int64_t said = 0;
    ReadStoryLines(file, [&](const StoryLine& line, int) {
      if (line.number == 1) said = 0;
      facts.words = std::max(facts.words, std::ssize(line.words));
      if (line.answer)
        facts.sentences.push_back(static_cast<double>(said));
      else
        ++said;
    });
  }
  return facts;
}

// Writes whole stories to "PART.txt". Errors: kBadData for parts with too few questions; kIo.
NewData WriteParts(const NewSource& source, const std::vector<fs::path>& files) {
  NewData data;
  data.source = source.word;
  data.items = "questions";
  data.hashed = "its story's text";
  std::vector<std::ofstream> out;
  for (const SplitPart& share : source.shares) {
    data.parts.push_back({share.name, source.word, nullptr, {}, {true}});
    out.emplace_back(source.databases / (share.name + ".txt"), std::ios::binary);
  }
  int64_t number = 0;
  std::string story;
  int64_t questions = 0;
  const auto place = [&] {
    const int part = story.empty() ? -1 : PartOfContent(Hash64(story, 0), source.shares);
    if (part >= 0) {
      out[static_cast<size_t>(part)] << story;
      for (int64_t i = 0; i < questions; ++i) data.parts[static_cast<size_t>(part)].pictures.push_back(number + i);
    }
    number += questions;
    story.clear();
    questions = 0;
  };
  for (const fs::path& file : files) {
    for (TextLines lines(file); lines.Next();) {
      if (Trim(lines.line()).empty()) continue;
      const StoryLine line = ParseStoryLine(lines.line());
      if (line.number == 1) place();
      story += lines.line() + "\n";
      questions += line.answer ? 1 : 0;
    }
    place();
  }
  for (size_t i = 0; i < out.size(); ++i) {
    out[i].close();
    if (!out[i])
      throw Error(ErrorKind::kIo, StrCat("cannot write the stories to ", Printable(source.databases.string())));
    const int64_t least = i == 0 ? kFewestQuestions : 1;
    if (data.parts[i].size() >= least) continue;
    throw Error(ErrorKind::kBadData, {},
                StrCat("the part ", data.parts[i].name, " has ", data.parts[i].size(), " questions, expected ", least,
                       " or more"),
                StrCat(number, " were found in ", Printable(source.word)));
  }
  return data;
}

void SetWidth(int64_t width, Values& values) { values["w1"] = StrCat(width); }

NewModel MakeAnswerer(const NewSource& source, const NewOptions& options) {
  const std::vector<fs::path> files = FilesOf(source.word);
  const StoryFacts facts = FactsOf(files);
  const NewData data = WriteParts(source, files);
  std::vector<fs::path> texts;
  for (const NewPart& part : data.parts) texts.push_back(source.databases / (part.name + ".txt"));
  VocabularyOptions counted;
  counted.are_stories = true;
  (void)MakeVocabulary(texts, source.databases / "words.txt", counted);
  const int64_t words = Vocabulary(source.databases / "words.txt").size();
  const auto longest = static_cast<int64_t>(*std::ranges::max_element(facts.sentences));
  const int64_t sentences = std::clamp<int64_t>(longest, 1, kMostSentences);
  Search search;
  search.items = data.items;
  search.widths = {50, 20};
  search.pictures = data.train().size();
  search.batch = std::clamp<int64_t>(data.train().size() / 8, 4, kBatch);
  search.samples = 1'800'000;
  search.least_epochs = 20;
  search.most_epochs = 100;
  search.shapes = {{"story", Shape{search.batch, sentences, facts.words}},
                   {"question", Shape{search.batch, facts.words}},
                   {"time", Shape{search.batch, sentences}},
                   {"answer", Shape{search.batch}}};
  Values values = CommonValues(data, options);
  AddTestBatches(data, 100, values);
  for (const NewPart& part : data.parts)
    values[part.name + "_stories"] = Quoted((options.databases / (part.name + ".txt")).string());
  values["vocabulary"] = Quoted((options.databases / "words.txt").string());
  values["words"] = StrCat(words);
  values["sentences"] = StrCat(sentences);
  values["sentence_words"] = StrCat(facts.words);
  values["times"] = StrCat(sentences + 1);
  values["memory_words"] =
      fmt::format("The last {} sentences before a question, of up to {} words; the longest story has {}.", sentences,
                  facts.words, longest);
  values["batch"] = StrCat(search.batch);
  const Recipe recipe{.text = AnswerTemplate(),
                      .front = {"head", "blocks"},
                      .net = {"body"},
                      .set_width = SetWidth,
                      .has_deploy = false};
  const NetChoice choice = ChooseNet(recipe, data, options, search, values);
  constexpr int64_t kParts = 4;
  constexpr int64_t kLinear = 5;
  values["stepsize"] = StrCat(std::max<int64_t>(1, choice.length.iterations / kParts));
  values["linear_iter"] = StrCat(std::max<int64_t>(1, choice.length.iterations / kLinear));
  NewModel model =
      MakeModel(recipe, data, choice, fmt::format("{} words, memories of {} sentences", words, sentences), values);
  model.files["solver_linear.prototxt"] = Filled(SectionOf(AnswerTemplate(), "linear_solver"), values);
  return model;
}

}  // namespace

NewTask AnswerNewTask() {
  return {.name = "answer",
          .source = "stories with questions in bAbI's form: a text, or a folder of texts",
          .make = MakeAnswerer};
}

}  // namespace moka
