// The recurrence of a long short-term memory over plain float32 tensors. The recurrent weights are packed once a run
// and used at every step. A thread multiplies a block of units and turns its sums into gates while they are in cache.
// Each state enters the next product packed, written by the thread that computed it; two copies, since others may still
// read the one before.
#include <algorithm>
#include <array>

#include "core/parallel.h"
#include "layers/cpu/bound_kernel.h"
#include "layers/cpu/gemm.h"
#include "layers/cpu/kernels.h"
#include "layers/cpu/lstm_cell.h"
#include "layers/cpu/recurrence.h"

namespace moka {
namespace {

using gemm::Matrix;
using recurrence::Aligned;
using recurrence::Ask;
using recurrence::Cut;
using recurrence::kFloat;
using recurrence::Lengths;
using recurrence::Sums;

class LstmKernel final : public BoundKernel {
 public:
  LstmKernel(const Cut& cut, float forget_bias)
      : s_(cut), bias_(forget_bias), cell_(BestLstmRows()), implementation_(StrCat("packed:", cut.tiles().name)) {}
  std::string_view implementation() const override { return implementation_; }
  int64_t scratch_bytes() const override { return (WeightFloats() + 2 * StateFloats()) * kFloat; }

  void Run() override {
    ParallelFor(s_.blocks, s_.Grain(4 * s_.units * s_.units), [this](int64_t begin, int64_t end, int) {
      for (int64_t block = begin; block < end; ++block) {
        recurrence::PackGates(s_, in<float>(4), block, Panel(block, 0));
        recurrence::PackFirstState(s_, in<float>(1), in<float>(2), block, State(0));
      }
    });
    s_.ForSteps(0, s_.steps - 1, [this](int64_t t, int64_t block, int64_t tile) { Step(t, block, tile); });
    for (int64_t row = 0; row < s_.rows; ++row) {
      const int64_t end = lengths().Of(row);
      const int64_t at = row * s_.units;
      std::copy_n(end == 0 ? in<float>(2) + at : Y(end - 1, row, 0), s_.units, out<float>(1) + at);
      std::copy_n(end == 0 ? in<float>(3) + at : Cells(end - 1, row, 0), s_.units, out<float>(2) + at);
    }
  }

 private:
  int64_t PanelFloats() const { return s_.units * s_.width; }
  int64_t WeightFloats() const { return Aligned(s_.blocks * 4 * PanelFloats()); }
  Lengths lengths() const { return {s_, input_count() > 5 ? in<float>(5) : nullptr}; }
  int64_t StateFloats() const { return Aligned(s_.rows * s_.units); }
  float* Panel(int64_t block, int64_t gate) const { return scratch<float>() + (block * 4 + gate) * PanelFloats(); }
  // The state that enters step t, in tiles [units][rows of the tile].
  float* State(int64_t t) const { return scratch<float>() + WeightFloats() + t % 2 * StateFloats(); }
  float Going(int64_t t, int64_t row) const { return t < s_.steps ? in<float>(1)[t * s_.rows + row] : 0.0F; }
  float* Y(int64_t t, int64_t row, int64_t unit) const { return out<float>(0) + (t * s_.rows + row) * s_.units + unit; }
  float* Cells(int64_t t, int64_t row, int64_t unit) const {
    return out<float>(4) + (t * s_.rows + row) * s_.units + unit;
  }

  // What rows that have ended give.
  void End(int64_t t, int64_t block, int64_t first, int64_t rows) {
    const int64_t unit = block * s_.width;
    for (int64_t gate = 0; gate < 4; ++gate) {
      const int64_t at = ((t * s_.rows + first) * 4 + gate) * s_.units + unit;
      recurrence::Clear(out<float>(3) + at, 4 * s_.units, rows, s_.UnitsOf(block));
    }
    recurrence::Clear(Cells(t, first, unit), s_.units, rows, s_.UnitsOf(block));
    recurrence::Clear(Y(t, first, unit), s_.units, rows, s_.UnitsOf(block));
  }

