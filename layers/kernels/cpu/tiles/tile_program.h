// An expression compiled for the tile interpreter: values that are the same for all elements are computed once a run,
// values that are the same along a row once a row, the rest a tile at a time in as few registers as liveness allows.
// Locations, the operands of steps, are numbered: inputs, outputs, scalars, registers.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "layers/kernels/cpu/tiles/tile_ops.h"

namespace moka::tile {

// Over what an input keeps its value.
enum class Level : uint8_t { kUniform, kRow, kTile };

struct TileProgram {
  std::vector<Step> uniform_steps;
  std::vector<Step> row_steps;
  std::vector<Step> tile_steps;
  std::vector<std::pair<int32_t, double>> constants;  // location, value
  // Where each result is after the tile steps, and whether it is a scalar.
  struct Result {
    int32_t location = -1;
    bool is_scalar = false;
  };
  std::vector<Result> results;
  int inputs = 0;
  int outputs = 0;
  int scalars = 0;
  int registers = 0;

  int first_scalar() const { return inputs + outputs; }
  int first_register() const { return inputs + outputs + scalars; }
  int locations() const { return first_register() + registers; }
};

// The bit of an input in overwrites; inputs from 63 on share the last.
constexpr uint64_t InputBit(int input) { return uint64_t{1} << static_cast<unsigned>(input < 63 ? input : 63); }
// stores: results are written to output locations; overwrites[r] has input i's bit if output r is the memory of input i
// (then it is written when input i has been read for the last time). Otherwise results stay where they are.
struct StorePlan {
  bool stores = true;
  std::vector<uint64_t> overwrites;
};
TileProgram Compile(const Expression& expression, std::span<const Level> inputs, const StorePlan& plan);

}  // namespace moka::tile
