// Splits an expression by how often it changes: once a run, once a row, once an element. Each value gets a slot in a
// small file of tiles, taken again as soon as its last reader is done, as a register allocator would.
#include "layers/kernels/cpu/tiles/tile_program.h"

#include <algorithm>

namespace moka::tile {
namespace {

constexpr int32_t kForever = INT32_MAX;

class Compiler {
 public:
  Compiler(const Expression& expression, std::span<const Level> inputs, const StorePlan& plan)
      : code_(expression.instructions()), results_(expression.results()), input_levels_(inputs), plan_(plan) {
    program_.inputs = static_cast<int>(inputs.size());
    program_.outputs = plan.stores ? static_cast<int>(results_.size()) : 0;
  }

  // Levels and last uses first, as both the places and the order of stores follow from them.
  TileProgram Run() {
    const auto size = code_.size();
    levels_.resize(size);
    places_.assign(size, -1);
    FindLevels();
    FindLastUses();
    PlaceScalars();
    for (int32_t i = 0; i < static_cast<int32_t>(size); ++i) {
      if (LevelOf(i) == Level::kTile && At(i).op != ScalarOp::kInput) EmitTileStep(i);
    }
    EmitStores();
    NumberRegisters();
    return std::move(program_);
  }

 private:
  // Until their number is known, register r is the location kRegisters + r.
  static constexpr int32_t kRegisters = 1 << 24;

  const Instruction& At(int32_t i) const { return code_[static_cast<size_t>(i)]; }
  Level LevelOf(int32_t i) const { return levels_[static_cast<size_t>(i)]; }
  int32_t& Place(int32_t i) { return places_[static_cast<size_t>(i)]; }
  bool IsTileInput(int32_t i) const { return At(i).op == ScalarOp::kInput && LevelOf(i) == Level::kTile; }

  // An instruction changes as often as its most frequent operand; random numbers are new for each element.
  void FindLevels() {
    for (size_t i = 0; i < code_.size(); ++i) {
      const Instruction& x = code_[i];
      Level level = Level::kUniform;
      if (x.op == ScalarOp::kInput) level = input_levels_[static_cast<size_t>(x.input)];
      if (x.op == ScalarOp::kRand) level = Level::kTile;
      for (const int32_t operand : {x.a, x.b, x.c}) {
        if (operand >= 0) level = std::max(level, LevelOf(operand));
      }
      levels_[i] = level;
    }
  }

  // The last tile step that reads each instruction; kForever for those the stores read.
  void FindLastUses() {
    last_use_.assign(code_.size(), -1);
    for (size_t i = 0; i < code_.size(); ++i) {
      if (levels_[i] != Level::kTile || code_[i].op == ScalarOp::kRand) continue;
      for (const int32_t operand : {code_[i].a, code_[i].b, code_[i].c}) {
        if (operand >= 0) last_use_[static_cast<size_t>(operand)] = static_cast<int32_t>(i);
      }
    }
    direct_.assign(results_.size(), false);
    for (size_t r = 0; r < results_.size(); ++r) {
      const int32_t i = results_[r];
      const bool taken = std::find(results_.begin(), results_.begin() + static_cast<std::ptrdiff_t>(r), i) !=
                         results_.begin() + static_cast<std::ptrdiff_t>(r);
      direct_[r] = plan_.stores && LevelOf(i) == Level::kTile && At(i).op != ScalarOp::kInput && !taken;
      if (!direct_[r]) last_use_[static_cast<size_t>(i)] = kForever;
    }
    // Writing early over an input that is still to be read would change it.
    for (size_t r = 0; r < results_.size(); ++r) {
      if (direct_[r] && ReadsOverwritten(r)) {
        direct_[r] = false;
        last_use_[static_cast<size_t>(results_[r])] = kForever;
      }
    }
  }

  bool ReadsOverwritten(size_t r) const {
    for (size_t i = 0; i < code_.size(); ++i) {
      const Instruction& x = code_[i];
      if (x.op != ScalarOp::kInput || (plan_.overwrites[r] & InputBit(x.input)) == 0) continue;
      if (last_use_[i] > results_[r]) return true;
    }
    return false;
  }

  // Values that do not change within a row are single numbers in a file of their own, computed once a run or once a
  // row.
  void PlaceScalars() {
    for (int32_t i = 0; i < static_cast<int32_t>(code_.size()); ++i) {
      const Instruction& x = At(i);
      if (x.op == ScalarOp::kInput) {
        Place(i) = x.input;
        continue;
      }
      if (LevelOf(i) == Level::kTile) continue;
      Place(i) = program_.first_scalar() + program_.scalars++;
      if (x.op == ScalarOp::kConstant) {
        program_.constants.emplace_back(Place(i), x.constant);
      } else {
        (LevelOf(i) == Level::kUniform ? program_.uniform_steps : program_.row_steps).push_back(StepOf(i));
      }
    }
  }

