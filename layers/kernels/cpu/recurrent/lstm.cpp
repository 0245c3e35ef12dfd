// The recurrence of a long short-term memory over plain float32 tensors. The recurrent weights are packed once a run,
// or lie packed already where they never change, and are used at every step. A thread multiplies a block of units and
// turns its sums into gates while they are in cache. Each state enters the next product packed, written by the thread
// that computed it; two copies, since others may still read the one before.
#include <algorithm>
#include <array>

#include "core/threads/parallel.h"
#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cpu/matmul/gemm.h"
#include "layers/kernels/cpu/matmul/panels.h"
#include "layers/kernels/cpu/recurrent/lstm_cell.h"
#include "layers/kernels/cpu/recurrent/recurrence.h"

namespace moka {
namespace {

using recurrence::Aligned;
using recurrence::Ask;
using recurrence::Cut;
using recurrence::kFloat;
using recurrence::Lengths;
using recurrence::Sums;

// lstm, and lstm_forward, which keeps neither gates nor cells: there the cells go from step to step where the last ones
// are a result.
class LstmKernel final : public BoundKernel {
 public:
  LstmKernel(const Cut& cut, bool saves, bool is_packed, float forget_bias)
      : s_(cut),
        saves_(saves),
        is_packed_(is_packed),
        bias_(forget_bias),
        cell_(BestLstmRows()),
        implementation_(StrCat("packed:", cut.tiles().name)) {}
  std::string_view implementation() const override { return implementation_; }
  int64_t scratch_bytes() const override { return (WeightFloats() + 2 * StateFloats() + s_.WidenedFloats()) * kFloat; }

  void Run() override {
    const void* const w = recurrence::Widened(s_, in<float>(4), State(0) + 2 * StateFloats());
    ParallelFor(s_.blocks, s_.Grain(4 * s_.units * s_.units), [this, w](int64_t begin, int64_t end, int) {
      for (int64_t block = begin; block < end; ++block) {
        if (!is_packed_) recurrence::PackGates(s_, w, block, scratch<float>());
        recurrence::PackFirstState(s_, in<float>(1), in<float>(2), block, State(0));
      }
    });
    // Where cells are not saved, the one copy that goes from step to step is the result itself.
    if (!saves_) std::copy_n(in<float>(3), s_.rows * s_.units, out<float>(2));
    s_.ForSteps(0, s_.steps - 1, [this](int64_t t, int64_t block, int64_t tile) { Step(t, block, tile); });
    for (int64_t row = 0; row < s_.rows; ++row) {
      const int64_t end = lengths().Of(row);
      const int64_t at = row * s_.units;
      std::copy_n(end == 0 ? in<float>(2) + at : Y(end - 1, row, 0), s_.units, out<float>(1) + at);
      if (!saves_) continue;
      std::copy_n(end == 0 ? in<float>(3) + at : Cells(end - 1, row, 0), s_.units, out<float>(2) + at);
    }
  }

 private:
  // Scratch: the packed weights, unless the layout has them packed already, and two copies of the packed state.
  int64_t WeightFloats() const { return is_packed_ ? 0 : s_.PanelFloats(); }
  Lengths lengths() const { return {s_, input_count() > 5 ? in<float>(5) : nullptr}; }
  int64_t StateFloats() const { return Aligned(s_.rows * s_.words); }
  const float* Panel(int64_t block, int64_t gate) const {
    return (is_packed_ ? in<float>(4) : scratch<float>()) + s_.PanelAt(block, gate);
  }
  // The state that enters step t, in tiles [words][rows of the tile].
  float* State(int64_t t) const { return scratch<float>() + WeightFloats() + t % 2 * StateFloats(); }
  float* Y(int64_t t, int64_t row, int64_t unit) const { return out<float>(0) + (t * s_.rows + row) * s_.units + unit; }
  float* Cells(int64_t t, int64_t row, int64_t unit) const {
    return saves_ ? out<float>(4) + (t * s_.rows + row) * s_.units + unit : out<float>(2) + row * s_.units + unit;
  }
  const float* CellsBefore(int64_t t, int64_t row, int64_t unit) const {
    return saves_ && t == 0 ? in<float>(3) + row * s_.units + unit : Cells(t - 1, row, unit);
  }
  // Gates of a row lie beside each other, [steps, rows, 4 units], as the product of x with all gates' weights leaves
  // them.
  int64_t GateAt(int64_t t, int64_t row, int64_t gate, int64_t unit) const {
    return ((t * s_.rows + row) * 4 + gate) * s_.units + unit;
  }

