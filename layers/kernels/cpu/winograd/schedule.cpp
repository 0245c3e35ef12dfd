// Chooses between the two orders of work by which transformed operand is the smaller, as the other one stays in caches,
// and cuts blocks, spans and slices so that all threads have as many tiles. Strides are odd numbers of cache lines, as
// powers of two would put all points into one set.
#include "layers/kernels/cpu/winograd/schedule.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "core/threads/parallel.h"

namespace moka::winograd {
namespace {

constexpr int64_t kFloatBytes = 4;
constexpr int64_t kLineFloats = 16;
int64_t CeilOf(int64_t a, int64_t b) { return (a + b - 1) / b; }

// A stride for arrays that are written side by side: an odd number of cache lines, lest they all fall into one set.
int64_t Stride(int64_t floats) { return (CeilOf(floats, kLineFloats) | 1) * kLineFloats; }

// Only three taps have narrow tiles.
std::array<TileKind, kKinds> PlaneKinds(const Correlation& c) {
  return KindsOf(c.frames[0].out_height, c.frames[0].out_width, c.points() == 36);
}

// A block has its share of the tiles of each kind.
TileBlock TilesOf(const Correlation& c, const Schedule& s, int64_t block) {
  TileBlock tiles;
  int64_t before = 0;
  for (const TileKind& kind : PlaneKinds(c)) {
    const int64_t all = c.images * kind.rows * kind.columns;
    const int64_t first = all * block / s.blocks;
    const int64_t count = all * (block + 1) / s.blocks - first;
    if (count == 0) continue;
    tiles.kinds[tiles.size++] = {kind, first, count, CeilOf(count, c.functions->group_tiles), before};
    before += count;
  }
  return tiles;
}

int64_t GroupsOf(const TileBlock& tiles) {
  int64_t groups = 0;
  for (const Tiles& t : tiles) groups += t.groups;
  return groups;
}

// The most tiles that any of so many blocks has.
int64_t BlockTiles(const Correlation& c, int64_t blocks) {
  int64_t tiles = 0;
  for (const TileKind& kind : PlaneKinds(c)) tiles += CeilOf(c.images * kind.rows * kind.columns, blocks);
  return tiles;
}

int64_t VectorsOf(const Correlation& c, const Schedule& s, int64_t slice) {
  return std::min(s.slice_vectors, c.out_blocks() - slice * s.slice_vectors);
}

// One group's run. The steps' common fields are filled here.
class GroupRun {
 public:
  GroupRun(const Correlation& c, const Schedule& s, const Operands& o, int64_t group) : c_(c), s_(s), o_(o) {
    const int64_t in = group * c.in_blocks() * c.frames[0].x_block_stride * c.element_bytes();
    const int64_t out = group * c.out_blocks() * c.frames[0].y_block_stride * c.element_bytes();
    o_.x += in;
    o_.w += group * c.weight_group_stride;
    o_.bias += group * c.out_blocks() * c.lanes();
    if (o_.summand != nullptr) o_.summand += out;
    o_.y += out;
  }

  // u of all weights is made once and read by every block, so it streams from the last-level cache; v and m of a block
  // never leave the second level. The end of the first ParallelFor is the barrier between the two.
  void TilesOutside() const {
    const int64_t items = c_.y_phases * s_.slices * Ranges();
    if (!s_.repeats) {
      ParallelFor(items, 1, [&](int64_t begin, int64_t end, int) { TransformWeights(begin, end, o_.scratch); });
    }
    ForParts(s_.blocks, [&](int64_t first, int64_t last, float* own) {
      const float* u = s_.repeats ? own : o_.scratch;
      float* v = s_.repeats ? own + s_.transformed_floats : own;
      float* m = v + c_.points() * s_.v_stride;
      if (s_.repeats) TransformWeights(0, items, own);
      for (int64_t block = first; block < last; ++block) {
        const TileBlock tiles = TilesOf(c_, s_, block);
        for (int64_t phase = 0; phase < c_.y_phases; ++phase) {
          TransformInputs(phase, tiles, 0, GroupsOf(tiles) * c_.in_blocks(), v);
          for (int64_t slice = 0; slice < s_.slices; ++slice) {
            Multiply(tiles, slice, 0, c_.depth(), u + SliceOffset(phase, slice), v, m);
            Output(phase, tiles, slice, m);
          }
        }
      }
    });
  }