  // Returns the step of instruction i; it has no y unless that is placed. Scalars are read as vectors of one by the
  // scalar steps themselves.
  Step StepOf(int32_t i) {
    const Instruction& x = At(i);
    Step step{.op = x.op, .y = Place(i)};
    if (x.op == ScalarOp::kRand) {
      step.a = At(x.a).input;
      step.stream = static_cast<uint64_t>(x.constant);
      return step;
    }
    int32_t* const fields[] = {&step.a, &step.b, &step.c};
    const int32_t operands[] = {x.a, x.b, x.c};
    for (unsigned k = 0; k < 3; ++k) {
      if (operands[k] < 0) continue;
      *fields[k] = Place(operands[k]);
      if (LevelOf(i) == Level::kTile && LevelOf(operands[k]) != Level::kTile) {
        step.scalars = static_cast<uint8_t>(step.scalars | (1U << k));
      }
    }
    return step;
  }

  // Last freed, first taken: that tile is most likely still in the first cache.
  int32_t TakeRegister() {
    if (free_.empty()) return kRegisters + program_.registers++;
    const int32_t taken = free_.back();
    free_.pop_back();
    return taken;
  }

  // Linear-scan allocation over straight-line code (Poletto and Sarkar, 1999): registers whose last reader this is are
  // freed first, so that the result may take an operand's place, element by element.
  void EmitTileStep(int32_t i) {
    Step step = StepOf(i);
    const Instruction& x = At(i);
    std::vector<int32_t> ended;
    for (const int32_t operand : {x.a, x.b, x.c}) {
      if (operand < 0 || Place(operand) < kRegisters || last_use_[static_cast<size_t>(operand)] != i) continue;
      if (std::find(ended.begin(), ended.end(), Place(operand)) == ended.end()) ended.push_back(Place(operand));
    }
    free_.insert(free_.end(), ended.begin(), ended.end());
    for (size_t r = 0; r < results_.size(); ++r) {
      if (results_[r] == i && direct_[r]) step.y = program_.inputs + static_cast<int32_t>(r);
    }
    if (step.y < 0) step.y = TakeRegister();
    Place(i) = step.y;
    program_.tile_steps.push_back(step);
  }

  void EmitStores() {
    if (!plan_.stores) {
      for (const int32_t i : results_) program_.results.push_back({Place(i), LevelOf(i) != Level::kTile});
      return;
    }
    // Inputs that are results themselves: saved first if some output lies on them (two states may swap).
    std::vector<int32_t> from;
    for (size_t r = 0; r < results_.size(); ++r) {
      const int32_t i = results_[r];
      from.push_back(Place(i));
      if (!IsTileInput(i)) continue;
      const bool overwritten = std::any_of(plan_.overwrites.begin(), plan_.overwrites.end(),
                                           [&](uint64_t bits) { return (bits & InputBit(At(i).input)) != 0; });
      if (!overwritten) continue;
      from[r] = TakeRegister();
      program_.tile_steps.push_back({.op = ScalarOp::kInput, .a = Place(i), .y = from[r]});
    }
    for (size_t r = 0; r < results_.size(); ++r) {
      const auto output = program_.inputs + static_cast<int32_t>(r);
      const bool is_scalar = LevelOf(results_[r]) != Level::kTile;
      program_.results.push_back({output, false});
      if (direct_[r]) continue;
      program_.tile_steps.push_back(
          {.op = ScalarOp::kInput, .scalars = static_cast<uint8_t>(is_scalar ? 1 : 0), .a = from[r], .y = output});
    }
  }

  // Only now is the number of scalars known, behind which the registers lie.
  void NumberRegisters() {
    const auto fix = [&](int32_t& location) {
      if (location >= kRegisters) location += program_.first_register() - kRegisters;
    };
    for (Step& step : program_.tile_steps) {
      fix(step.a);
      fix(step.b);
      fix(step.c);
      fix(step.y);
    }
    for (TileProgram::Result& result : program_.results) fix(result.location);
  }

  const std::vector<Instruction>& code_;
  const std::vector<int32_t>& results_;
  std::span<const Level> input_levels_;
  const StorePlan& plan_;
  TileProgram program_;
  std::vector<Level> levels_;
  std::vector<int32_t> places_;  // locations of instructions
  std::vector<int32_t> last_use_;
  std::vector<bool> direct_;  // results written by their own step
  std::vector<int32_t> free_;
};

}  // namespace

TileProgram Compile(const Expression& expression, std::span<const Level> inputs, const StorePlan& plan) {
  return Compiler(expression, inputs, plan).Run();
}

}  // namespace moka::tile
