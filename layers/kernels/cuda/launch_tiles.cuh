// The launcher of transpositions: blocks of threads go through shared memory in tiles, so that neighbouring threads
// read neighbouring columns and write neighbouring rows.
#pragma once

#include "layers/kernels/cuda/launch_elements.cuh"

namespace moka::cuda {

// batches x rows x columns, in square tiles that a block of threads shares.
struct TileGrid {
  static constexpr int kEdge = 32;
  static constexpr int kThreads = 256;
  static constexpr int kStep = kThreads / kEdge;

  int64_t batches = 1;
  int64_t rows = 0;
  int64_t columns = 0;

  // The columns' neighbours in a tile lie one element further than its edge, so that a warp that goes down a column
  // meets every bank of shared memory once, whatever the width of an element.
  template <class Element>
  using Tile = Element[kEdge][kEdge + 1];
  struct Corner {
    int64_t batch;
    int64_t row;
    int64_t column;
  };

  __host__ __device__ int64_t Across() const { return (columns + kEdge - 1) / kEdge; }
  __host__ __device__ int64_t Down() const { return (rows + kEdge - 1) / kEdge; }
  __host__ __device__ int64_t Count() const { return batches * Down() * Across(); }
  __host__ __device__ Corner At(int64_t tile) const {
    return {tile / Across() / Down(), tile / Across() % Down() * kEdge, tile % Across() * kEdge};
  }
  // A thread's share of reading a tile, and once all have read theirs, of writing it.
  template <class F>
  __host__ __device__ void Read(const F& f, const Corner& at, int thread, Tile<typename F::Element>& tile) const {
    const auto place = f.Enter(at.batch);
    const int x = thread % kEdge;
    for (int y = thread / kEdge; y < kEdge; y += kStep) {
      if (at.row + y < rows && at.column + x < columns) tile[y][x] = f.Read(place, at.row + y, at.column + x);
    }
  }
  template <class F>
  __host__ __device__ void Write(const F& f, const Corner& at, int thread,
                                 const Tile<typename F::Element>& tile) const {
    const auto place = f.Enter(at.batch);
    const int x = thread % kEdge;
    for (int y = thread / kEdge; y < kEdge; y += kStep) {
      if (at.row + x < rows && at.column + y < columns) f.Write(place, at.row + x, at.column + y, tile[x][y]);
    }
  }
};

template <class F>
__global__ void __launch_bounds__(TileGrid::kThreads) TileKernel(F f, TileGrid grid) {
  __shared__ TileGrid::Tile<typename F::Element> tile;
  const int thread = static_cast<int>(threadIdx.x);
  for (int64_t i = blockIdx.x; i < grid.Count(); i += gridDim.x) {
    const TileGrid::Corner at = grid.At(i);
    grid.Read(f, at, thread, tile);
    __syncthreads();
    grid.Write(f, at, thread, tile);
    __syncthreads();  // the tile is the next one's from here on
  }
}

// F has an Element (trivially copyable) and
//   auto Enter(int64_t batch) const                        where a batch lies, for
//   Element Read(place, int64_t row, int64_t column) const
//   void Write(place, int64_t row, int64_t column, Element) const
// Each element is read once and written once; what is written is not read by others.
template <Launchable F>
void ForEachTile(Stream& stream, const TileGrid& grid, const F& f) {
  if (grid.Count() == 0) return;
  if (stream.native() == nullptr) {
    stream.Rehearse([f, grid] {
      TileGrid::Tile<typename F::Element> tile;
      for (int64_t i = 0; i < grid.Count(); ++i) {
        for (int thread = 0; thread < TileGrid::kThreads; ++thread) grid.Read(f, grid.At(i), thread, tile);
        for (int thread = 0; thread < TileGrid::kThreads; ++thread) grid.Write(f, grid.At(i), thread, tile);
      }
    });
    return;
  }
  const int64_t blocks = std::min(grid.Count(), kMaxBlocks);
  TileKernel<<<static_cast<unsigned>(blocks), TileGrid::kThreads, 0, NativeStream(stream)>>>(f, grid);
  CheckLaunch(stream);
}

}  // namespace moka::cuda