  // The mirror image: v of a span is made once and read by every slice, and the weights of a slice are transformed in
  // chunks of channels right before they are multiplied, so that u, four times the weights, never exists as a whole.
  void WeightsOutside(int64_t span, int64_t phase) const {
    const TileBlock tiles = TilesOf(c_, s_, span);
    const int64_t items = GroupsOf(tiles) * c_.in_blocks();
    if (!s_.repeats) {
      ParallelFor(items, 1,
                  [&](int64_t begin, int64_t end, int) { TransformInputs(phase, tiles, begin, end, o_.scratch); });
    }
    ForParts(s_.slices, [&](int64_t first, int64_t last, float* own) {
      float* v = s_.repeats ? own : o_.scratch;
      float* u = s_.repeats ? own + s_.transformed_floats : own;
      float* m = u + c_.points() * s_.u_stride;
      if (s_.repeats) TransformInputs(phase, tiles, 0, items, own);
      for (int64_t slice = first; slice < last; ++slice) {
        for (int64_t c = 0; c < c_.depth(); c += s_.chunk) {
          const int64_t end = std::min(c_.depth(), c + s_.chunk);
          Weights(phase, slice, c, end, u);
          Multiply(tiles, slice, c, end, u, v, m);
        }
        Output(phase, tiles, slice, m);
      }
    });
  }

 private:
  static constexpr int64_t kItemChannels = 64;

  int64_t Ranges() const { return CeilOf(c_.depth(), kItemChannels); }

  // Transforms all weights to u: items are phases by slices by ranges of channels.
  void TransformWeights(int64_t begin, int64_t end, float* u) const {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t phase = i / Ranges() / s_.slices;
      const int64_t slice = i / Ranges() % s_.slices;
      const int64_t first = i % Ranges() * kItemChannels;
      float* to = u + SliceOffset(phase, slice) + first * VectorsOf(c_, s_, slice) * c_.lanes();
      Weights(phase, slice, first, std::min(c_.depth(), first + kItemChannels), to);
    }
  }

  // Transforms a block's or span's tiles to v: items are groups of tiles by blocks of channels.
  // Groups of tiles are numbered through all kinds; the loop steps to the next kind as it comes to it.
  void TransformInputs(int64_t phase, const TileBlock& tiles, int64_t begin, int64_t end, float* v) const {
    const Tiles* kind = tiles.kinds;
    int64_t groups_before = 0;  // of other kinds
    for (int64_t i = begin; i < end;) {
      const int64_t block = i % c_.in_blocks();
      const int64_t last = std::min(c_.in_blocks(), block + end - i);
      for (; i / c_.in_blocks() - groups_before >= kind->groups; ++kind) groups_before += kind->groups;
      Input(phase, *kind, i / c_.in_blocks() - groups_before, block, last, v);
      i += last - block;
    }
  }

