// gather_rows, scatter_rows, exchange_columns and exchange_rows: one exchange between all ranks each, which the program
// waits for. What is sent is read where it lies and what comes is put where it belongs where that is one piece of
// memory; columns among others are copied.
#include "layers/ops/ranks/rank_parts.h"

#include <algorithm>
#include <cstring>

#include "graph/collectives.h"
#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"

namespace moka {
namespace {

// Bounds of what is sent and received are announced when the kernel is bound, so that a run only starts and waits.
class RankPartsKernel : public BoundKernel {
 public:
  explicit RankPartsKernel(const KernelQuery& query)
      : rank_(query.node.attributes.Int("rank")),
        ranks_(query.node.attributes.Int("ranks")),
        collectives_(query.collectives),
        key_(query.node.attributes.Int("key")),
        layer_(query.node.origin.layer) {}

 protected:
  // Bounds of parts of `size` elements each, one for every rank.
  std::vector<int64_t> Even(int64_t size) const {
    std::vector<int64_t> bounds;
    for (int64_t r = 0; r <= ranks_; ++r) bounds.push_back(r * size);
    return bounds;
  }
  // Where ranks' parts of the columns of n rows begin, one behind the other.
  std::vector<int64_t> OfColumns(int64_t columns, int64_t n) const {
    std::vector<int64_t> bounds;
    for (int64_t r = 0; r <= ranks_; ++r) bounds.push_back(n * PartBegin(columns, ranks_, r));
    return bounds;
  }
  void Announce(const PartsExchange& parts) {
    if (collectives_ != nullptr) collectives_->AnnounceParts(key_, layer_, parts);
  }
  // Where there is no exchange, others' parts of what comes are zeros.
  void Exchange(float* received, int64_t count) {
    if (collectives_ == nullptr) {
      std::fill_n(received, count, 0.0F);
      return;
    }
    collectives_->Begin(key_);
    collectives_->End(key_);
  }
  static size_t Bytes(int64_t count) { return static_cast<size_t>(count) * sizeof(float); }

  int64_t rank_;
  int64_t ranks_;

 private:
  Collectives* collectives_;
  int64_t key_;
  std::string layer_;
};

// A rank's own rows are copied last, since the whole output is filled with zeros where there is no exchange.
class GatherRowsKernel final : public RankPartsKernel {
 public:
  explicit GatherRowsKernel(const KernelQuery& query) : RankPartsKernel(query), own_(query.inputs[0].shape.Count()) {}

  void Bind(const KernelArgs& args) override {
    BoundKernel::Bind(args);
    Announce({.from = args.inputs[0].as<float>(),
              .to = args.outputs[0].as<float>(),
              .sent = {0, own_},
              .received = Even(own_),
              .elements = own_ * ranks_});
  }

  void Run() override {
    Exchange(out<float>(0), own_ * ranks_);
    std::memcpy(out<float>(0) + rank_ * own_, in<float>(0), Bytes(own_));
  }

 private:
  int64_t own_;  // elements of this rank's rows
};

// The adjoint of gather_rows: other ranks' parts are received and added to this rank's own.
class ScatterRowsKernel final : public RankPartsKernel {
 public:
  explicit ScatterRowsKernel(const KernelQuery& query) : RankPartsKernel(query), own_(query.outputs[0].shape.Count()) {}

  void Bind(const KernelArgs& args) override {
    BoundKernel::Bind(args);
    Announce({.from = args.inputs[0].as<float>(),
              .to = args.outputs[0].as<float>(),
              .sent = Even(own_),
              .received = {0, own_},
              .elements = own_ * ranks_});
  }

  void Run() override {
    std::memcpy(out<float>(0), in<float>(0) + rank_ * own_, Bytes(own_));
    Exchange(nullptr, 0);
  }

 private:
  int64_t own_;
};

// The exchange between columns and rows, in both directions: n rows of `columns` columns lie in scratch, part by part.
class ExchangeKernel : public RankPartsKernel {
 public:
  ExchangeKernel(const KernelQuery& query, const Shape& rows)
      : RankPartsKernel(query), n_(rows[0]), columns_(rows[1]), parts_(OfColumns(columns_, n_)) {}

