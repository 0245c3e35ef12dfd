// split_softmax_loss and its gradient (formulas in layers/ops/loss/split_softmax_loss.cpp): one exchange of three
// numbers a row and rank.
#include <algorithm>
#include <atomic>
#include <cfloat>
#include <cmath>
#include <limits>

#include "core/threads/parallel.h"
#include "graph/collectives.h"
#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cpu/loss/softmax_row.h"
#include "layers/ops/maths/labels.h"
#include "layers/ops/ranks/rank_parts.h"

namespace moka {
namespace {

// The matrix of both directions: all ranks' rows of the columns that this rank has.
class SplitLossKernel : public BoundKernel {
 public:
  explicit SplitLossKernel(const KernelQuery& query)
      : rank_(query.node.attributes.Int("rank")),
        ranks_(query.node.attributes.Int("ranks")),
        rows_(query.inputs[0].shape[0]),
        columns_(query.inputs[0].shape[1]),
        first_(PartBegin(query.node.attributes.Int("columns"), ranks_, rank_)),
        rule_{.classes = query.node.attributes.Int("columns"),
              .has_ignore = query.node.attributes.Bool("has_ignore"),
              .ignore_label = query.node.attributes.Int("ignore_label")} {}

 protected:
  template <class F>
  void ForRows(F&& f) {
    ParallelFor(rows_, 1 + 4096 / columns_, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) f(row);
    });
  }
  int64_t OwnRows() const { return rows_ / ranks_; }
  // The row's label among this rank's columns; -1: it is another's, or counts for nothing.
  int64_t OwnLabel(int64_t row) const {
    const int64_t label = rule_.Read(in<float>(1)[row]);
    return label >= first_ && label < first_ + columns_ ? label - first_ : -1;
  }

  int64_t rank_;
  int64_t ranks_;
  int64_t rows_;
  int64_t columns_;
  int64_t first_;
  LabelRule rule_;
};

// Every rank sums its columns of all rows, but computes the loss of its own rows alone.
class ForwardKernel final : public SplitLossKernel {
 public:
  explicit ForwardKernel(const KernelQuery& query)
      : SplitLossKernel(query),
        collectives_(query.collectives),
        key_(query.node.attributes.Int("key")),
        layer_(query.node.origin.layer),
        softmax_(BestSoftmaxRow()) {}

  // The scratch holds, of each rank, the largest scores of all rows, their sums and the scores of labels.
  int64_t scratch_bytes() const override { return ranks_ * OfRank() * static_cast<int64_t>(sizeof(float)); }
  bool CanFault() const override { return true; }
  std::string TakeFault() override {
    const int64_t row = wrong_.exchange(-1);
    return row < 0 ? std::string() : WrongLabelText(rule_, row - rank_ * OwnRows(), double{in<float>(1)[row]});
  }

  void Bind(const KernelArgs& args) override {
    BoundKernel::Bind(args);
    if (collectives_ == nullptr) return;
    std::vector<int64_t> received;
    for (int64_t r = 0; r <= ranks_; ++r) received.push_back(r * OfRank());
    const auto size = static_cast<size_t>(OfRank());
    collectives_->AnnounceParts(key_, layer_,
                                {.from = {Maxima(rank_), size},
                                 .to = {Maxima(0), static_cast<size_t>(ranks_) * size},
                                 .sent = {0, OfRank()},
                                 .received = std::move(received),
                                 .elements = ranks_ * OfRank()});
  }

  void Run() override {
    ForRows([this](int64_t row) { SumRow(row); });
    if (collectives_ != nullptr) {
      collectives_->Begin(key_);
      collectives_->End(key_);
    }
    ForRows([this](int64_t row) { ScaleRow(row); });
    double loss = 0;
    int64_t valid = 0;
    for (int64_t row = rank_ * OwnRows(); row < (rank_ + 1) * OwnRows(); ++row) {
      const int64_t label = rule_.Read(in<float>(1)[row]);
      if (label == kWrongLabel) wrong_ = row;
      if (label < 0) continue;
      const auto [max, sum, score] = OfRow(row);
      // The probability is held at FLT_MIN, as softmax_loss holds it.
      loss -= std::log(std::max(std::exp(score - max) / sum, double{FLT_MIN}));
      ++valid;
    }
    out<float>(0)[0] = static_cast<float>(loss);
    out<float>(1)[0] = static_cast<float>(valid);
  }

