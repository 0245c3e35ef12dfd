// Sums of a table's rows by index and their gradient, over plain float32 tensors. The gradient is split by columns:
// each thread adds the sentences in order to its own columns, so sums do not depend on the threads.
#include "layers/ops/recurrent/embed_sum.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/threads/parallel.h"
#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
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

// Calls f(row or a negative number, weights, place) for each word of a sentence.
// Position encoding (Sukhbaatar et al., arXiv 1503.08895, section 4.1) weighs column k of word j by a line in k,
// `first` and `slope` of which are the word's.
template <class F>
void VisitSentence(const WordTable& t, const float* index, F&& f) {
  const auto padding = static_cast<float>(t.padding);
  const auto is_word = [&](float value) { return t.padding < 0 || value != padding; };
  const int64_t words = t.position ? std::count_if(index, index + t.width, is_word) : 0;
  int64_t word = 0;
  for (int64_t j = 0; j < t.width; ++j) {
    if (!is_word(index[j])) continue;
    ++word;
    const PositionWeights<float> weights =
        t.position ? PositionWeightsOf<float>(word, words, t.columns) : PositionWeights<float>{};
    f(ReadLabel(false, 0, double{index[j]}, t.rows), weights, j);
  }
}

class EmbedSumKernel final : public BoundKernel {
 public:
  explicit EmbedSumKernel(const WordTable& table) : t_(table) {}
  bool CanFault() const override { return true; }
  std::string TakeFault() override {
    const int64_t at = std::exchange(wrong_at_, -1);
    if (at < 0) return {};
    return WrongRowText(t_.rows, at, double{wrong_value_});
  }

  void Run() override {
    const auto* index = in<float>(0);
    const auto* w = in<float>(1);
    auto* y = out<float>(0);
    const int64_t grain = 1 + 16384 / std::max<int64_t>(1, t_.columns * t_.width);
    ParallelFor(t_.sentences, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) Sum(index + i * t_.width, w, y + i * t_.columns);
    });
    FindWrong(index, y);
  }

 private:
  void Sum(const float* index, const float* w, float* to) const {
    std::fill_n(to, t_.columns, 0.0F);
    VisitSentence(t_, index, [&](int64_t row, const PositionWeights<float>& l, int64_t) {
      if (row < 0) {
        std::fill_n(to, t_.columns, std::numeric_limits<float>::quiet_NaN());
        return;
      }
      const float* from = w + row * t_.columns;
      for (int64_t k = 0; k < t_.columns; ++k) to[k] += (l.first + l.slope * static_cast<float>(k + 1)) * from[k];
    });
  }

  // A wrong index leaves NaN in its sum; only then are the indices read again.
  void FindWrong(const float* index, const float* y) {
    for (int64_t i = 0; i < t_.sentences && wrong_at_ < 0; ++i) {
      if (t_.columns > 0 && y[i * t_.columns] == y[i * t_.columns]) continue;
      VisitSentence(t_, index + i * t_.width, [&](int64_t row, const PositionWeights<float>&, int64_t place) {
        if (row >= 0 || wrong_at_ >= 0) return;
        wrong_at_ = i * t_.width + place;
        wrong_value_ = index[wrong_at_];
      });
    }
  }

  WordTable t_;
  int64_t wrong_at_ = -1;
  float wrong_value_ = 0;
};

// Threads share the columns and each goes through all sentences: two sentences with one word would otherwise write the
// same row.
class EmbedSumBackwardKernel final : public BoundKernel {
 public:
  explicit EmbedSumBackwardKernel(const WordTable& table) : t_(table) {}

  void Run() override {
    const auto* index = in<float>(0);
    const auto* dy = in<float>(1);
    auto* dw = out<float>(0);
    ParallelFor(t_.rows * t_.columns, 1 << 14,
                [&](int64_t begin, int64_t end, int) { std::fill(dw + begin, dw + end, 0.0F); });
    // A cache line of columns at least; below some ten thousand additions threads cost more than they save.
    const int64_t grain = std::max<int64_t>(16, 1 + 16384 / std::max<int64_t>(1, t_.sentences * t_.width));
    ParallelFor(t_.columns, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = 0; i < t_.sentences; ++i) {
        const float* from = dy + i * t_.columns;
        VisitSentence(t_, index + i * t_.width, [&](int64_t row, const PositionWeights<float>& l, int64_t) {
          if (row < 0) return;
          float* to = dw + row * t_.columns;
          for (int64_t k = begin; k < end; ++k) to[k] += (l.first + l.slope * static_cast<float>(k + 1)) * from[k];
        });
      }
    });
  }

 private:
  WordTable t_;
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