  void Step(int64_t t, int64_t block, int64_t tile) {
    const int64_t first = s_.TileBegin(tile);
    const int64_t rows = s_.TileBegin(tile + 1) - first;
    const int64_t unit = block * s_.width;
    if (t >= lengths().OfTile(tile)) return End(t, block, first, rows);
    alignas(64) std::array<Sums, 4> sums;
    for (int64_t gate = 0; gate < 4; ++gate) {
      const int64_t at = ((t * s_.rows + first) * 4 + gate) * s_.units + unit;
      s_.tiles().run({.depth = s_.units,
                      .a = State(t) + first * s_.units,
                      .b = Panel(block, gate),
                      .c = sums[static_cast<size_t>(gate)].data(),
                      .c_stride = s_.width,
                      .next = in<float>(0) + at,
                      .next_stride = 4 * s_.units,
                      .next_steps = rows},
                     static_cast<int>(rows));
      const float* const soon[] = {t > 0 ? Cells(t - 1, first, unit) : nullptr, Cells(t, first, unit),
                                   Y(t, first, unit), nullptr};
      if (soon[gate] != nullptr) Ask(soon[gate], s_.units, rows, s_.UnitsOf(block));
      if (in<float>(0) != out<float>(3)) Ask(out<float>(3) + at, 4 * s_.units, rows, s_.UnitsOf(block));
    }
    alignas(64) Sums kept;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t row = first + r;
      if (t >= lengths().Of(row)) {
        End(t, block, row, 1);
        std::fill_n(kept.data() + r * s_.width, s_.UnitsOf(block), 0.0F);
        continue;
      }
      LstmForwardRow args;
      args.units = s_.UnitsOf(block);
      for (int64_t gate = 0; gate < 4; ++gate) {
        const int64_t at = ((t * s_.rows + row) * 4 + gate) * s_.units + unit;
        args.sums[gate] = sums[static_cast<size_t>(gate)].data() + r * s_.width;
        args.x[gate] = in<float>(0) + at;
        args.gates[gate] = out<float>(3) + at;
      }
      args.c_before = t == 0 ? in<float>(3) + row * s_.units + unit : Cells(t - 1, row, unit);
      args.going = Going(t, row);
      args.next_going = Going(t + 1, row);
      args.forget_bias = bias_;
      args.c = Cells(t, row, unit);
      args.h = Y(t, row, unit);
      args.kept = kept.data() + r * s_.width;
      cell_.forward(args);
    }
    s_.tiles().pack_rows({kept.data(), s_.width, 1}, rows, s_.UnitsOf(block),
                         State(t + 1) + first * s_.units + unit * rows);
  }

  const Cut s_;
  const float bias_;
  const LstmRows cell_;
  const std::string implementation_;
};

class LstmBackwardKernel final : public BoundKernel {
 public:
  LstmBackwardKernel(const Cut& cut, bool wants_first)
      : s_(cut),
        wants_first_(wants_first),
        cell_(BestLstmRows()),
        implementation_(StrCat("packed:", cut.tiles().name)) {}
  std::string_view implementation() const override { return implementation_; }
  int64_t scratch_bytes() const override { return (WeightFloats() + 2 * GateFloats() + StateFloats()) * kFloat; }

  void Run() override {
    ParallelFor(s_.blocks, s_.Grain(4 * s_.units * s_.units), [this](int64_t begin, int64_t end, int) {
      for (int64_t block = begin; block < end; ++block) {
        const Matrix w{in<float>(7) + block * s_.width, s_.units, 1};
        s_.tiles().pack_panels(w, 4 * s_.units, s_.UnitsOf(block), Panel(block));
        for (int64_t row = 0; row < s_.rows; ++row) {
          const int64_t at = row * s_.units + block * s_.width;
          std::copy_n(in<float>(2) + at, s_.UnitsOf(block), Cells() + at);
        }
      }
    });
    // Step -1 is the gradient of the first state.
    s_.ForSteps(s_.steps - 1, wants_first_ ? -1 : 0,
                [this](int64_t t, int64_t block, int64_t tile) { Step(t, block, tile); });
  }

 private:
  int64_t PanelFloats() const { return 4 * s_.units * s_.width; }
  int64_t WeightFloats() const { return Aligned(s_.blocks * PanelFloats()); }
  int64_t GateFloats() const { return Aligned(s_.rows * 4 * s_.units); }
  int64_t StateFloats() const { return wants_first_ ? 0 : Aligned(s_.rows * s_.units); }
  // The gradient of the cells between two steps.
  float* Cells() const { return wants_first_ ? out<float>(2) : Gates(0) + 2 * GateFloats(); }
  float* Panel(int64_t block) const { return scratch<float>() + block * PanelFloats(); }
  // The gradient of step t's gates, in tiles [4 units][rows of the tile].
  float* Gates(int64_t t) const { return scratch<float>() + WeightFloats() + t % 2 * GateFloats(); }
  Lengths lengths() const { return {s_, input_count() > 8 ? in<float>(8) : nullptr}; }
  // 1 where a row has ended: the gradient of its last state comes as it is.
  float Going(int64_t t, int64_t row) const { return t < lengths().Of(row) ? in<float>(5)[t * s_.rows + row] : 1.0F; }

