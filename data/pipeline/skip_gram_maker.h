// Pairs of a word and one near it, and words drawn at random beside them: what skip-gram models with negative sampling
// learn from (Mikolov et al., "Distributed representations of words and phrases and their compositionality", 2013,
// arXiv 1310.4546). A record is a word of the text; all text is read once and held: 4 bytes a word.
#pragma once

#include <vector>

#include "core/rng.h"
#include "data/pipeline/sample_maker.h"
#include "data/text/tokens.h"
#include "data/text/vocabulary.h"

namespace moka {

struct SkipGramOptions {
  std::vector<std::filesystem::path> sources;
  std::filesystem::path vocabulary;
  SkipGramDataParameter fields;  // outputs, tokens, window, negatives, subsample, power
  uint64_t seed = 0;
};

class SkipGramMaker final : public SampleMaker {
 public:
  // Reads files and vocabulary; words that it lacks are as if they were not there. Errors: kNoInput; kBadData at the
  // line for bytes that are no UTF-8, and when no line has two words; those of the vocabulary.
  explicit SkipGramMaker(SkipGramOptions options);
  int64_t record_count() const override { return static_cast<int64_t>(words_.size()); }
  // "train.en:17, word 3".
  std::string NameOf(int64_t record) const override;
  Shape DataShape(int64_t record, SampleScratch& scratch) const override;
  std::vector<Shape> LabelShapes(int64_t batch_size, const Shape& sample) const override;
  void Make(int64_t record, const SampleId& id, int64_t item, const Shape& shape, SampleScratch& scratch,
            std::span<float> data, std::span<float> label) const override;

 private:
  struct Line {
    size_t begin = 0;  // of its words; the next line's is its end
    int32_t source = 0;
    int32_t number = 0;
  };
  struct Pair {
    int32_t center = 0;
    int32_t context = 0;
  };
  void ReadSource(size_t source, const Vocabulary& vocabulary);
  // Fills kept_ and drawn_ from how often each word stands in the text.
  void CountWords(int64_t vocabulary_size);
  // The record's word with one of its neighbours, or those of another place where the word is passed over.
  Pair Draw(size_t record, RandomStream& random) const;
  // A neighbour of the word at a place, or -1 where all of them were passed over.
  int32_t Neighbor(size_t place, RandomStream& random) const;
  int32_t DrawnWord(RandomStream& random) const;

  SkipGramOptions options_;
  std::vector<int32_t> words_;
  std::vector<Line> lines_;    // of two words at least; one more at the end
  std::vector<float> kept_;    // of each word the probability that it is not passed over
  std::vector<double> drawn_;  // sums of count^power over the words up to each
};

}  // namespace moka
