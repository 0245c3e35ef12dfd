// Sums of tables' rows by index and their gradient, over plain float32 tensors. The words of some sentences are read at
// a time and then added for one table after the other. The gradient is split by columns: each thread adds the sentences
// in order to its own columns, so sums do not depend on the threads.
#include "layers/ops/recurrent/embed_sum.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "core/size.h"
#include "core/threads/parallel.h"
#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cpu/recurrent/embed_rows.h"
#include "layers/ops/maths/labels.h"

namespace moka {
namespace {

struct WordTable {
  int64_t sentences = 0;
  int64_t width = 0;  // places for words in a sentence
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t padding = -1;
  bool position = false;
};

// The weights of words by their place and the words of their sentence; those of short sentences are made once.
// Position encoding (Sukhbaatar et al., arXiv 1503.08895, section 4.1) weighs column k of word j by a line in k,
// `first` and `slope` of which are the word's.
class SentenceWeights {
 public:
  explicit SentenceWeights(const WordTable& t) : columns_(t.columns), position_(t.position) {
    for (int64_t words = 1; position_ && words <= std::min(t.width, kShort); ++words) {
      for (int64_t word = 1; word <= words; ++word) short_.push_back(PositionWeightsOf<float>(word, words, columns_));
    }
  }
  // word: from 1.
  PositionWeights<float> Of(int64_t word, int64_t words) const {
    if (!position_) return {};
    if (words > kShort) return PositionWeightsOf<float>(word, words, columns_);
    return short_[static_cast<size_t>(words * (words - 1) / 2 + word - 1)];
  }

 private:
  static constexpr int64_t kShort = 32;
  int64_t columns_;
  bool position_;
  std::vector<PositionWeights<float>> short_;
};

// Calls f(row or a negative number, weights, place) for each word of a sentence.
template <class F>
void VisitSentence(const WordTable& t, const SentenceWeights& weights, const float* index, F&& f) {
  const auto padding = static_cast<float>(t.padding);
  const auto is_word = [&](float value) { return t.padding < 0 || value != padding; };
  const int64_t words = t.position ? std::count_if(index, index + t.width, is_word) : 0;
  int64_t word = 0;
  for (int64_t j = 0; j < t.width; ++j) {
    if (!is_word(index[j])) continue;
    ++word;
    f(ReadLabel(false, 0, double{index[j]}, t.rows), weights.Of(word, words), j);
  }
}

// The words of some sentences, in memory that one thread fills again for the next ones.
class Words {
 public:
  // Sentences and, for each of them, all words it may have.
  static int64_t AtATime(const WordTable& t) { return std::max<int64_t>(1, 2048 / std::max<int64_t>(1, t.width)); }
  static int64_t BytesOf(const WordTable& t) {
    return RoundUp(AtATime(t) * (t.width * kWordBytes + static_cast<int64_t>(sizeof(Sentence))), 64).value();
  }

  Words(const WordTable& t, const SentenceWeights& weights, const EmbedLoops& loops, std::byte* memory)
      : t_(t),
        weights_(weights),
        loops_(loops),
        words_(reinterpret_cast<EmbedWord*>(memory)),
        sentences_(reinterpret_cast<Sentence*>(memory + AtATime(t) * t.width * kWordBytes)) {}

  // Reads sentences [begin, end), AtATime at most.
  void Read(const float* index, int64_t begin, int64_t end) {
    EmbedWord* next = words_;
    for (int64_t i = begin; i < end; ++i) {
      Sentence& s = sentences_[i - begin];
      s = {.words = next, .count = 0, .is_right = true};
      ReadOne(index + i * t_.width, s);
      next += s.count;
    }
  }
  const EmbedWord* of(int64_t sentence) const { return sentences_[sentence].words; }
  int64_t count(int64_t sentence) const { return sentences_[sentence].count; }
  // Whether every word names a row; those that do not are left out.
  bool is_right(int64_t sentence) const { return sentences_[sentence].is_right; }

 private:
  struct Sentence {
    EmbedWord* words;
    int64_t count;
    bool is_right;
  };
  static constexpr auto kWordBytes = static_cast<int64_t>(sizeof(EmbedWord));

  void ReadOne(const float* index, Sentence& s) const {
    // Most places of a short story have no sentence.
    constexpr int64_t kLook = 8;
    const bool is_long = t_.padding >= 0 && t_.width >= kLook;
    if (is_long && !loops_.has_other(index, t_.width, static_cast<float>(t_.padding))) return;
    VisitSentence(t_, weights_, index, [&](int64_t row, const PositionWeights<float>& l, int64_t) {
      if (row < 0) {
        s.is_right = false;
        return;
      }
      s.words[s.count++] = {.at = row * t_.columns, .first = l.first, .slope = l.slope};
    });
  }

  const WordTable& t_;
  const SentenceWeights& weights_;
  const EmbedLoops& loops_;
  EmbedWord* words_;
  Sentence* sentences_;
};

std::vector<float> RampOf(const WordTable& t) {
  std::vector<float> ramp(static_cast<size_t>(t.columns));
  std::iota(ramp.begin(), ramp.end(), 1.0F);
  return ramp;
}

class EmbedSumKernel final : public BoundKernel {
 public:
  explicit EmbedSumKernel(const WordTable& table) : t_(table), weights_(table), ramp_(RampOf(table)) {}
  bool CanFault() const override { return true; }
  std::string TakeFault() override {
    const int64_t at = std::exchange(wrong_at_, -1);
    if (at < 0) return {};
    return WrongRowText(t_.rows, at, double{wrong_value_});
  }