  // dLoss/dh of a tile that flows from step t + 1, or from the last states where rows end.
  void Multiply(int64_t t, int64_t block, int64_t tile, Sums& sums) {
    const int64_t first = s_.TileBegin(tile);
    const int64_t rows = s_.TileBegin(tile + 1) - first;
    const int64_t end = lengths().OfTile(tile);
    const int64_t at = (std::max<int64_t>(t, 0) * s_.rows + first) * s_.units + block * s_.width;
    const float* const soon[] = {in<float>(0) + at, in<float>(4) + at,
                                 t > 0 ? in<float>(4) + at - s_.rows * s_.units : nullptr, nullptr};
    for (int64_t gate = 0; gate < 4 && t + 1 < end; ++gate) {
      s_.tiles().run({.depth = s_.units,
                      .a = Gates(t + 1) + (first * 4 + gate * rows) * s_.units,
                      .b = Panel(block) + gate * s_.units * s_.width,
                      .c = sums.data(),
                      .c_stride = s_.width,
                      .adds = gate > 0,
                      .next = in<float>(3) + 4 * at - 3 * block * s_.width + gate * s_.units,
                      .next_stride = 4 * s_.units,
                      .next_steps = rows},
                     static_cast<int>(rows));
      if (soon[gate] != nullptr) Ask(soon[gate], s_.units, rows, s_.UnitsOf(block));
    }
    for (int64_t r = 0; r < rows; ++r) {
      if (t + 1 < lengths().Of(first + r)) continue;
      const float* dh = in<float>(1) + (first + r) * s_.units + block * s_.width;
      std::copy_n(dh, s_.UnitsOf(block), sums.data() + r * s_.width);
    }
  }

  void Step(int64_t t, int64_t block, int64_t tile) {
    const int64_t first = s_.TileBegin(tile);
    const int64_t rows = s_.TileBegin(tile + 1) - first;
    const int64_t unit = block * s_.width;
    const int64_t units = s_.UnitsOf(block);
    if (t >= lengths().OfTile(tile)) return End(t, block, first, rows);
    alignas(64) Sums sums;
    Multiply(t, block, tile, sums);
    if (t < 0) {
      for (int64_t r = 0; r < rows; ++r) {
        const float going = Going(0, first + r);
        float* dh = out<float>(1) + (first + r) * s_.units + unit;
        for (int64_t j = 0; j < units; ++j) {
          dh[j] = going == 0.0F ? 0.0F : going * sums[static_cast<size_t>(r * s_.width + j)];
        }
      }
      return;
    }
    for (int64_t r = 0; r < rows; ++r) Row(t, first + r, unit, units, sums.data() + r * s_.width);
    recurrence::PackGradients(s_, out<float>(0), t, tile, block, Gates(t));
  }

  // No gradient flows into rows that have ended.
  void End(int64_t t, int64_t block, int64_t first, int64_t rows) {
    for (int64_t gate = 0; gate < 4; ++gate) {
      const int64_t at = ((t * s_.rows + first) * 4 + gate) * s_.units + block * s_.width;
      recurrence::Clear(out<float>(0) + at, 4 * s_.units, rows, s_.UnitsOf(block));
    }
  }

  void Row(int64_t t, int64_t row, int64_t unit, int64_t units, const float* sums) {
    if (t >= lengths().Of(row)) return End(t, unit / s_.width, row, 1);
    const int64_t state = row * s_.units + unit;
    const int64_t step = s_.rows * s_.units;
    LstmBackwardRow args;
    args.units = units;
    args.sums = sums;
    args.dy = in<float>(0) + t * step + state;
    for (int64_t gate = 0; gate < 4; ++gate) {
      const int64_t at = ((t * s_.rows + row) * 4 + gate) * s_.units + unit;
      args.gates[gate] = in<float>(3) + at;
      args.dx[gate] = out<float>(0) + at;
    }
    args.c = in<float>(4) + t * step + state;
    args.c_before = t == 0 ? in<float>(6) + state : in<float>(4) + (t - 1) * step + state;
    args.going = Going(t, row);
    args.next_going = Going(t + 1, row);
    args.dc = Cells() + state;
    cell_.backward(args);
  }

  const Cut s_;
  const bool wants_first_;
  const LstmRows cell_;
  const std::string implementation_;
};

std::string Refuse(const KernelQuery& query) {
  if (std::string reason = RefuseUnlessFilledFloat32(query); !reason.empty()) return reason;
  if (query.inputs.size() > 9) return "a gradient flows into the saved gates and cells";
  return RefuseUnlessPlain(query);
}

}  // namespace

KernelDef MokaLstm() {
  return {
      .name = "moka", .op = "lstm", .refuse = Refuse, .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
        const auto bias = static_cast<float>(query.node.attributes.Float("forget_bias"));
        return std::make_unique<LstmKernel>(Cut(query.inputs[0].shape, 4, gemm::BestTiles(), query.inputs.size() > 5),
                                            bias);
      }};
}

KernelDef MokaLstmBackward() {
  return {.name = "moka",
          .op = "lstm_backward",
          .refuse = Refuse,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            const Cut cut(query.inputs[3].shape, 4, gemm::BestTiles(), query.inputs.size() > 8);
            return std::make_unique<LstmBackwardKernel>(cut, query.node.attributes.Bool("first"));
          }};
}

}  // namespace moka