  // Calls body(begin, end, memory of the part) for each part's items, which are neighbours.
  template <class Body>
  void ForParts(int64_t items, Body&& body) const {
    ParallelFor(s_.parts, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t part = begin; part < end; ++part) {
        body(items * part / s_.parts, items * (part + 1) / s_.parts,
             o_.scratch + s_.shared_floats() + part * s_.part_floats);
      }
    });
  }

  // Floats before a slice of all transformed weights.
  int64_t SliceOffset(int64_t phase, int64_t slice) const {
    return phase * c_.points() * s_.u_stride + slice * s_.slice_vectors * c_.lanes() * c_.depth();
  }

  const Frame& FrameOf(int64_t phase) const { return c_.frames[static_cast<size_t>(phase)]; }

  void Input(int64_t phase, const Tiles& tiles, int64_t group, int64_t block_begin, int64_t block_end, float* v) const {
    c_.functions->input({&FrameOf(phase), tiles, group, c_.in_blocks(), block_begin, block_end, o_.x, v, s_.v_stride});
  }

  void Weights(int64_t phase, int64_t slice, int64_t in_begin, int64_t in_end, float* u) const {
    WeightStep step = c_.weights[static_cast<size_t>(phase)];
    step.w = o_.w;
    step.out_block = slice * s_.slice_vectors;
    step.vectors = VectorsOf(c_, s_, slice);
    step.in_begin = in_begin;
    step.in_end = in_end;
    step.u = u;
    step.u_stride = s_.u_stride;
    c_.functions->weights(step);
  }

  void Multiply(const TileBlock& tiles, int64_t slice, int64_t in_begin, int64_t in_end, const float* u, const float* v,
                float* m) const {
    c_.functions->multiply({&tiles, c_.padded_depth() / c_.lanes(), in_begin, in_end, VectorsOf(c_, s_, slice),
                            in_begin > 0, u, s_.u_stride, v, s_.v_stride, m, s_.m_stride});
  }

  void Output(int64_t phase, const TileBlock& tiles, int64_t slice, const float* m) const {
    const int64_t block = slice * s_.slice_vectors;
    const int64_t offset = block * FrameOf(phase).y_block_stride * c_.element_bytes();
    for (const Tiles& kind : tiles) {
      c_.functions->output({&FrameOf(phase), kind, VectorsOf(c_, s_, slice), m, s_.m_stride,
                            o_.bias + block * c_.lanes(), o_.summand == nullptr ? nullptr : o_.summand + offset,
                            o_.floor, o_.y + offset});
    }
  }

  const Correlation& c_;
  const Schedule& s_;
  Operands o_;
};

int64_t CacheBytes(int name, int64_t fallback) {
  const int64_t bytes = sysconf(name);
  return bytes > 0 ? bytes : fallback;
}

// A core reads what another has just written at about a third of the rate at which it can make it itself, so as long as
// the transform fits its own cache, each part makes it all. Measured with two threads (us shared, repeated): 32
// channels of two 16x16 planes 31, 17; of eight 71, 56; 64 channels of sixteen 8x8 planes 130, 104, of two 56x56 planes
// 614, 588.
Schedule Repeated(Schedule s, const Caches& caches) {
  s.repeats = s.parts > 1 && s.transformed_floats * kFloatBytes <= caches.core_bytes;
  if (s.repeats) s.part_floats += s.transformed_floats;
  return s;
}

Schedule PlanTilesOutside(const Correlation& c, int64_t threads, const Caches& caches, Schedule s) {
  // Transformed weights are read once a block: the further away they lie, the more tiles share them. Measured with 1
  // MiB a core: 14 tiles are fastest up to 128 channels (224x224x64: 505 GFLOP/s against 301 to 410 with 28 to 56), 56
  // tiles for 512 (535 against 492 with 28).
  const int64_t in = c.padded_depth();
  const int64_t slice = s.slice_vectors * c.lanes();
  const int64_t weight_bytes = c.points() * in * c.out_blocks() * c.lanes() * kFloatBytes;
  const int64_t few = weight_bytes <= 4 * caches.core_bytes ? 14 : weight_bytes <= 16 * caches.core_bytes ? 28 : 56;
  const int64_t most = CeilOf(few, c.functions->group_tiles) * c.functions->group_tiles;
  s.slices = CeilOf(c.out_blocks(), s.slice_vectors);
  s.parts = std::min(threads, c.tiles());
  s.blocks = std::min(c.tiles(), CeilOf(CeilOf(c.tiles(), most), s.parts) * s.parts);
  s.block_tiles = BlockTiles(c, s.blocks);
  s.u_stride = Stride(c.out_blocks() * c.lanes() * c.depth());
  s.v_stride = Stride(s.block_tiles * in);
  s.m_stride = Stride(s.block_tiles * slice);
  s.transformed_floats = c.y_phases * c.points() * s.u_stride;
  s.part_floats = c.points() * (s.v_stride + s.m_stride);
  return Repeated(s, caches);
}

