// A trained translator: its reader's program runs once over a batch of sentences, its writer's word by word, with the
// states of its recurrent layers carried, or over all words so far where the model's card says so.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/text/vocabulary.h"
#include "graph/parameter_store.h"
#include "graph/program.h"
#include "tools/infer/source.h"
#include "tools/infer/translation_parts.h"

namespace moka {

struct BuiltNet;

// One thread.
class TranslationNet {
 public:
  // `rows`: sentences times beams. Vocabularies are those of the run's config/, else those that the net names. Errors:
  // those of SplitTranslation, of the vocabularies, of building the net and of loading the weights.
  TranslationNet(const InferSource& source, int64_t rows);
  TranslationNet(const TranslationNet&) = delete;
  TranslationNet& operator=(const TranslationNet&) = delete;
  ~TranslationNet();

  int64_t rows() const { return rows_; }
  const Vocabulary& source_words() const { return *source_words_; }
  const Vocabulary& target_words() const { return *target_words_; }
  TextTokens tokens() const { return fields().tokens(); }
  // Words of a sentence at most; longer ones are to be cut.
  int64_t most_source_words() const { return int64_t{fields().source_length()} - 1; }
  // Returns the most words of a translation, its end among them; a writer that carries states takes as many as one
  // likes.
  int64_t most_target_words() const;
  // The program that runs for each word of sentences of so many words.
  const Program& WriterFor(int64_t words);

  // A source for each row, of 1 to most_source_words() numbers each. Requires: rows() of them.
  void Read(std::span<const std::vector<int32_t>> sources);
  // Scores [rows, target words] of what comes after row r's words, which are those of row parents[r] in the call
  // before, then words[r] (the first time: <s>). Good until the next call. Requires: Read; fewer calls since than
  // most_target_words().
  std::span<const float> Next(std::span<const int32_t> words, std::span<const int64_t> parents);
  bool has_attention() const { return !attention_.empty(); }
  // After Next: how much row r's last word saw of each word of its source and of the source's end.
  std::vector<float> Attention(int64_t row) const;

 private:
  struct Programs {
    int64_t steps = 0;  // of the source
    std::unique_ptr<Program> reader;
    std::unique_ptr<Program> writer;
  };
  const TextPairDataParameter& fields() const { return parts_.pairs.text_pair_data_param(); }
  Programs& ProgramsFor(int64_t words);
  Programs Build(int64_t steps);
  BuiltNet BuildPart(const NetParameter& part, const std::vector<std::pair<std::string, Shape>>& inputs);
  std::unique_ptr<Program> CompilePart(BuiltNet& net, const std::string& name);
  void FillSource(Program& program, std::span<const std::vector<int32_t>> sources) const;
  void CarryStates(std::span<const int64_t> parents);
  void FillTarget(std::span<const int32_t> words, std::span<const int64_t> parents);

  InferSource source_;
  int64_t rows_;
  ParameterStore store_;
  TranslationParts parts_;
  std::unique_ptr<Vocabulary> source_words_;
  std::unique_ptr<Vocabulary> target_words_;
  std::string attention_;  // top of the writer; empty: none is named
  bool has_weights_ = false;
  std::map<int64_t, Programs> programs_;  // by steps of the source
  Programs* now_ = nullptr;
  int64_t step_ = 0;                           // words written
  std::vector<int64_t> lengths_;               // of the rows' sources, with the end
  std::vector<std::vector<int32_t>> written_;  // by row, where the writer runs over all words
  std::vector<float> carried_;
};

}  // namespace moka
