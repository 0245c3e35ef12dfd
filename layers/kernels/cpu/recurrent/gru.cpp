// The recurrence of a gated recurrent unit over plain float32 tensors, made as lstm.cpp's is: weights packed once a
// run, parts that own blocks of units and turn their own sums into gates while they are in cache, states packed by the
// part that computed them, one meeting of the threads a step.
#include <algorithm>
#include <array>

#include "core/threads/parallel.h"
#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cpu/matmul/gemm.h"
#include "layers/kernels/cpu/matmul/panels.h"
#include "layers/kernels/cpu/recurrent/gru_cell.h"
#include "layers/kernels/cpu/recurrent/recurrence.h"

namespace moka {
namespace {

using recurrence::Aligned;
using recurrence::Ask;
using recurrence::Cut;
using recurrence::kFloat;
using recurrence::Lengths;
using recurrence::Sums;

// gru, and gru_forward, which keeps neither gates nor what the reset gate multiplies.
class GruKernel final : public BoundKernel {
 public:
  GruKernel(const Cut& cut, bool saves, bool is_packed)
      : s_(cut),
        saves_(saves),
        is_packed_(is_packed),
        cell_(BestGruRows()),
        implementation_(StrCat("packed:", cut.tiles().name)) {}
  std::string_view implementation() const override { return implementation_; }
  // The packed weights, unless their layout has them packed, and two copies of the packed state: a step reads one while
  // threads that are ahead write the other.
  int64_t scratch_bytes() const override { return (WeightFloats() + 2 * StateFloats() + s_.WidenedFloats()) * kFloat; }

  void Run() override {
    const void* const w = recurrence::Widened(s_, in<float>(3), State(0) + 2 * StateFloats());
    ParallelFor(s_.blocks, s_.Grain(3 * s_.units * s_.units), [this, w](int64_t begin, int64_t end, int) {
      for (int64_t block = begin; block < end; ++block) {
        if (!is_packed_) recurrence::PackGates(s_, w, block, scratch<float>());
        recurrence::PackFirstState(s_, in<float>(1), in<float>(2), block, State(0));
      }
    });
    s_.ForSteps(0, s_.steps - 1, [this](int64_t t, int64_t block, int64_t tile) { Step(t, block, tile); });
    for (int64_t row = 0; row < s_.rows; ++row) {
      const int64_t end = lengths().Of(row);
      const int64_t at = row * s_.units;
      std::copy_n(end == 0 ? in<float>(2) + at : Y(end - 1, row, 0), s_.units, out<float>(1) + at);
    }
  }

 private:
  int64_t WeightFloats() const { return is_packed_ ? 0 : s_.PanelFloats(); }
  Lengths lengths() const { return {s_, input_count() > 5 ? in<float>(5) : nullptr}; }
  int64_t StateFloats() const { return Aligned(s_.rows * s_.words); }
  const float* Panel(int64_t block, int64_t gate) const {
    return (is_packed_ ? in<float>(3) : scratch<float>()) + s_.PanelAt(block, gate);
  }
  // The state that enters step t, in tiles [words][rows of the tile].
  float* State(int64_t t) const { return scratch<float>() + WeightFloats() + t % 2 * StateFloats(); }
  float* Y(int64_t t, int64_t row, int64_t unit) const { return out<float>(0) + (t * s_.rows + row) * s_.units + unit; }
  float* Inner(int64_t t, int64_t row, int64_t unit) const {
    return saves_ ? out<float>(3) + (t * s_.rows + row) * s_.units + unit : nullptr;
  }
  // The state before step t as it is, not times `going`: the cell multiplies.
  const float* Before(int64_t t, int64_t row, int64_t unit) const {
    return t == 0 ? in<float>(2) + row * s_.units + unit : Y(t - 1, row, unit);
  }
  int64_t GateAt(int64_t t, int64_t row, int64_t gate, int64_t unit) const {
    return ((t * s_.rows + row) * 3 + gate) * s_.units + unit;
  }

