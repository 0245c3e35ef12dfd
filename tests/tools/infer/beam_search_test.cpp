// Beam search on a made-up language: against all translations there are, against the greedy one, sentence by sentence.
#include "tools/infer/beam_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "core/error.h"
#include "core/rng.h"
#include "core/text.h"
#include "data/text/vocabulary.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int32_t kVocabulary = 7;  // four marks and three words

// Scores of the word after a prefix: any numbers, but always the same. <unk> looks best.
std::vector<float> ScoresAfter(uint64_t sentence, const std::vector<int32_t>& prefix) {
  std::string text = StrCat(sentence, ":");
  for (const int32_t word : prefix) text += StrCat(word, " ");
  RandomStream random(7, StableHash(text));
  std::vector<float> scores;
  for (int32_t word = 0; word < kVocabulary; ++word) {
    scores.push_back(static_cast<float>(random.Uniform(-2, word == kUnknownWord ? 6 : 2)));
  }
  return scores;
}

double LogProbability(const std::vector<float>& scores, int32_t word) {
  double sum = 0;
  for (const float score : scores) sum += std::exp(static_cast<double>(score));
  return static_cast<double>(scores[static_cast<size_t>(word)]) - std::log(sum);
}

// A model of several sentences that keeps what each row has written.
class MadeUpLanguage {
 public:
  MadeUpLanguage(std::vector<uint64_t> sentences, int64_t beam)
      : sentences_(std::move(sentences)), beam_(static_cast<size_t>(beam)), rows_(sentences_.size() * beam_) {}
  BeamModel Model() {
    return {.next = [this](std::span<const int32_t> words,
                           std::span<const int64_t> parents) { return Next(words, parents); },
            .attention = [this](int64_t row) { return Attention(row); }};
  }
  int64_t calls() const { return calls_; }

 private:
  std::span<const float> Next(std::span<const int32_t> words, std::span<const int64_t> parents) {
    ++calls_;
    EXPECT_EQ(words.size(), rows_.size());
    EXPECT_EQ(parents.size(), rows_.size());
    std::vector<std::vector<int32_t>> next(rows_.size());
    scores_.clear();
    for (size_t r = 0; r < rows_.size(); ++r) {
      const auto parent = static_cast<size_t>(parents[r]);
      EXPECT_EQ(parent / beam_, r / beam_) << "a row goes on from another sentence";
      next[r] = rows_[parent];
      next[r].push_back(words[r]);
      const std::vector<float> scores = ScoresAfter(sentences_[r / beam_], next[r]);
      scores_.insert(scores_.end(), scores.begin(), scores.end());
    }
    rows_ = std::move(next);
    return scores_;
  }
  // The prefix's numbers, so that a mixed-up row is seen.
  std::vector<float> Attention(int64_t row) const {
    std::vector<float> seen;
    for (const int32_t word : rows_[static_cast<size_t>(row)]) seen.push_back(static_cast<float>(word));
    return seen;
  }

  std::vector<uint64_t> sentences_;
  size_t beam_;
  std::vector<std::vector<int32_t>> rows_;
  std::vector<float> scores_;
  int64_t calls_ = 0;
};

std::vector<Translation> Search(uint64_t sentence, const BeamOptions& options) {
  MadeUpLanguage language({sentence}, options.beam);
  return SearchBeams(options, language.Model()).front();
}

double Ranked(double log_probability, size_t words, double penalty) {
  return log_probability / std::pow((5.0 + static_cast<double>(words)) / 6.0, penalty);
}

// Every translation of up to `most` words, the end among them.
std::vector<Translation> AllTranslations(uint64_t sentence, int64_t most, double penalty) {
  std::vector<Translation> all;
  const std::function<void(std::vector<int32_t>, double)> go = [&](std::vector<int32_t> prefix, double before) {
    const std::vector<float> scores = ScoresAfter(sentence, prefix);
    const double end = before + LogProbability(scores, kEndWord);
    all.push_back({{prefix.begin() + 1, prefix.end()}, end, Ranked(end, prefix.size(), penalty), {}});
    if (static_cast<int64_t>(prefix.size()) == most) return;
    for (int32_t word = kUnknownWord + 1; word < kVocabulary; ++word) {
      std::vector<int32_t> longer = prefix;
      longer.push_back(word);
      go(longer, before + LogProbability(scores, word));
    }
  };
  go({kBeginWord}, 0);
  std::ranges::stable_sort(all, std::greater<>(), &Translation::score);
  return all;
}

TEST(BeamSearch, ABeamWideEnoughFindsTheBestOfAllTranslations) {
  for (const double penalty : {0.0, 0.6, 1.0}) {
    for (uint64_t sentence = 1; sentence <= 5; ++sentence) {
      const std::vector<Translation> expected = AllTranslations(sentence, 5, penalty);
      ASSERT_EQ(expected.size(), 121U);
      const std::vector<Translation> found =
          Search(sentence, {.beam = 400, .length_penalty = penalty, .most_words = {5}});
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].words, expected[i].words) << sentence << " " << i;
        EXPECT_NEAR(found[i].log_probability, expected[i].log_probability, 1e-9);
        EXPECT_NEAR(found[i].score, expected[i].score, 1e-9);
      }
    }
  }
}