  int64_t scratch_bytes() const override { return static_cast<int64_t>(Bytes(n_ * columns_)); }

 protected:
  // Elements of the rows of one rank in this rank's columns.
  int64_t OwnPart() const { return Part(rank_); }
  int64_t Part(int64_t r) const { return parts_[static_cast<size_t>(r) + 1] - parts_[static_cast<size_t>(r)]; }
  int64_t PartAt(int64_t r) const { return parts_[static_cast<size_t>(r)]; }
  std::span<float> Scratch() const { return {scratch<float>(0), static_cast<size_t>(n_ * columns_)}; }
  // The first column of a part, and how many it has.
  int64_t First(int64_t r) const { return PartAt(r) / n_; }
  int64_t Width(int64_t r) const { return Part(r) / n_; }
  const std::vector<int64_t>& parts() const { return parts_; }

  int64_t n_;
  int64_t columns_;

 private:
  std::vector<int64_t> parts_;
};

// In: all ranks' rows of this rank's columns. Out: all columns of this rank's rows.
class ExchangeColumnsKernel final : public ExchangeKernel {
 public:
  explicit ExchangeColumnsKernel(const KernelQuery& query) : ExchangeKernel(query, query.outputs[0].shape) {}

  void Bind(const KernelArgs& args) override {
    BoundKernel::Bind(args);
    Announce({.from = args.inputs[0].as<float>(),
              .to = Scratch(),
              .sent = Even(OwnPart()),
              .received = parts(),
              .elements = n_ * columns_});
  }

  void Run() override {
    Exchange(Scratch().data(), n_ * columns_);
    for (int64_t r = 0; r < ranks_; ++r) {
      const float* from = r == rank_ ? in<float>(0) + rank_ * OwnPart() : Scratch().data() + PartAt(r);
      for (int64_t i = 0; i < n_; ++i) {
        std::memcpy(out<float>(0) + i * columns_ + First(r), from + i * Width(r), Bytes(Width(r)));
      }
    }
  }
};

// The way back: from all columns of this rank's rows to all ranks' rows of this rank's columns.
class ExchangeRowsKernel final : public ExchangeKernel {
 public:
  explicit ExchangeRowsKernel(const KernelQuery& query) : ExchangeKernel(query, query.inputs[0].shape) {}

  void Bind(const KernelArgs& args) override {
    BoundKernel::Bind(args);
    Announce({.from = Scratch(),
              .to = args.outputs[0].as<float>(),
              .sent = parts(),
              .received = Even(OwnPart()),
              .elements = n_ * columns_});
  }

  void Run() override {
    for (int64_t r = 0; r < ranks_; ++r) {
      if (r != rank_) CopyPart(r, Scratch().data() + PartAt(r));
    }
    Exchange(out<float>(0), ranks_ * OwnPart());
    CopyPart(rank_, out<float>(0) + rank_ * OwnPart());
  }

 private:
  void CopyPart(int64_t r, float* to) const {
    for (int64_t i = 0; i < n_; ++i) {
      std::memcpy(to + i * Width(r), in<float>(0) + i * columns_ + First(r), Bytes(Width(r)));
    }
  }
};

std::string Refuse(const KernelQuery& query) {
  const std::string reason = RefuseUnlessFilledFloat32(query);
  return reason.empty() ? RefuseUnlessPlain(query) : reason;
}

template <class RowKernel>
KernelDef Row(std::string op) {
  return {
      .name = "moka",
      .op = std::move(op),
      .refuse = Refuse,
      .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> { return std::make_unique<RowKernel>(query); }};
}

}  // namespace

KernelDef MokaExchangeColumns() { return Row<ExchangeColumnsKernel>("exchange_columns"); }
KernelDef MokaExchangeRows() { return Row<ExchangeRowsKernel>("exchange_rows"); }
KernelDef MokaGatherRows() { return Row<GatherRowsKernel>("gather_rows"); }
KernelDef MokaScatterRows() { return Row<ScatterRowsKernel>("scatter_rows"); }

}  // namespace moka
