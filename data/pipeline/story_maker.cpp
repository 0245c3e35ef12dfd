// Stories are kept as numbers of words, and a sample is cut from them by the place of its question.
#include "data/pipeline/story_maker.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "proto/nets/data_fields.h"

namespace moka {
namespace {

using StoryFields = StoryDataParameter;
using StoryOutput = StoryDataParameter::Output;

// The same in every run and phase: whoever trains, goes on or tests has the same questions for validation.
constexpr uint64_t kValidationSeed = 0x7A11DA7E;

}  // namespace

StoryMaker::StoryMaker(StoryOptions options) : options_(std::move(options)) {
  const Vocabulary vocabulary(options_.vocabulary);
  for (size_t i = 0; i < options_.sources.size(); ++i) ReadSource(i, vocabulary);
  TakePart();
  if (options_.fields.words() > 0) width_ = options_.fields.words();
}

StoryMaker::Sentence StoryMaker::Keep(const StoryLine& line, const Vocabulary& vocabulary) {
  const auto length = static_cast<int64_t>(line.words.size());
  if (options_.fields.words() > 0 && length > options_.fields.words()) {
    throw Error(ErrorKind::kBadData, {},
                StrCat("the sentence has ", length, " words, and story_data_param.words is ", options_.fields.words()),
                "set words to the longest sentence of all files, or leave it out");
  }
  width_ = std::max(width_, length);
  const Sentence sentence{
      .begin = words_.size(), .length = static_cast<int32_t>(length), .number = static_cast<int32_t>(line.number)};
  for (const std::string& word : line.words) words_.push_back(vocabulary.NumberOf(word));
  return sentence;
}

void StoryMaker::ReadSource(size_t source, const Vocabulary& vocabulary) {
  size_t begin = sentences_.size();
  const size_t first_word = words_.size();
  int64_t unanswered = 0;
  const auto take = [&](const StoryLine& line, int file_line) {
    if (line.number == 1) begin = sentences_.size();
    if (!line.answer) {
      sentences_.push_back(Keep(line, vocabulary));
      return;
    }
    Question question{.text = {},
                      .story_begin = begin,
                      .story_end = sentences_.size(),
                      .support = {},
                      .answer = vocabulary.NumberOf(*line.answer),
                      .source = static_cast<int32_t>(source),
                      .line = file_line};
    // If questions are kept for validation, both phases must leave out the same ones.
    const bool needs_answer = options_.phase == TRAIN || options_.fields.validation() > 0;
    unanswered += question.answer == kUnknownWord ? 1 : 0;
    if (question.answer == kUnknownWord && needs_answer) {
      throw Error(ErrorKind::kBadData, {},
                  StrCat("the answer \"", Printable(*line.answer), "\" is not in ", options_.vocabulary.string()),
                  "make the vocabulary with `moka data vocabulary --stories`");
    }
    for (const int64_t number : line.support) {
      const auto story = sentences_.begin() + static_cast<std::ptrdiff_t>(begin);
      const auto found = std::ranges::find(story, sentences_.end(), number, &Sentence::number);
      if (found == sentences_.end()) {
        throw Error(ErrorKind::kBadData,
                    StrCat("the question is supported by ", number, ", which is no sentence of its story before it"));
      }
      question.support.push_back(static_cast<size_t>(found - sentences_.begin()));
    }
    question.text = Keep(line, vocabulary);
    questions_.push_back(std::move(question));
  };
  int64_t bad = 0;
  const std::filesystem::path& path = options_.sources[source];
  std::string first;
  if (options_.bad_lines == StoryOptions::Bad::kStop) {
    ReadStoryLines(path, take);
  } else {
    ReadStoryLines(path, take, [&](const Error& e) {
      if (bad++ == 0) first = e.what();
    });
  }
  if (bad > 0) LogWarning(StrCat(path.string(), ": ", bad, " bad lines are left out, the first: ", first));
  KnownWords known;
  known.Count(std::span(words_).subspan(first_word));
  known.Warn(path, options_.vocabulary);
  if (unanswered > 0 && bad == 0) {
    LogWarning(StrCat(path.string(), ": answers that are not in ", options_.vocabulary.string(), ": ", unanswered,
                      "; a net that answers ", kMarkWords[kUnknownWord], " counts as right there"));
  }
}

void StoryMaker::TakePart() {
  const auto count = static_cast<double>(questions_.size());
  const auto validated = static_cast<uint64_t>(std::llround(count * static_cast<double>(options_.fields.validation())));
  if (options_.fields.validation() > 0 && !questions_.empty()) {
    const Permutation order(questions_.size(), kValidationSeed, 0);
    std::vector<Question> taken;
    for (size_t i = 0; i < questions_.size(); ++i) {
      const bool is_validated = order(i) < validated;
      if (is_validated == (options_.phase == TEST)) taken.push_back(std::move(questions_[i]));
    }
    questions_ = std::move(taken);
  }
  if (!questions_.empty()) return;
  throw Error(ErrorKind::kBadData, StrCat(options_.sources.front().string(), ": no question",
                                          validated > 0 || count > 0 ? " is left by validation" : ""));
}

std::string StoryMaker::NameOf(int64_t record) const {
  const Question& question = questions_[static_cast<size_t>(record)];
  return StrCat(options_.sources[static_cast<size_t>(question.source)].string(), ":", question.line);
}

Shape StoryMaker::SampleShape(StoryOutput output) const {
  return StoryShape(output, 1, options_.fields.sentences(), width_).Erased(0);
}

Shape StoryMaker::DataShape(int64_t /*record*/, SampleScratch& /*scratch*/) const {
  return SampleShape(options_.fields.output(0));
}

std::vector<Shape> StoryMaker::LabelShapes(int64_t batch_size, const Shape& /*sample*/) const {
  std::vector<Shape> shapes;
  for (int i = 1; i < options_.fields.output_size(); ++i) {
    shapes.push_back(SampleShape(options_.fields.output(i)).Inserted(0, batch_size));
  }
  return shapes;
}

int64_t StoryMaker::SentencesOf(const Question& question) const {
  return std::min<int64_t>(static_cast<int64_t>(question.story_end - question.story_begin),
                           options_.fields.sentences());
}

void StoryMaker::WriteWords(const Sentence& sentence, std::span<float> out) const {
  const auto words = std::span(words_).subspan(sentence.begin, static_cast<size_t>(sentence.length));
  std::ranges::transform(words, out.begin(), [](int32_t word) { return static_cast<float>(word); });
}

// As the authors' code: of count + b places, b at most the part `time_noise` of count, the sentences take some at
// random, in their order; what would be longer ago than there are times is as long ago as the last.
void StoryMaker::WriteTimes(int64_t count, RandomStream random, std::span<float> out) const {
  const float noise = options_.phase == TRAIN ? options_.fields.time_noise() : 0.0F;
  const auto most_empty = static_cast<uint64_t>(std::ceil(static_cast<float>(count) * noise));
  const uint64_t places = static_cast<uint64_t>(count) + (most_empty > 0 ? random.Below(most_empty + 1) : 0);
  int64_t written = 0;
  for (uint64_t place = 0; place < places && written < count; ++place) {
    if (random.Below(places - place) >= static_cast<uint64_t>(count - written)) continue;
    const auto time = std::min<int64_t>(static_cast<int64_t>(place) + 1, options_.fields.sentences());
    out[static_cast<size_t>(written++)] = static_cast<float>(time);
  }
}

void StoryMaker::Write(const Question& question, StoryOutput output, const SampleId& id, std::span<float> out) const {
  const int64_t count = SentencesOf(question);
  const auto width = static_cast<size_t>(width_);
  std::ranges::fill(out, 0.0F);
  switch (output) {
    case StoryFields::STORY:
      for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
        WriteWords(sentences_[question.story_end - 1 - i], out.subspan(i * width, width));
      }
      return;
    case StoryFields::QUESTION: WriteWords(question.text, out); return;
    case StoryFields::ANSWER: out[0] = static_cast<float>(question.answer); return;
    case StoryFields::TIME: WriteTimes(count, RandomStream(options_.seed, StreamOf(id)), out); return;
    case StoryFields::SENTENCES: out[0] = static_cast<float>(count); return;
    case StoryFields::SUPPORT:
      for (const size_t sentence : question.support) {
        const size_t ago = question.story_end - 1 - sentence;
        if (ago < out.size()) out[ago] = 1;
      }
      return;
  }
}

void StoryMaker::Make(int64_t record, const SampleId& id, int64_t /*item*/, const Shape& /*shape*/,
                      SampleScratch& scratch, std::span<float> data, std::span<float> label) const {
  scratch.record.clock.Enter(Stage::kTransform);
  const Question& question = questions_[static_cast<size_t>(record)];
  Write(question, options_.fields.output(0), id, data);
  for (int top = 1; top < options_.fields.output_size(); ++top) {
    const auto size = static_cast<size_t>(SampleShape(options_.fields.output(top)).Count());
    Write(question, options_.fields.output(top), id, label.first(size));
    label = label.subspan(size);
  }
}

}  // namespace moka
