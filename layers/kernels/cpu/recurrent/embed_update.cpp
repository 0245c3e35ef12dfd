// The update of a table row by row, over plain float32 tensors. Each row named is updated by the thread that meets its
// first index: its gradient is summed in the order of the indices, as embed_backward sums it, then the tile interpreter
// makes the row's new values. No bit depends on the threads.
#include <algorithm>
#include <cstring>
#include <memory>

#include "core/threads/parallel.h"
#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cpu/tiles/tile_engine.h"
#include "layers/ops/maths/labels.h"

namespace moka {
namespace {

constexpr size_t kTable = 2;                  // index and dy come before it
constexpr int64_t kGrain = int64_t{1} << 14;  // elements worth a thread

// Only the rows that the batch names are touched, which is the point of it: tables have many rows, batches few words.
class EmbedUpdateKernel final : public BoundKernel {
 public:
  explicit EmbedUpdateKernel(const KernelQuery& query)
      : count_(query.inputs[0].shape.Count()),
        rows_(query.inputs[kTable].shape[0]),
        columns_(query.inputs[kTable].shape[1]),
        table_(query.inputs[kTable]),
        row_{DType::kFloat32, Shape{1, columns_}, {}} {
    tile::EngineSpec spec{.expression = Expression::Parse(query.node.attributes.String("expr")),
                          .inputs = {table_, row_},
                          .layout = {},
                          .shape = table_.shape,
                          .stores = true,
                          .extra = table_.shape};
    spec.inputs.insert(spec.inputs.end(), query.inputs.begin() + kTable + 1, query.inputs.end());
    const auto parts = std::clamp<int64_t>(count_ * columns_ / kGrain, 1, ThreadCount());
    for (int64_t part = 0; part < parts; ++part) {
      engines_.push_back(std::make_unique<tile::TileEngine<float>>(spec));
      engines_.back()->SetRow(1, 1);
    }
  }
  std::string_view implementation() const override { return tile::FunctionsHere<float>().name; }
  int64_t scratch_bytes() const override { return ListBytes() + parts() * PartBytes(); }

  void Bind(const KernelArgs& args) override {
    BoundKernel::Bind(args);
    std::vector<Tensor> inputs(args.inputs.begin() + kTable, args.inputs.end());
    inputs[0] = args.outputs[0];  // the table is there by then
    inputs.insert(inputs.begin() + 1, Tensor());
    for (int64_t part = 0; part < parts(); ++part) {
      inputs[1] = Tensor(row_, Sums(part));
      engines_[static_cast<size_t>(part)]->Bind(inputs, args.outputs, args.scratch + EngineAt(part));
    }
  }

  void Run() override {
    if (out<float>(0) != in<float>(kTable)) {
      std::memcpy(out<float>(0), in<float>(kTable), static_cast<size_t>(table_.Bytes()));
    }
    ListRows();
    ParallelFor(parts(), 1, [this](int64_t begin, int64_t end, int) {
      for (int64_t part = begin; part < end; ++part) RunPart(part);
    });
  }

 private:
  static int64_t Lines(int64_t bytes) { return (bytes + 63) / 64 * 64; }
  int64_t parts() const { return static_cast<int64_t>(engines_.size()); }
  int64_t ListBytes() const { return Lines((rows_ + count_) * int64_t{sizeof(int64_t)}); }
  int64_t SumBytes() const { return Lines(row_.Bytes()); }
  int64_t PartBytes() const { return SumBytes() + Lines(engines_[0]->scratch_bytes(1)); }
  int64_t EngineAt(int64_t part) const { return ListBytes() + part * PartBytes() + SumBytes(); }
  // First: for each row of the table, the first position whose index names it, or -1. Next: for each position, the next
  // one of its row.
  int64_t* First() { return scratch<int64_t>(); }
  int64_t* Next() { return First() + rows_; }
  float* Sums(int64_t part) { return scratch<float>(ListBytes() + part * PartBytes()); }
  int64_t RowAt(int64_t position) const { return ReadLabel(false, 0, double{in<float>(0)[position]}, rows_); }

  // A linked list for each row, made from the last position to the first, so that it runs forwards.
  void ListRows() {
    std::fill_n(First(), rows_, -1);
    for (int64_t i = count_ - 1; i >= 0; --i) {
      const int64_t row = RowAt(i);
      if (row < 0) continue;
      Next()[i] = First()[row];
      First()[row] = i;
    }
  }

  // The thread whose share holds a row's first position does all of the row, wherever the others are.
  void RunPart(int64_t part) {
    tile::TileEngine<float>& engine = *engines_[static_cast<size_t>(part)];
    engine.Prepare();
    auto state = engine.StateOf(0);
    float* sums = Sums(part);
    for (int64_t i = count_ * part / parts(); i < count_ * (part + 1) / parts(); ++i) {
      const int64_t row = RowAt(i);
      if (row < 0 || First()[row] != i) continue;
      std::fill_n(sums, columns_, 0.0F);
      for (int64_t at = i; at >= 0; at = Next()[at]) {
        const float* dy = in<float>(1) + at * columns_;
        for (int64_t j = 0; j < columns_; ++j) sums[j] += dy[j];
      }
      engine.EnterRow(state, {&row, 1});
      for (int64_t begin = 0; begin < columns_; begin += engine.tile_length()) {
        engine.Evaluate(state, begin, std::min(engine.tile_length(), columns_ - begin));
      }
    }
  }

  const int64_t count_;  // indices
  const int64_t rows_;
  const int64_t columns_;
  const TensorType table_;
  const TensorType row_;
  std::vector<std::unique_ptr<tile::TileEngine<float>>> engines_;  // one a part: each has a row of sums for input
};

std::string Refuse(const KernelQuery& query) {
  for (const TensorType& type : query.inputs) {
    if (type.dtype != DType::kFloat32) return StrCat("it works on float32, not ", type.ToString());
  }
  const Shape& w = query.inputs[kTable].shape;
  if (w[0] < 2 || w[1] < 2) return StrCat("the table ", w.ToString(), " is one line");
  return RefuseUnlessPlain(query);
}

}  // namespace

KernelDef MokaEmbedUpdate() {
  return {.name = "moka",
          .op = "embed_update",
          .refuse = Refuse,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            return std::make_unique<EmbedUpdateKernel>(query);
          }};
}

}  // namespace moka