  // Writes the results of rows that have ended: zeros.
  void End(int64_t t, int64_t block, int64_t first, int64_t rows) {
    const int64_t unit = block * s_.width;
    recurrence::Clear(Y(t, first, unit), s_.units, rows, s_.UnitsOf(block));
    if (!saves_) return;
    for (int64_t gate = 0; gate < 4; ++gate) {
      recurrence::Clear(out<float>(3) + GateAt(t, first, gate, unit), 4 * s_.units, rows, s_.UnitsOf(block));
    }
    recurrence::Clear(Cells(t, first, unit), s_.units, rows, s_.UnitsOf(block));
  }

  // m h' w^T of a tile's rows and a block's units, gate by gate; meanwhile asks for what the gates will touch.
  void Multiply(int64_t t, int64_t block, int64_t first, int64_t rows, std::array<Sums, 4>& sums) {
    const int64_t unit = block * s_.width;
    const float* const soon[] = {CellsBefore(t, first, unit), saves_ ? Cells(t, first, unit) : nullptr,
                                 Y(t, first, unit), nullptr};
    const gemm::TileScope scope(s_.tiles());
    for (int64_t gate = 0; gate < 4; ++gate) {
      const int64_t at = GateAt(t, first, gate, unit);
      s_.tiles().run({.depth = s_.words,
                      .a = State(t) + first * s_.words,
                      .b = Panel(block, gate),
                      .c = sums[static_cast<size_t>(gate)].data(),
                      .c_stride = s_.width,
                      .next = in<float>(0) + at,
                      .next_stride = 4 * s_.units,
                      .next_steps = rows},
                     static_cast<int>(rows));
      if (soon[gate] != nullptr) Ask(soon[gate], s_.units, rows, s_.UnitsOf(block));
      if (saves_ && in<float>(0) != out<float>(3)) Ask(out<float>(3) + at, 4 * s_.units, rows, s_.UnitsOf(block));
    }
  }

  // Rows of a tile, the first of them its row `skipped`, from their sums to their part of the next state.
  void Gates(int64_t t, int64_t block, int64_t first, int64_t skipped, int64_t rows, std::array<Sums, 4>& sums,
             Sums& kept) {
    const int64_t unit = block * s_.width;
    const int64_t row = first + skipped;
    LstmForwardTile args;
    args.rows = rows;
    args.units = s_.UnitsOf(block);
    args.width = s_.width;
    for (int64_t gate = 0; gate < 4; ++gate) {
      const int64_t at = GateAt(t, row, gate, unit);
      args.sums[gate] = sums[static_cast<size_t>(gate)].data() + skipped * s_.width;
      args.x[gate] = in<float>(0) + at;
      args.gates[gate] = saves_ ? out<float>(3) + at : nullptr;
    }
    args.x_stride = 4 * s_.units;
    args.state_stride = s_.units;
    args.c_before = CellsBefore(t, row, unit);
    args.going = in<float>(1) + t * s_.rows + row;
    args.next_going = t + 1 < s_.steps ? args.going + s_.rows : nullptr;
    args.forget_bias = bias_;
    args.c = Cells(t, row, unit);
    args.h = Y(t, row, unit);
    args.kept = kept.data() + skipped * s_.width;
    cell_.forward(args);
  }

  void Step(int64_t t, int64_t block, int64_t tile) {
    const int64_t first = s_.TileBegin(tile);
    const int64_t rows = s_.TileBegin(tile + 1) - first;
    // A tile whose rows have all ended is not multiplied.
    if (t >= lengths().OfTile(tile)) return End(t, block, first, rows);
    alignas(64) std::array<Sums, 4> sums;
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
  const float bias_;
  const LstmRows cell_;
  const std::string implementation_;
};

// Backpropagation through time (Werbos, 1990): step t takes dh from the gates' gradients of step t + 1, packed by the
// threads that made them, and leaves its own. The weights' gradient is a matrix product of the graph's, over all steps
// at once.
class LstmBackwardKernel final : public BoundKernel {
 public:
  LstmBackwardKernel(const Cut& cut, bool wants_first)
      : s_(cut),
        wants_first_(wants_first),
        cell_(BestLstmRows()),
        implementation_(StrCat("packed:", cut.tiles().name)) {}
  std::string_view implementation() const override { return implementation_; }
  int64_t scratch_bytes() const override {
    return (WeightFloats() + 2 * GateFloats() + StateFloats() + s_.WidenedFloats()) * kFloat;
  }

