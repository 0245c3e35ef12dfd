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
#include "tools/new/file_parts.h"
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

// A file, or the texts of a folder: those whose names speak of a part, where any does, else all.
struct StorySource {
  std::vector<PartFiles> own;    // empty: no file speaks of a part
  std::vector<PartFiles> files;  // to be read; of a part without a name where there is none
};

bool IsText(const fs::path& file) { return file.extension() == ".txt" || file.extension() == ".gz"; }

// Errors: kNoInput; those of PartFilesIn.
StorySource SourceOf(const std::string& word, std::vector<std::string>& remarks) {
  std::error_code ignored;
  if (!fs::exists(word, ignored)) throw Error(ErrorKind::kNoInput, StrCat(Printable(word), " does not exist"));
  if (!fs::is_directory(word, ignored)) return {{}, {{{}, {word}}}};
  std::vector<PartFiles> own = PartFilesIn(word, remarks);
  if (!own.empty()) return {own, own};
  PartFiles all;
  std::ranges::copy_if(SortedEntries(word), std::back_inserter(all.files), IsText);
  if (!all.files.empty()) return {{}, {all}};
  throw Error(ErrorKind::kNoInput, StrCat(Printable(word), " holds no .txt and no .gz"));
}

// Reads all stories, so that a mistake is told at its line, and what they hold.
StoryFacts FactsOf(const std::vector<PartFiles>& parts) {
  StoryFacts facts;
  int64_t said = 0;
  const auto count = [&](const StoryLine& line, int) {
    if (line.number == 1) said = 0;
    facts.words = std::max(facts.words, std::ssize(line.words));
    if (line.answer)
      facts.sentences.push_back(static_cast<double>(said));
    else
      ++said;
  };
  for (const PartFiles& part : parts) {
    for (const fs::path& file : part.files) {
      said = 0;
      ReadStoryLines(file, count);
    }
  }
  return facts;
}

// Writes whole stories to the texts of their parts.
class StoryWriter {
 public:
  StoryWriter(const NewSource& source, Parting& parting, NewData& data) : parting_(parting), data_(data) {
    data.parts = parting.Parts(source.word, 1);
    for (const NewPart& part : data.parts) out_.emplace_back(source.databases / (part.name + ".txt"), std::ios::binary);
  }
  // Requires: the file was read before, so that its lines are right.
  void Add(const std::string& part, const fs::path& file) {
    for (TextLines lines(file); lines.Next();) {
      if (Trim(lines.line()).empty()) continue;
      const StoryLine line = ParseStoryLine(lines.line());
      if (line.number == 1) Place(part);
      story_ += lines.line() + "\n";
      questions_ += line.answer ? 1 : 0;
    }
    Place(part);
  }
  // Questions of all stories.
  int64_t number() const { return number_; }
  bool Close() {
    return std::ranges::all_of(out_, [](std::ofstream& out) {
      out.close();
      return out.good();
    });
  }

 private:
  void Place(const std::string& of_file) {
    const int part = story_.empty() ? -1 : parting_.PartOf(of_file, Hash64(story_, 0));
    if (part >= 0) {
      out_[static_cast<size_t>(part)] << story_;
      for (int64_t i = 0; i < questions_; ++i) data_.parts[static_cast<size_t>(part)].pictures.push_back(number_ + i);
    }
    number_ += questions_;
    story_.clear();
    questions_ = 0;
  }

  Parting& parting_;
  NewData& data_;
  std::vector<std::ofstream> out_;
  std::string story_;
  int64_t questions_ = 0;  // of the story
  int64_t number_ = 0;
};

// Writes whole stories to "PART.txt". Errors: kBadData for parts with too few questions; kIo.
NewData WriteParts(const NewSource& source, const StorySource& stories) {
  NewData data;
  data.source = source.word;
  data.items = "questions";
  data.hashed = "its story's text";
  Parting parting(source, stories.own);
  StoryWriter writer(source, parting, data);
  for (const PartFiles& part : stories.files) {
    for (const fs::path& file : part.files) writer.Add(part.part, file);
  }
  if (!writer.Close())
    throw Error(ErrorKind::kIo, StrCat("cannot write the stories to ", Printable(source.databases.string())));
  CheckPartSizes(data, kFewestQuestions, StrCat(writer.number(), " were found in ", Printable(source.word)));
  data.remarks = parting.CopiesIn("stories");
  return data;
}

void SetWidth(int64_t width, Values& values) { values["w1"] = StrCat(width); }

NewModel MakeAnswerer(const NewSource& source, const NewOptions& options) {
  std::vector<std::string> remarks;
  const StorySource stories = SourceOf(source.word, remarks);
  const StoryFacts facts = FactsOf(stories.files);
  const NewData data = WriteParts(source, stories);
  remarks.insert(remarks.end(), data.remarks.begin(), data.remarks.end());
  source.tell(remarks);
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
          .source = "stories with questions in bAbI's form: a text, or a folder of texts (_train, _test)",
          .make = MakeAnswerer};
}

}  // namespace moka
