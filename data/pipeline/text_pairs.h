// Pairs of sentences, a text and on the same lines what it becomes, as numbers of two vocabularies. All pairs are read
// once and held: 4 bytes a word.
#pragma once

#include <vector>

#include "data/pipeline/sample_maker.h"
#include "data/text/tokens.h"
#include "data/text/vocabulary.h"

namespace moka {

struct TextPairOptions {
  std::filesystem::path source;
  std::filesystem::path target;
  std::filesystem::path source_vocabulary;
  std::filesystem::path target_vocabulary;
  TextPairDataParameter fields;  // outputs, tokens, lengths, reverse_source
  enum class Long { kLeftOut, kCut } long_sentences = Long::kCut;
  enum class Bad { kStop, kLeftOut } bad_pairs = Bad::kStop;
};

class TextPairMaker final : public SampleMaker {
 public:
  // Reads files and vocabularies; what is left out is told by a warning or in the log. Errors: kNoInput; kBadData at
  // the line for a sentence without words and bytes that are no UTF-8, when the files differ in their number of lines
  // and when no pair is left; those of the vocabularies.
  explicit TextPairMaker(TextPairOptions options);
  int64_t record_count() const override { return static_cast<int64_t>(pairs_.size()); }
  // "train.de:17", of the source.
  std::string NameOf(int64_t record) const override;
  Shape DataShape(int64_t record, SampleScratch& scratch) const override;
  Shape DataTop(int64_t batch_size, const Shape& sample) const override;
  int64_t StepsOf(size_t top) const override;
  std::vector<Shape> LabelShapes(int64_t batch_size, const Shape& sample) const override;
  void Make(int64_t record, const SampleId& id, int64_t item, const Shape& shape, SampleScratch& scratch,
            std::span<float> data, std::span<float> label) const override;

  // Returns the length of the longer sentence of each pair, with its mark.
  std::vector<int64_t> Lengths() const;

 private:
  // Words begin at `begin`: the source's, then the target's.
  struct Pair {
    size_t begin = 0;
    int32_t source = 0;  // words, without marks
    int32_t target = 0;
    int32_t line = 0;
  };
  void Read();
  // Appends a line's words. Errors: kBadData at the line.
  int32_t ReadSentence(const TextLines& lines, const Vocabulary& vocabulary);
  // Cuts the pair whose words were read last, or takes them back. Returns whether it stays.
  bool Fit(Pair& pair);
  void Write(const Pair& pair, TextPairDataParameter::Output output, std::span<float> out) const;
  TextPairDataParameter::Output OutputOf(size_t top) const;

  TextPairOptions options_;
  std::vector<int32_t> words_;
  std::vector<Pair> pairs_;
};

}  // namespace moka