  // m h' w^T of a tile's rows and a block's units, gate by gate; meanwhile asks for what the gates will touch.
  void Multiply(int64_t t, int64_t block, int64_t first, int64_t rows, std::array<Sums, 3>& sums) {
    const int64_t unit = block * s_.width;
    const float* const soon[] = {Before(t, first, unit), Inner(t, first, unit), Y(t, first, unit)};
    const gemm::TileScope scope(s_.tiles());
    for (int64_t gate = 0; gate < 3; ++gate) {
      const int64_t at = GateAt(t, first, gate, unit);
      s_.tiles().run({.depth = s_.words,
                      .a = State(t) + first * s_.words,
                      .b = Panel(block, gate),
                      .c = sums[static_cast<size_t>(gate)].data(),
                      .c_stride = s_.width,
                      .next = in<float>(0) + at,
                      .next_stride = 3 * s_.units,
                      .next_steps = rows},
                     static_cast<int>(rows));
      if (soon[gate] != nullptr) Ask(soon[gate], s_.units, rows, s_.UnitsOf(block));
      if (saves_ && in<float>(0) != out<float>(2)) Ask(out<float>(2) + at, 3 * s_.units, rows, s_.UnitsOf(block));
    }
  }

  // Writes the results of rows that have ended: zeros.
  void End(int64_t t, int64_t block, int64_t first, int64_t rows) {
    const int64_t unit = block * s_.width;
    recurrence::Clear(Y(t, first, unit), s_.units, rows, s_.UnitsOf(block));
    if (!saves_) return;
    for (int64_t gate = 0; gate < 3; ++gate) {
      recurrence::Clear(out<float>(2) + GateAt(t, first, gate, unit), 3 * s_.units, rows, s_.UnitsOf(block));
    }
    recurrence::Clear(Inner(t, first, unit), s_.units, rows, s_.UnitsOf(block));
  }

  // Rows of a tile, the first of them its row `skipped`, from their sums to their part of the next state.
  void Gates(int64_t t, int64_t block, int64_t first, int64_t skipped, int64_t rows, std::array<Sums, 3>& sums,
             Sums& kept) {
    const int64_t unit = block * s_.width;
    const int64_t row = first + skipped;
    GruForwardTile args;
    args.rows = rows;
    args.units = s_.UnitsOf(block);
    args.width = s_.width;
    for (int64_t gate = 0; gate < 3; ++gate) {
      const int64_t at = GateAt(t, row, gate, unit);
      args.sums[gate] = sums[static_cast<size_t>(gate)].data() + skipped * s_.width;
      args.x[gate] = in<float>(0) + at;
      args.gates[gate] = saves_ ? out<float>(2) + at : nullptr;
    }
    args.x_stride = 3 * s_.units;
    args.bias = in<float>(4) + unit;
    args.state_stride = s_.units;
    args.before = Before(t, row, unit);
    args.going = in<float>(1) + t * s_.rows + row;
    args.next_going = t + 1 < s_.steps ? args.going + s_.rows : nullptr;
    args.inner = Inner(t, row, unit);
    args.h = Y(t, row, unit);
    args.kept = kept.data() + skipped * s_.width;
    cell_.forward(args);
  }

  void Step(int64_t t, int64_t block, int64_t tile) {
    const int64_t first = s_.TileBegin(tile);
    const int64_t rows = s_.TileBegin(tile + 1) - first;
    // A tile whose rows have all ended is not multiplied.
    if (t >= lengths().OfTile(tile)) return End(t, block, first, rows);
    alignas(64) std::array<Sums, 3> sums;
    Multiply(t, block, first, rows, sums);
    alignas(64) Sums kept{};
    recurrence::ForGoing(
        lengths(), t, tile, [&](int64_t skipped, int64_t count) { Gates(t, block, first, skipped, count, sums, kept); },
        [&](int64_t skipped) { End(t, block, first + skipped, 1); });
    float* const packed = State(t + 1) + first * s_.words + s_.PackedAt(block * s_.width, rows);
    recurrence::PackRows(s_, {kept.data(), s_.width, 1}, rows, s_.UnitsOf(block), packed);
  }

