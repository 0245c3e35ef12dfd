// How the weights' gradient of weights.cpp is cut into pieces that stay in the caches. Private to
// layers/kernels/cpu/winograd.
#pragma once

#include <array>
#include <cstdint>

#include "core/types.h"
#include "layers/kernels/cpu/winograd/schedule.h"
#include "layers/kernels/cpu/winograd/weights_lanes.h"

namespace moka::winograd {

constexpr int64_t kSegment = 16;  // tiles transformed at a time: what threads share

// The instruction set for channel blocks of this size, of bfloat16 or else float, and 3 or 2 taps; null if this
// processor has none.
const WeightsLanes* WeightsLanesFor(int64_t block, int taps, bool is_half);
// For the channel blocks of x [N,C,H,W]; null also if it lies otherwise.
const WeightsLanes* WeightsLanesOf(const TensorType& x, int taps);

// How the blocks [c][k] of the result lie in dw.
enum class BlockOrder : uint8_t { kPlain, kOutputsInner, kInputsInner };

struct GradientProblem {
  const WeightsLanes* lanes = nullptr;
  TiledPlane x;   // without data
  TiledPlane dy;  // likewise
  Shape dw;       // [K,C/groups,3,3], or 4,4
  BlockOrder order = BlockOrder::kPlain;
  bool bias = false;
  int64_t groups = 1;
  int64_t tiles = 0;
  // Tiles stand image by image, or `unit` of them by kind: of each kind its share of all units of a chunk.
  std::array<TileKind, kKinds> kinds;
  int64_t unit = 1;
  int64_t phases = 1;    // of x: 4 with stride 2
  int64_t c_panels = 0;  // channel blocks of a group of x, each phase its own
  int64_t k_panels = 0;  // and of dy

  int64_t L() const { return lanes->lanes; }
  int64_t points() const { return lanes->points(); }  // of a transformed tile
  int64_t window() const { return dw[3]; }
  int64_t segments() const { return (tiles + kSegment - 1) / kSegment; }
  // Tiles of a kind in a unit.
  int64_t share(size_t kind) const { return unit == 1 ? kind == 1 : kinds[kind].rows * kinds[kind].columns; }
};

// Tiles [begin, end) of a chunk are those that take part at a point.
struct TileRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};
TileRange TilesAt(const GradientProblem& problem, int64_t point, int64_t tiles);

// Four orders of work; weights.cpp says what they are.
enum class GradientMode : uint8_t { kPrivate, kParts, kShared, kWhole };

struct GradientPlan {
  GradientMode mode = GradientMode::kShared;
  int64_t threads = 1;  // that share the work
  int64_t chunk = 0;    // tiles transformed before they are multiplied; whole segments
  int64_t c_block = 0;  // panels of c and k a thread multiplies at a time
  int64_t k_block = 0;
  int64_t c_parts = 1;  // that the panels are cut into, a thread each (kParts)
  int64_t k_parts = 1;
  // Scratch memory: its size, and byte offsets of
  int64_t bytes = 0;
  int64_t v = 0;     // x's transform [points][c_panels][chunk][L],
  int64_t m = 0;     // dy's [points][k_panels][chunk][L],
  int64_t u = 0;     // the sums over tiles [points][c][k][L][L] of all panels or one block,
  int64_t rows = 0;  // a block of dw a thread [taps*taps][L][L],
  int64_t sums = 0;  // and the sums of dy's segments [segments][k_panels][L].
  // From one thread's copy of v, m and u, or of u alone, to the next one's.
  int64_t copy_bytes = 0;
  // Distances between points in floats.
  int64_t v_stride = 0;
  int64_t m_stride = 0;
  int64_t u_stride = 0;

  // How many v and m there are, and how many u.
  int64_t copies() const { return mode == GradientMode::kPrivate || mode == GradientMode::kParts ? threads : 1; }
  int64_t sum_copies() const { return mode == GradientMode::kWhole ? threads : copies(); }
};

// Depends on the shape and the number of threads only; fewer threads than that may share the work.
GradientPlan PlanGradient(const GradientProblem& problem, int64_t threads);

}  // namespace moka::winograd