TEST(BeamSearch, ABeamOfOneIsTheGreedyTranslation) {
  for (uint64_t sentence = 1; sentence <= 20; ++sentence) {
    std::vector<int32_t> prefix = {kBeginWord};
    double log_probability = 0;
    bool has_ended = false;
    while (!has_ended && prefix.size() <= 8) {
      const std::vector<float> scores = ScoresAfter(sentence, prefix);
      int32_t best = kEndWord;
      for (int32_t word = kUnknownWord + 1; word < kVocabulary; ++word) {
        if (scores[static_cast<size_t>(word)] > scores[static_cast<size_t>(best)]) best = word;
      }
      log_probability += LogProbability(scores, best);
      has_ended = best == kEndWord;
      if (!has_ended) prefix.push_back(best);
    }
    const std::vector<Translation> found = Search(sentence, {.beam = 1, .most_words = {8}});
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].words, std::vector<int32_t>(prefix.begin() + 1, prefix.end())) << sentence;
    EXPECT_NEAR(found[0].log_probability, log_probability, 1e-9);
  }
}

TEST(BeamSearch, EachTranslationIsWhatTheModelSaysOfIt) {
  for (uint64_t sentence = 1; sentence <= 20; ++sentence) {
    const std::vector<Translation> found = Search(sentence, {.beam = 4, .length_penalty = 0.8, .most_words = {9}});
    ASSERT_FALSE(found.empty());
    ASSERT_LE(found.size(), 4U);
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_GE(found[std::max<size_t>(i, 1) - 1].score, found[i].score);
      std::vector<int32_t> prefix = {kBeginWord};
      double sum = 0;
      for (const int32_t word : found[i].words) {
        ASSERT_GT(word, kUnknownWord);
        sum += LogProbability(ScoresAfter(sentence, prefix), word);
        prefix.push_back(word);
      }
      const bool has_ended = found[i].attention.size() == found[i].words.size() + 1;
      if (has_ended) sum += LogProbability(ScoresAfter(sentence, prefix), kEndWord);
      EXPECT_NEAR(found[i].log_probability, sum, 1e-9);
      EXPECT_NEAR(found[i].score, Ranked(sum, found[i].attention.size(), 0.8), 1e-9);
      // The attention at each word is of this translation's row.
      for (size_t k = 0; k < found[i].attention.size(); ++k) {
        EXPECT_EQ(found[i].attention[k], std::vector<float>(prefix.begin(), prefix.begin() + 1 + k));
      }
    }
  }
}

TEST(BeamSearch, ManySentencesAreTranslatedAsEachAlone) {
  const std::vector<uint64_t> sentences = {3, 9, 4, 9, 12};
  const BeamOptions together{.beam = 3, .most_words = {7, 2, 9, 1, 12}};
  MadeUpLanguage language(sentences, together.beam);
  const auto found = SearchBeams(together, language.Model());
  ASSERT_EQ(found.size(), sentences.size());
  for (size_t s = 0; s < sentences.size(); ++s) {
    const std::vector<Translation> alone = Search(sentences[s], {.beam = 3, .most_words = {together.most_words[s]}});
    ASSERT_EQ(found[s].size(), alone.size()) << s;
    for (size_t i = 0; i < alone.size(); ++i) {
      EXPECT_EQ(found[s][i].words, alone[i].words);
      EXPECT_EQ(found[s][i].score, alone[i].score);
      EXPECT_EQ(found[s][i].attention, alone[i].attention);
    }
  }
  EXPECT_LE(language.calls(), 12);
}

TEST(BeamSearch, WhatHasNotEndedCountsOnlyWhereNothingHas) {
  // Nothing ends within one word unless the end is among the best as many words as beams.
  for (uint64_t sentence = 1; sentence <= 20; ++sentence) {
    const std::vector<Translation> found = Search(sentence, {.beam = 2, .most_words = {1}});
    const bool has_ended = std::ranges::any_of(found, [](const Translation& one) { return one.words.empty(); });
    EXPECT_EQ(found.size(), has_ended ? 1U : 2U) << sentence;
  }
}

TEST(BeamSearch, ScoresBeyondTheVocabularyAreOfNoWord) {
  for (uint64_t sentence = 1; sentence <= 10; ++sentence) {
    for (const Translation& one : Search(sentence, {.beam = 5, .most_words = {6}, .words = kVocabulary - 2})) {
      for (const int32_t word : one.words) EXPECT_EQ(word, kUnknownWord + 1);
    }
  }
}

TEST(BeamSearch, MoreBeamsThanWordsAreLeftEmpty) {
  const std::vector<Translation> found = Search(2, {.beam = 50, .most_words = {2}});
  ASSERT_EQ(found.size(), 4U);  // nothing, or one of three words
}

TEST(BeamSearch, ScoresThatAreNoNumbersAreAnError) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    std::vector<float> scores(kVocabulary, 0.0F);
    scores[5] = bad;
    const BeamModel model{.next = [&](auto, auto) { return std::span<const float>(scores); }, .attention = nullptr};
    try {
      SearchBeams({.beam = 1, .most_words = {3}}, model);
      ADD_FAILURE() << "no error";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kBadData);
      EXPECT_THAT(e.what(), HasSubstr("the net's scores of the next word are no finite numbers; its weights may be of "
                                      "a training that diverged"));
    }
  }
}

}  // namespace
}  // namespace moka
