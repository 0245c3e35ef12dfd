// How a Winograd convolution is cut into pieces that stay in the caches and keep every thread busy. Private to
// layers/kernels/cpu/winograd and its tests.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "layers/kernels/cpu/winograd/tile.h"

namespace moka::winograd {

// The kinds of tiles that planes of these outputs are cut into, some of them without any; with narrow ones, or padded
// to whole ones. In this order the kinds that take part at any one point are neighbours.
std::array<TileKind, kKinds> KindsOf(int64_t height, int64_t width, bool narrow);

// A correlation of x with weights: the forward pass, or the gradient of the input with dy as x, where the weights are
// rotated and their axes change roles. The gradient of a stride of 2 is kPhases of them, which share x.
struct Correlation {
  const TileFunctions* functions = nullptr;
  std::array<Frame, kPhases> frames;        // equal in all but pads, outputs' sizes and places
  std::array<WeightStep, kPhases> weights;  // where they lie, for the first group; equal in all but the first tap
  int64_t y_phases = 1;
  int64_t images = 0;
  int64_t groups = 1;
  int64_t in_channels = 0;  // of one group; a multiple of the lanes if there are several
  int64_t out_channels = 0;
  int64_t weight_group_stride = 0;  // floats

  int64_t lanes() const { return functions->lanes; }
  int64_t points() const { return functions->points; }
  int64_t element_bytes() const { return functions->element_bytes; }
  int64_t in_blocks() const { return (in_channels + lanes() - 1) / lanes(); }
  int64_t out_blocks() const { return (out_channels + lanes() - 1) / lanes(); }
  int64_t tiles() const { return images * frames[0].tile_rows * frames[0].tile_columns; }
  // Channels of the products: phases are padded to whole blocks.
  int64_t depth() const { return frames[0].x_phases == 1 ? in_channels : padded_depth(); }
  int64_t padded_depth() const { return in_blocks() * lanes() * frames[0].x_phases; }
};

struct Caches {
  int64_t core_bytes = 0;    // second level, one core's
  int64_t shared_bytes = 0;  // last level
};
// Returns the sizes of this machine's caches, or small ones where it does not tell.
Caches MachineCaches();

enum class Order : uint8_t {
  // All weights are transformed first; then a thread takes a block of tiles and carries it through all steps while its
  // transform is in the second-level cache. For many tiles and few weights.
  kTilesOutside,
  // A span of tiles is transformed first; then a thread takes a slice of output channels, transforms its weights chunk
  // by chunk and multiplies each chunk with all tiles of the span. For many weights and few tiles.
  kWeightsOutside,
};

struct Schedule {
  Order order = Order::kTilesOutside;
  int64_t parts = 1;        // what runs at once: threads, or fewer
  int64_t blocks = 1;       // of tiles (kTilesOutside), or spans
  int64_t block_tiles = 1;  // the most tiles of a block
  int64_t slices = 1;       // of output channels, one or two vectors each
  int64_t slice_vectors = 2;
  int64_t chunk = 0;  // channels of the products whose transformed weights a part holds at a time (kWeightsOutside)

  // True if each part repeats in its own memory what is transformed first (u of all weights, each phase's behind the
  // other's, or v); else all threads make it together and share it.
  bool repeats = false;

  // Floats of scratch memory, and where the arrays of one part start.
  int64_t transformed_floats = 0;  // of what is transformed first
  int64_t part_floats = 0;
  int64_t u_stride = 0;
  int64_t v_stride = 0;
  int64_t m_stride = 0;

  int64_t shared_floats() const { return repeats ? 0 : transformed_floats; }
  int64_t ScratchFloats() const { return shared_floats() + parts * part_floats; }
};

// The results' bits do not depend on the schedule: each output is summed over its input channels in their order.
Schedule Plan(const Correlation& c, int64_t threads, const Caches& caches);

// The memory of one run.
struct Operands {
  const std::byte* x = nullptr;  // elements
  const float* w = nullptr;
  const float* bias = nullptr;         // [groups*out_blocks*lanes]
  const std::byte* summand = nullptr;  // like y, or null
  float floor = 0;
  std::byte* y = nullptr;  // elements
  float* scratch = nullptr;
};
void Run(const Correlation& c, const Schedule& schedule, const Operands& operands);

}  // namespace moka::winograd
