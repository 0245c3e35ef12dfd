// Questions about stories, as numbers of a vocabulary, for memory networks (Sukhbaatar et al., "End-to-end memory
// networks", 2015, arXiv 1503.08895). A record is a question; its story is what was said before it. All stories are
// read once and held: 4 bytes a word.
#pragma once

#include <vector>

#include "core/rng.h"
#include "data/pipeline/sample_maker.h"
#include "data/text/stories.h"
#include "data/text/vocabulary.h"

namespace moka {

struct StoryOptions {
  std::vector<std::filesystem::path> sources;
  std::filesystem::path vocabulary;
  StoryDataParameter fields;  // outputs, sentences, words, validation; time_noise in TRAIN
  Phase phase = TRAIN;
  uint64_t seed = 0;  // of time_noise
  enum class Bad { kStop, kLeftOut } bad_lines = Bad::kStop;
};

class StoryMaker final : public SampleMaker {
 public:
  // Reads files and vocabulary. Errors: kNoInput; kBadData at the line: those of ReadStoryLines, a sentence or question
  // of more than `words` words, an answer that the vocabulary lacks (TRAIN, or with validation), support that is no
  // sentence of the story; kBadData when no question is left; those of the vocabulary.
  explicit StoryMaker(StoryOptions options);
  int64_t record_count() const override { return static_cast<int64_t>(questions_.size()); }
  // "qa1_train.txt:3", where the question stands.
  std::string NameOf(int64_t record) const override;
  Shape DataShape(int64_t record, SampleScratch& scratch) const override;
  std::vector<Shape> LabelShapes(int64_t batch_size, const Shape& sample) const override;
  void Make(int64_t record, const SampleId& id, int64_t item, const Shape& shape, SampleScratch& scratch,
            std::span<float> data, std::span<float> label) const override;

 private:
  struct Sentence {
    size_t begin = 0;  // of its words
    int32_t length = 0;
    int32_t number = 0;  // in its story
  };
  struct Question {
    Sentence text;
    size_t story_begin = 0;  // the sentences [story_begin, story_end)
    size_t story_end = 0;
    std::vector<size_t> support;  // sentences
    int32_t answer = 0;
    int32_t source = 0;
    int32_t line = 0;
  };
  void ReadSource(size_t source, const Vocabulary& vocabulary);
  // The words of a line. Errors: kBadData when they are too many.
  Sentence Keep(const StoryLine& line, const Vocabulary& vocabulary);
  // Leaves the questions of the phase where some are kept for validation.
  void TakePart();
  Shape SampleShape(StoryDataParameter::Output output) const;
  void Write(const Question& question, StoryDataParameter::Output output, const SampleId& id,
             std::span<float> out) const;
  void WriteWords(const Sentence& sentence, std::span<float> out) const;
  // How long ago the last sentences were said, the latest first.
  void WriteTimes(int64_t count, RandomStream random, std::span<float> out) const;
  int64_t SentencesOf(const Question& question) const;

  StoryOptions options_;
  int64_t width_ = 1;  // words of a sentence's row
  std::vector<int32_t> words_;
  std::vector<Sentence> sentences_;
  std::vector<Question> questions_;
};

}  // namespace moka