  void Run() override {
    const void* const w = recurrence::Widened(s_, in<float>(7), Gates(0) + 2 * GateFloats() + StateFloats());
    ParallelFor(s_.blocks, s_.Grain(4 * s_.units * s_.units), [this, w](int64_t begin, int64_t end, int) {
      for (int64_t block = begin; block < end; ++block) {
        // dh = dgates w: a panel is the columns of a block of units, through the rows of all gates.
        recurrence::PackGatesBack(s_, w, block, Panel(block));
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
  int64_t PanelFloats() const { return 4 * s_.words * s_.width; }
  int64_t WeightFloats() const { return Aligned(s_.blocks * PanelFloats()); }
  int64_t GateFloats() const { return Aligned(s_.rows * 4 * s_.words); }
  int64_t StateFloats() const { return wants_first_ ? 0 : Aligned(s_.rows * s_.units); }
  // The gradient of the cells between two steps.
  float* Cells() const { return wants_first_ ? out<float>(2) : Gates(0) + 2 * GateFloats(); }
  float* Panel(int64_t block) const { return scratch<float>() + block * PanelFloats(); }
  // The gradient of step t's gates, in tiles [4 words][rows of the tile].
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
    const gemm::TileScope scope(s_.tiles());
    for (int64_t gate = 0; gate < 4 && t + 1 < end; ++gate) {
      s_.tiles().run({.depth = s_.words,
                      .a = Gates(t + 1) + (first * 4 + gate * rows) * s_.words,
                      .b = Panel(block) + gate * s_.words * s_.width,
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
    // Step -1 has no gates: what is left is the mark of step 0.
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

  // A row of a tile: its lengths may differ from its neighbours', so each row decides for itself whether it goes on.
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

constexpr size_t kWeights = 4;

constexpr size_t kWeightsBack = 7;

std::string Refuse(const KernelQuery& query) { return recurrence::RefuseUnlessRecurrent(query, kWeights); }

// A net that reads gates or cells as results has gradients of them, which this kernel does not take.
std::string RefuseBackward(const KernelQuery& query) {
  if (std::string reason = recurrence::RefuseUnlessRecurrent(query, kWeightsBack); !reason.empty()) return reason;
  if (query.inputs.size() > 9) return "a gradient flows into the saved gates and cells";
  return RefuseUnlessPlain(query);
}

std::unique_ptr<Kernel> Make(const KernelQuery& query) {
  const auto bias = static_cast<float>(query.node.attributes.Float("forget_bias"));
  const Cut cut(query.inputs[0].shape, 4, recurrence::FactorsOf(query.inputs[kWeights]), query.inputs.size() > 5);
  return std::make_unique<LstmKernel>(cut, query.outputs.size() > 3, LiesInPanels(query.inputs[kWeights], true), bias);
}

}  // namespace

KernelDef MokaLstm() { return {.name = "moka", .op = "lstm", .refuse = Refuse, .make = Make}; }

KernelDef MokaLstmForward() {
  return {.name = "moka",
          .op = "lstm_forward",
          .refuse = Refuse,
          .propose = [](const KernelQuery& query) { return recurrence::Propose(query, kWeights); },
          .make = Make};
}

KernelDef MokaLstmBackward() {
  return {.name = "moka",
          .op = "lstm_backward",
          .refuse = RefuseBackward,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            const Cut cut(query.inputs[3].shape, 4, recurrence::FactorsOf(query.inputs[kWeightsBack]),
                          query.inputs.size() > 8);
            return std::make_unique<LstmBackwardKernel>(cut, query.node.attributes.Bool("first"));
          }};
}

}  // namespace moka