  const Cut s_;
  const bool saves_;
  const bool is_packed_;
  const GruRows cell_;
  const std::string implementation_;
};

// As in lstm.cpp. dh has two ways to the step before: through the gates (a product with the weights) and past them,
// through z (Carried).
class GruBackwardKernel final : public BoundKernel {
 public:
  explicit GruBackwardKernel(const Cut& cut)
      : s_(cut), cell_(BestGruRows()), implementation_(StrCat("packed:", cut.tiles().name)) {}
  std::string_view implementation() const override { return implementation_; }
  // As above, with the gates' gradients in place of the state: the step before multiplies them with the weights.
  int64_t scratch_bytes() const override { return (WeightFloats() + 2 * GateFloats() + s_.WidenedFloats()) * kFloat; }

  void Run() override {
    const void* const w = recurrence::Widened(s_, in<float>(7), Gates(0) + 2 * GateFloats());
    ParallelFor(s_.blocks, s_.Grain(3 * s_.units * s_.units), [this, w](int64_t begin, int64_t end, int) {
      for (int64_t block = begin; block < end; ++block) {
        // dh = dsums w: a panel is the columns of a block of units, through the rows of all gates.
        recurrence::PackGatesBack(s_, w, block, Panel(block));
      }
    });
    // Nothing is passed on from beyond the last step.
    std::fill_n(out<float>(1), s_.rows * s_.units, 0.0F);
    // Step -1 is the gradient of the first state.
    s_.ForSteps(s_.steps - 1, -1, [this](int64_t t, int64_t block, int64_t tile) { Step(t, block, tile); });
  }

 private:
  int64_t PanelFloats() const { return 3 * s_.words * s_.width; }
  int64_t WeightFloats() const { return Aligned(s_.blocks * PanelFloats()); }
  int64_t GateFloats() const { return Aligned(s_.rows * 3 * s_.words); }
  float* Panel(int64_t block) const { return scratch<float>() + block * PanelFloats(); }
  // dsums of step t, in tiles [3 words][rows of the tile].
  float* Gates(int64_t t) const { return scratch<float>() + WeightFloats() + t % 2 * GateFloats(); }
  Lengths lengths() const { return {s_, input_count() > 8 ? in<float>(8) : nullptr}; }
  // 1 where a row has ended: the gradient of its last state comes as it is.
  float Going(int64_t t, int64_t row) const { return t < lengths().Of(row) ? in<float>(5)[t * s_.rows + row] : 1.0F; }
  // The part of dh that z passes on from one step to the one before; at last the gradient of the first state.
  float* Carried(int64_t row, int64_t unit) const { return out<float>(1) + row * s_.units + unit; }