  int64_t scratch_bytes() const override { return ThreadCount() * Words::BytesOf(t_); }

  void Run() override {
    const auto* index = in<float>(0);
    const int64_t grain = 1 + 65536 / std::max<int64_t>(1, t_.columns * t_.width);
    std::atomic<bool> is_wrong = false;
    ParallelFor(t_.sentences, grain, [&](int64_t begin, int64_t end, int thread) {
      Words words(t_, weights_, loops_, scratch<std::byte>(thread * Words::BytesOf(t_)));
      bool is_wrong_here = false;
      for (int64_t i = begin; i < end; i += Words::AtATime(t_)) {
        const int64_t count = std::min(Words::AtATime(t_), end - i);
        words.Read(index, i, i + count);
        for (size_t table = 0; table < output_count(); ++table) {
          float* y = out<float>(table) + i * t_.columns;
          for (int64_t s = 0; s < count; ++s, y += t_.columns) {
            Sum(words, s, in<float>(1 + table), y);
            is_wrong_here |= !words.is_right(s);
          }
        }
      }
      if (is_wrong_here) is_wrong = true;
    });
    if (is_wrong) FindWrong(index);
  }

 private:
  // A word that names no row makes the sum NaN.
  void Sum(const Words& words, int64_t sentence, const float* w, float* to) const {
    if (!words.is_right(sentence)) {
      std::fill_n(to, t_.columns, std::numeric_limits<float>::quiet_NaN());
      return;
    }
    loops_.sum({.words = words.of(sentence), .count = words.count(sentence), .end = t_.columns, .ramp = ramp_.data()},
               w, to);
  }

  void FindWrong(const float* index) {
    for (int64_t i = 0; i < t_.sentences && wrong_at_ < 0; ++i) {
      VisitSentence(t_, weights_, index + i * t_.width, [&](int64_t row, const PositionWeights<float>&, int64_t place) {
        if (row >= 0 || wrong_at_ >= 0) return;
        wrong_at_ = i * t_.width + place;
        wrong_value_ = index[wrong_at_];
      });
    }
  }

  WordTable t_;
  SentenceWeights weights_;
  std::vector<float> ramp_;
  EmbedLoops loops_ = BestEmbedLoops();
  int64_t wrong_at_ = -1;
  float wrong_value_ = 0;
};

// Threads share the columns and each goes through all sentences: two sentences with one word would otherwise write the
// same row.
class EmbedSumBackwardKernel final : public BoundKernel {
 public:
  explicit EmbedSumBackwardKernel(const WordTable& table) : t_(table), weights_(table), ramp_(RampOf(table)) {}

  int64_t scratch_bytes() const override { return ThreadCount() * Words::BytesOf(t_); }

  void Run() override {
    for (size_t table = 0; table < output_count(); ++table) {
      ParallelFor(t_.rows * t_.columns, 1 << 14, [&](int64_t begin, int64_t end, int) {
        std::fill(out<float>(table) + begin, out<float>(table) + end, 0.0F);
      });
    }
    // Columns go by cache lines; below some tens of thousands of additions threads cost more than they save.
    constexpr int64_t kLine = 16;
    const int64_t grain = 1 + 4096 / std::max<int64_t>(1, t_.sentences * t_.width);
    ParallelFor((t_.columns + kLine - 1) / kLine, grain, [&](int64_t begin, int64_t end, int thread) {
      Words words(t_, weights_, loops_, scratch<std::byte>(thread * Words::BytesOf(t_)));
      EmbedRows rows{.begin = begin * kLine, .end = std::min(end * kLine, t_.columns), .ramp = ramp_.data()};
      for (int64_t i = 0; i < t_.sentences; i += Words::AtATime(t_)) {
        const int64_t count = std::min(Words::AtATime(t_), t_.sentences - i);
        words.Read(in<float>(0), i, i + count);
        for (size_t table = 0; table < output_count(); ++table) {
          const float* dy = in<float>(1 + table) + i * t_.columns;
          for (int64_t s = 0; s < count; ++s, dy += t_.columns) {
            rows.words = words.of(s);
            rows.count = words.count(s);
            loops_.add(rows, dy, out<float>(table));
          }
        }
      }
    });
  }

 private:
  WordTable t_;
  SentenceWeights weights_;
  std::vector<float> ramp_;
  EmbedLoops loops_ = BestEmbedLoops();
};

WordTable WordTableOf(const KernelQuery& query, const Shape& table) {
  const Shape& index = query.inputs[0].shape;
  const Attributes& a = query.node.attributes;
  return {.sentences = index.Count(0, index.rank() - 1),
          .width = index[index.rank() - 1],
          .rows = table[0],
          .columns = table[1],
          .padding = a.Int("padding"),
          .position = a.Bool("position")};
}

std::string RefuseEmbedSum(const KernelQuery& query) {
  for (const TensorType& type : query.inputs) {
    if (type.dtype != DType::kFloat32) return StrCat("it works on float32, not ", type.ToString());
  }
  return RefuseUnlessPlain(query);
}

}  // namespace

KernelDef MokaEmbedSum() {
  return {.name = "moka",
          .op = "embed_sum",
          .refuse = RefuseEmbedSum,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            return std::make_unique<EmbedSumKernel>(WordTableOf(query, query.inputs[1].shape));
          }};
}

KernelDef MokaEmbedSumBackward() {
  return {.name = "moka",
          .op = "embed_sum_backward",
          .refuse = RefuseEmbedSum,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            return std::make_unique<EmbedSumBackwardKernel>(WordTableOf(query, query.outputs[0].shape));
          }};
}

}  // namespace moka
