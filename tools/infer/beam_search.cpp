// All sentences' beams run as rows of one batch. Hypotheses are ranked by log-probability over a length penalty (Wu et
// al., arXiv 1609.08144, section 7), and a sentence ends when as many have ended as it has beams.
#include "tools/infer/beam_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "data/text/vocabulary.h"

namespace moka {
namespace {

constexpr double kImpossible = -std::numeric_limits<double>::infinity();

struct NextWord {
  double log_probability = 0;
  int64_t beam = 0;
  int32_t word = 0;
};

// log of the sum of exponentials. A NaN would make the order of words undefined.
double LogSum(std::span<const float> scores) {
  const double most = *std::ranges::max_element(scores);
  double sum = 0;
  for (const float score : scores) sum += std::exp(static_cast<double>(score) - most);
  const double log_sum = most + std::log(sum);
  if (std::isfinite(log_sum)) return log_sum;
  throw Error(ErrorKind::kBadData, {}, "the net's scores of the next word are no finite numbers",
              "its weights may be of a training that diverged");
}

class SearchedSentence {
 public:
  SearchedSentence(const BeamOptions& options, int64_t most_words)
      : beam_(options.beam), penalty_(options.length_penalty), words_(options.words), most_words_(most_words) {
    beams_.resize(static_cast<size_t>(beam_));
    for (size_t k = 1; k < beams_.size(); ++k) beams_[k].log_probability = kImpossible;  // one beginning alone
  }
  bool is_done() const { return is_done_; }
  // Takes the scores of its rows, [beam, vocabulary], and says which beams go on with which words.
  void Advance(std::span<const float> scores, const std::function<std::vector<float>(int64_t)>& attention,
               std::span<int32_t> words, std::span<int64_t> parents);
  std::vector<Translation> Finish();

 private:
  double Ranked(double log_probability, size_t words) const {
    return log_probability / std::pow((5.0 + static_cast<double>(words)) / 6.0, penalty_);
  }
  std::vector<NextWord> Best(std::span<const float> scores) const;

  int64_t beam_;
  double penalty_;
  int64_t words_;
  int64_t most_words_;
  std::vector<Translation> beams_;
  std::vector<Translation> ended_;
  int64_t length_ = 0;
  bool is_done_ = false;
};

// Twice as many as beams: at most one in each beam ends, so that enough of them go on.
std::vector<NextWord> SearchedSentence::Best(std::span<const float> scores) const {
  const size_t vocabulary = scores.size() / static_cast<size_t>(beam_);
  const size_t wanted = 2 * static_cast<size_t>(beam_);
  std::vector<NextWord> best;
  const auto is_better = [](const NextWord& a, const NextWord& b) {
    if (a.log_probability != b.log_probability) return a.log_probability > b.log_probability;
    return a.beam != b.beam ? a.beam < b.beam : a.word < b.word;
  };
  for (int64_t k = 0; k < beam_; ++k) {
    const double before = beams_[static_cast<size_t>(k)].log_probability;
    if (before == kImpossible) continue;
    const auto row = scores.subspan(static_cast<size_t>(k) * vocabulary, vocabulary);
    const double sum = LogSum(row);
    for (size_t word = 0; word < vocabulary && std::cmp_less(word, words_); ++word) {
      if (word == kNoWord || word == kBeginWord || word == kUnknownWord) continue;
      const NextWord one{before + static_cast<double>(row[word]) - sum, k, static_cast<int32_t>(word)};
      if (best.size() == wanted && !is_better(one, best.front())) continue;
      best.push_back(one);  // a heap with the worst on top
      std::ranges::push_heap(best, is_better);
      if (best.size() <= wanted) continue;
      std::ranges::pop_heap(best, is_better);
      best.pop_back();
    }
  }
  std::ranges::sort(best, is_better);
  return best;
}

void SearchedSentence::Advance(std::span<const float> scores,
                               const std::function<std::vector<float>(int64_t)>& attention, std::span<int32_t> words,
                               std::span<int64_t> parents) {
  ++length_;
  std::vector<Translation> next;
  const std::vector<NextWord> best = Best(scores);
  for (size_t rank = 0; rank < best.size() && next.size() < static_cast<size_t>(beam_); ++rank) {
    const NextWord& one = best[rank];
    if (one.word == kEndWord && rank >= static_cast<size_t>(beam_)) continue;  // as if there were no more beams
    Translation translation = beams_[static_cast<size_t>(one.beam)];
    translation.log_probability = one.log_probability;
    if (attention) translation.attention.push_back(attention(one.beam));
    if (one.word == kEndWord) {
      translation.score = Ranked(one.log_probability, static_cast<size_t>(length_));
      ended_.push_back(std::move(translation));
      continue;
    }
    words[next.size()] = one.word;
    parents[next.size()] = one.beam;
    translation.words.push_back(one.word);
    next.push_back(std::move(translation));
  }
  while (next.size() < static_cast<size_t>(beam_)) {  // fewer words than beams
    words[next.size()] = kEndWord;
    parents[next.size()] = 0;
    next.emplace_back().log_probability = kImpossible;
  }
  beams_ = std::move(next);
  is_done_ = length_ >= most_words_ || ended_.size() >= static_cast<size_t>(beam_);
}

// Returns the translations; a beam that did not end counts only where none did.
std::vector<Translation> SearchedSentence::Finish() {
  if (ended_.empty()) {
    for (Translation& beam : beams_) {
      if (beam.log_probability == kImpossible) continue;
      beam.score = Ranked(beam.log_probability, static_cast<size_t>(length_));
      ended_.push_back(std::move(beam));
    }
  }
  std::ranges::stable_sort(ended_, std::greater<>(), &Translation::score);
  if (ended_.size() > static_cast<size_t>(beam_)) ended_.resize(static_cast<size_t>(beam_));
  return std::move(ended_);
}

}  // namespace

std::vector<std::vector<Translation>> SearchBeams(const BeamOptions& options, const BeamModel& model) {
  const auto beam = static_cast<size_t>(options.beam);
  std::vector<SearchedSentence> sentences;
  for (const int64_t most : options.most_words) sentences.emplace_back(options, most);
  std::vector<int32_t> words(sentences.size() * beam, kBeginWord);
  std::vector<int64_t> parents(words.size());
  std::iota(parents.begin(), parents.end(), int64_t{0});
  while (std::ranges::any_of(sentences, [](const SearchedSentence& sentence) { return !sentence.is_done(); })) {
    const std::span<const float> scores = model.next(words, parents);
    const size_t share = scores.size() / sentences.size();
    for (size_t s = 0; s < sentences.size(); ++s) {
      const auto first = static_cast<int64_t>(s * beam);
      for (size_t k = 0; k < beam; ++k) parents[s * beam + k] = first + static_cast<int64_t>(k);
      if (sentences[s].is_done()) continue;
      std::function<std::vector<float>(int64_t)> attention;
      if (model.attention) attention = [&](int64_t k) { return model.attention(first + k); };
      const auto own = std::span(parents).subspan(s * beam, beam);
      sentences[s].Advance(scores.subspan(s * share, share), attention, std::span(words).subspan(s * beam, beam), own);
      for (int64_t& parent : own) parent += sentences[s].is_done() ? 0 : first;
      if (sentences[s].is_done()) std::iota(own.begin(), own.end(), first);
    }
  }
  std::vector<std::vector<Translation>> translations;
  for (SearchedSentence& sentence : sentences) translations.push_back(sentence.Finish());
  return translations;
}

}  // namespace moka