 private:
  struct RowSums {
    double max;
    double sum;
    double score;
  };
  int64_t OfRank() const { return 3 * rows_; }
  float* Maxima(int64_t rank) const { return scratch<float>() + rank * OfRank(); }

  // This rank's softmax as if its columns were all; ScaleRow corrects it by the other ranks' maxima and sums (the rule
  // of the online softmax, Milakov and Gimelshein, arXiv 1805.02867).
  void SumRow(int64_t row) {
    const float* x = in<float>(0) + row * columns_;
    const int64_t at = std::max_element(x, x + columns_) - x;
    const float part = softmax_(x, out<float>(2) + row * columns_, columns_, at);  // 1 / the sum
    float* own = Maxima(rank_);
    own[row] = x[at];
    own[rows_ + row] = 1.0F / part;
    const int64_t label = OwnLabel(row);
    own[2 * rows_ + row] = label < 0 ? 0.0F : x[label];
  }

  // Over all columns; a rank that has not told is left out.
  // Each rank's sum is brought to the largest maximum of all before it is added.
  RowSums OfRow(int64_t row) const {
    RowSums sums{-std::numeric_limits<double>::infinity(), 0, 0};
    const auto has_told = [this](int64_t r) { return collectives_ != nullptr || r == rank_; };
    for (int64_t r = 0; r < ranks_; ++r) {
      if (has_told(r)) sums.max = std::max(sums.max, double{Maxima(r)[row]});
    }
    for (int64_t r = 0; r < ranks_; ++r) {
      if (!has_told(r)) continue;
      sums.sum += double{Maxima(r)[rows_ + row]} * std::exp(double{Maxima(r)[row]} - sums.max);
      sums.score += double{Maxima(r)[2 * rows_ + row]};
    }
    return sums;
  }

  void ScaleRow(int64_t row) {
    const RowSums sums = OfRow(row);
    const float* own = Maxima(rank_);
    const auto part = static_cast<float>(double{own[rows_ + row]} * std::exp(double{own[row]} - sums.max) / sums.sum);
    float* p = out<float>(2) + row * columns_;
    for (int64_t k = 0; k < columns_; ++k) p[k] *= part;
  }

  Collectives* collectives_;
  int64_t key_;
  std::string layer_;
  SoftmaxRow softmax_;
  std::atomic<int64_t> wrong_ = -1;
};

// A rank needs no exchange here: it has the probabilities of its columns and all rows' labels and gradients.
class BackwardKernel final : public SplitLossKernel {
 public:
  using SplitLossKernel::SplitLossKernel;

  void Run() override {
    ForRows([this](int64_t row) {
      const float* p = in<float>(0) + row * columns_;
      auto* dx = out<float>(0) + row * columns_;
      const int64_t label = OwnLabel(row);
      const bool counts = rule_.Read(in<float>(1)[row]) >= 0;
      const float dloss = counts ? in<float>(2)[row / OwnRows()] : 0.0F;
      const float hit = label < 0 ? 0.0F : (p[label] - 1) * dloss;
      for (int64_t k = 0; k < columns_; ++k) dx[k] = counts ? p[k] * dloss : 0.0F;
      if (label >= 0) dx[label] = hit;
    });
  }
};

std::string Refuse(const KernelQuery& query) {
  const std::string reason = RefuseUnlessFilledFloat32(query);
  return reason.empty() ? RefuseUnlessPlain(query) : reason;
}

}  // namespace

KernelDef MokaSplitSoftmaxLoss() {
  return {.name = "moka",
          .op = "split_softmax_loss",
          .refuse = Refuse,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            return std::make_unique<ForwardKernel>(query);
          }};
}

KernelDef MokaSplitSoftmaxLossBackward() {
  return {.name = "moka",
          .op = "split_softmax_loss_backward",
          .refuse = Refuse,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            return std::make_unique<BackwardKernel>(query);
          }};
}

}  // namespace moka
