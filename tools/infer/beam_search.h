// Beam search: the best translations, word by word, of several sentences at once (Sutskever et al., arXiv 1409.3215),
// ranked with the length penalty of Wu et al., arXiv 1609.08144: score = log P / ((5 + words) / 6)^a. A sentence is
// done when as many translations as beams have ended; one ends where its end is among the best of as many next words.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace moka {

struct BeamOptions {
  int64_t beam = 5;  // translations that are followed at once, a sentence
  double length_penalty = 1;
  std::vector<int64_t> most_words;  // of each sentence's translations, the end counted
  int64_t words = INT64_MAX;        // of the vocabulary: scores beyond are of no word and are never written
};

struct Translation {
  std::vector<int32_t> words;  // without marks
  double log_probability = 0;  // of the words and the end
  double score = 0;
  std::vector<std::vector<float>> attention;  // of each word, then of the end; empty where none was asked for
};

// The questions that the search asks the net. Rows are sentences times beams: beam k of sentence s is row s * beam + k.
struct BeamModel {
  // The scores [rows, vocabulary] of the words that come next where row r goes on from what row parents[r] was after
  // the call before, followed by words[r]. Logits, or anything whose softmax are the probabilities.
  std::function<std::span<const float>(std::span<const int32_t> words, std::span<const int64_t> parents)> next;
  // How much of each source word row r saw in the last call; null: nobody asks.
  std::function<std::vector<float>(int64_t row)> attention;
};

// Up to `beam` translations of each sentence, the best first. <pad>, <s> and <unk> are never written. Requires: a
// length for each sentence, at least 1. Errors: kBadData where scores are not finite.
std::vector<std::vector<Translation>> SearchBeams(const BeamOptions& options, const BeamModel& model);

}  // namespace moka