Schedule PlanWeightsOutside(const Correlation& c, int64_t threads, const Caches& caches, Schedule s) {
  // Shared with x, y and the other threads' memory. Measured with 32 MiB and 512 channels of 14x14: 374 GFLOP/s with
  // spans of 64 tiles (4.5 MiB), 350 with 128, 257 with 256.
  constexpr double kCacheShare = 0.15;
  // Few tiles leave little to multiply between the write and the read of a chunk: a smaller one stays closer.
  constexpr int64_t kFewTiles = 32;
  // One vector a slice rather than idle threads.
  if (CeilOf(c.out_blocks(), s.slice_vectors) < threads) s.slice_vectors = 1;
  const int64_t in = c.padded_depth();
  const int64_t slice = s.slice_vectors * c.lanes();
  const auto tile_bytes = static_cast<double>(c.points() * in * kFloatBytes);
  const auto most = static_cast<int64_t>(kCacheShare * static_cast<double>(caches.shared_bytes) / tile_bytes);
  s.slices = CeilOf(c.out_blocks(), s.slice_vectors);
  s.parts = std::min(threads, s.slices);
  s.blocks = CeilOf(c.tiles(), std::max<int64_t>(1, most));
  s.block_tiles = BlockTiles(c, s.blocks);
  s.v_stride = Stride(s.block_tiles * in);
  s.chunk = s.block_tiles < kFewTiles ? 64 : 128;
  s.u_stride = Stride(std::min(c.depth(), s.chunk) * slice);
  s.m_stride = Stride(s.block_tiles * slice);
  s.transformed_floats = c.points() * s.v_stride;
  s.part_floats = c.points() * (s.u_stride + s.m_stride);
  return Repeated(s, caches);
}

}  // namespace

// The grid of whole tiles, a column at its right, a row below and the corner, as wide and high as the planes'
// remainders.
std::array<TileKind, kKinds> KindsOf(int64_t height, int64_t width, bool narrow) {
  if (!narrow) return {{{}, {0, CeilOf(height, kTile), 0, CeilOf(width, kTile)}}};
  const int64_t rows = height / kTile;
  const int64_t columns = width / kTile;
  const auto below = static_cast<int>(height % kTile);
  const auto right = static_cast<int>(width % kTile);
  std::array<TileKind, kKinds> kinds = {{{}, {0, rows, 0, columns}}};
  if (right > 0) kinds[0] = {0, rows, columns, 1, kTile, right};
  if (below > 0) kinds[2] = {rows, 1, 0, columns, below, kTile};
  if (right > 0 && below > 0) kinds[3] = {rows, 1, columns, 1, below, right};
  return kinds;
}

Caches MachineCaches() {
  return {CacheBytes(_SC_LEVEL2_CACHE_SIZE, int64_t{512} << 10), CacheBytes(_SC_LEVEL3_CACHE_SIZE, int64_t{8} << 20)};
}

// Chooses by shapes, threads and caches alone; nothing is timed, so that one machine always has one schedule.
Schedule Plan(const Correlation& c, int64_t threads, const Caches& caches) {
  Schedule s;
  // Either order streams one transformed operand from the last-level cache or from memory, and it should be the
  // smaller: the tiles' where there are fewer of them than output channels. Measured, the weights' is still as good at
  // half.
  const bool has_few_tiles = 2 * c.tiles() <= c.out_blocks() * c.lanes();
  s.order = has_few_tiles ? Order::kWeightsOutside : Order::kTilesOutside;
  s.slice_vectors = std::min<int64_t>(kMaxVectors, c.out_blocks());
  return s.order == Order::kTilesOutside ? PlanTilesOutside(c, threads, caches, s)
                                         : PlanWeightsOutside(c, threads, caches, s);
}

void Run(const Correlation& c, const Schedule& schedule, const Operands& operands) {
  for (int64_t group = 0; group < c.groups; ++group) {
    const GroupRun run(c, schedule, operands, group);
    if (schedule.order == Order::kTilesOutside) {
      run.TilesOutside();
    } else {
      for (int64_t i = 0; i < schedule.blocks * c.y_phases; ++i) run.WeightsOutside(i / c.y_phases, i % c.y_phases);
    }
  }
}

}  // namespace moka::winograd