  // dLoss/dh of a tile that flows through the gates of step t + 1, or from the last state where rows end.
  void Multiply(int64_t t, int64_t block, int64_t tile, Sums& sums) {
    const int64_t first = s_.TileBegin(tile);
    const int64_t rows = s_.TileBegin(tile + 1) - first;
    const int64_t end = lengths().OfTile(tile);
    const int64_t at = (std::max<int64_t>(t, 0) * s_.rows + first) * s_.units + block * s_.width;
    const int64_t gates_at = 3 * at - 2 * block * s_.width;
    const float* const soon[] = {in<float>(0) + at, in<float>(3) + at,
                                 t > 0 ? in<float>(4) + at - s_.rows * s_.units : nullptr};
    const gemm::TileScope scope(s_.tiles());
    for (int64_t gate = 0; gate < 3 && t + 1 < end; ++gate) {
      s_.tiles().run({.depth = s_.words,
                      .a = Gates(t + 1) + (first * 3 + gate * rows) * s_.words,
                      .b = Panel(block) + gate * s_.words * s_.width,
                      .c = sums.data(),
                      .c_stride = s_.width,
                      .adds = gate > 0,
                      .next = in<float>(2) + gates_at + gate * s_.units,
                      .next_stride = 3 * s_.units,
                      .next_steps = rows},
                     static_cast<int>(rows));
      if (soon[gate] != nullptr) Ask(soon[gate], s_.units, rows, s_.UnitsOf(block));
      Ask(out<float>(2) + gates_at + gate * s_.units, 3 * s_.units, rows, s_.UnitsOf(block));
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
    // Step -1 has no gates: what is left is the mark of step 0 on both ways of dh.
    if (t < 0) {
      for (int64_t r = 0; r < rows; ++r) {
        const float going = Going(0, first + r);
        float* dh = Carried(first + r, unit);
        for (int64_t j = 0; j < units; ++j) {
          dh[j] = going == 0.0F ? 0.0F : going * (sums[static_cast<size_t>(r * s_.width + j)] + dh[j]);
        }
      }
      return;
    }
    for (int64_t r = 0; r < rows; ++r) Row(t, first + r, unit, units, sums.data() + r * s_.width);
    recurrence::PackGradients(s_, out<float>(2), t, tile, block, Gates(t));
  }

  // No gradient flows into rows that have ended.
  void End(int64_t t, int64_t block, int64_t first, int64_t rows) {
    for (int64_t gate = 0; gate < 3; ++gate) {
      const int64_t at = ((t * s_.rows + first) * 3 + gate) * s_.units + block * s_.width;
      recurrence::Clear(out<float>(0) + at, 3 * s_.units, rows, s_.UnitsOf(block));
      recurrence::Clear(out<float>(2) + at, 3 * s_.units, rows, s_.UnitsOf(block));
    }
  }

  void Row(int64_t t, int64_t row, int64_t unit, int64_t units, const float* sums) {
    if (t >= lengths().Of(row)) return End(t, unit / s_.width, row, 1);
    const int64_t state = row * s_.units + unit;
    const int64_t step = s_.rows * s_.units;
    GruBackwardRow args;
    args.units = units;
    args.sums = sums;
    args.dy = in<float>(0) + t * step + state;
    for (int64_t gate = 0; gate < 3; ++gate) {
      const int64_t at = ((t * s_.rows + row) * 3 + gate) * s_.units + unit;
      args.gates[gate] = in<float>(2) + at;
      args.dx[gate] = out<float>(0) + at;
      args.dsums[gate] = out<float>(2) + at;
    }
    args.inner = in<float>(3) + t * step + state;
    args.before = t == 0 ? in<float>(6) + state : in<float>(4) + (t - 1) * step + state;
    args.going = Going(t, row);
    args.next_going = Going(t + 1, row);
    args.carried = Carried(row, unit);
    cell_.backward(args);
  }

  const Cut s_;
  const GruRows cell_;
  const std::string implementation_;
};

constexpr size_t kWeights = 3;

constexpr size_t kWeightsBack = 7;

std::string Refuse(const KernelQuery& query) { return recurrence::RefuseUnlessRecurrent(query, kWeights); }

std::string RefuseBackward(const KernelQuery& query) {
  if (std::string reason = recurrence::RefuseUnlessRecurrent(query, kWeightsBack); !reason.empty()) return reason;
  if (query.inputs.size() > 9) return "a gradient flows into the saved gates";
  return RefuseUnlessPlain(query);
}

std::unique_ptr<Kernel> Make(const KernelQuery& query) {
  const Cut cut(query.inputs[0].shape, 3, recurrence::FactorsOf(query.inputs[kWeights]), query.inputs.size() > 5);
  return std::make_unique<GruKernel>(cut, query.outputs.size() > 2, LiesInPanels(query.inputs[kWeights], true));
}

}  // namespace

KernelDef MokaGru() { return {.name = "moka", .op = "gru", .refuse = Refuse, .make = Make}; }

KernelDef MokaGruForward() {
  return {.name = "moka",
          .op = "gru_forward",
          .refuse = Refuse,
          .propose = [](const KernelQuery& query) { return recurrence::Propose(query, kWeights); },
          .make = Make};
}

KernelDef MokaGruBackward() {
  return {.name = "moka",
          .op = "gru_backward",
          .refuse = RefuseBackward,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            return std::make_unique<GruBackwardKernel>(Cut(
                query.inputs[2].shape, 3, recurrence::FactorsOf(query.inputs[kWeightsBack]), query.inputs.size() > 8));
          }};
}

}  // namespace moka
