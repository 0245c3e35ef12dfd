// The launchers of every kernel of Moka's own for GPUs. A kernel is a functor: a plain struct of pointers and sizes
// whose __host__ __device__ members say what one element, row or column is. The launchers decide how threads share the
// work; on a rehearsed GPU they go through the same threads one after another, so what is tested there is the very
// functor, with the same order of sums.
#pragma once

#include "layers/cuda/launch_elements.cuh"

namespace moka::cuda {

// Rows ---------------------------------------------------------------------------------------------------------------

// F has a State (trivially copyable) and
//   State Start() const                                  what nothing adds up to
//   void Add(int64_t row, int64_t i, State&) const       element i of a row
//   static void Join(State&, const State& later)
//   void Write(int64_t row, int64_t i, const State&) const   once the row is summed, for each element
//   void Finish(int64_t row, const State&) const             and once a row
template <class F, int kThreads>
__global__ void __launch_bounds__(kThreads) RowKernel(F f, int64_t rows, int64_t length) {
  using State = typename F::State;
  __shared__ alignas(16) unsigned char room[sizeof(State) * kThreads];
  State* const states = reinterpret_cast<State*>(room);
  const int thread = static_cast<int>(threadIdx.x);
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    State mine = f.Start();
    for (int64_t i = thread; i < length; i += kThreads) f.Add(row, i, mine);
    states[thread] = mine;
    __syncthreads();
    for (int reach = kThreads / 2; reach > 0; reach /= 2) {
      if (thread < reach) F::Join(states[thread], states[thread + reach]);
      __syncthreads();
    }
    const State all = states[0];
    for (int64_t i = thread; i < length; i += kThreads) f.Write(row, i, all);
    if (thread == 0) f.Finish(row, all);
    __syncthreads();  // states are those of the next row from here on
  }
}

template <class F, int kThreads>
void LaunchRows(Stream& stream, int64_t rows, int64_t length, const F& f) {
  if (stream.native() == nullptr) {
    stream.Rehearse([f, rows, length] {
      typename F::State states[kThreads];
      for (int64_t row = 0; row < rows; ++row) {
        for (int thread = 0; thread < kThreads; ++thread) {
          states[thread] = f.Start();
          for (int64_t i = thread; i < length; i += kThreads) f.Add(row, i, states[thread]);
        }
        for (int reach = kThreads / 2; reach > 0; reach /= 2) {
          for (int thread = 0; thread < reach; ++thread) F::Join(states[thread], states[thread + reach]);
        }
        for (int64_t i = 0; i < length; ++i) f.Write(row, i, states[0]);
        f.Finish(row, states[0]);
      }
    });
    return;
  }
  const int64_t blocks = std::min(rows, kMaxBlocks);
  RowKernel<F, kThreads><<<static_cast<unsigned>(blocks), kThreads, 0, NativeStream(stream)>>>(f, rows, length);
  CheckLaunch(stream);
}

// Rows of `length` elements, each summed up by one block of threads; an empty row is Start().
template <class F>
void ForEachRow(Stream& stream, int64_t rows, int64_t length, const F& f) {
  constexpr int64_t kShort = 128;
  if (rows == 0) return;
  if (length <= kShort) {
    LaunchRows<F, 32>(stream, rows, length, f);
  } else {
    LaunchRows<F, 256>(stream, rows, length, f);
  }
}

// Columns ------------------------------------------------------------------------------------------------------------

// How rows of [rows, columns] are cut for the sums of their columns: each chunk leaves a State a column in scratch.
struct ColumnPlan {
  static constexpr int kColumns = 32;  // a block's
  static constexpr int kLanes = 8;     // rows that a block reads at a time

  int64_t rows = 0;
  int64_t columns = 0;
  int64_t chunks = 1;
  int64_t chunk_rows = 0;

  ColumnPlan() = default;
  ColumnPlan(int64_t row_count, int64_t column_count) : rows(row_count), columns(column_count) {
    constexpr int64_t kLeastRows = 16 * kLanes;  // in a chunk
    constexpr int64_t kBlocks = 132 * 4;
    const int64_t tiles = std::max<int64_t>(1, (columns + kColumns - 1) / kColumns);
    const int64_t wanted = std::max<int64_t>(1, kBlocks / tiles);
    chunks = std::clamp<int64_t>(rows / kLeastRows, 1, wanted);
    chunk_rows = (rows + chunks - 1) / chunks;
  }
  template <class F>
  int64_t ScratchBytes() const {
    return chunks * columns * static_cast<int64_t>(sizeof(typename F::State));
  }
};

// The sum of one chunk's column as lane `lane` has it.
template <class F>
__host__ __device__ typename F::State SumLane(const F& f, const ColumnPlan& plan, int64_t chunk, int64_t column,
                                              int lane) {
  typename F::State mine = f.Start();
  const int64_t end = (chunk + 1) * plan.chunk_rows < plan.rows ? (chunk + 1) * plan.chunk_rows : plan.rows;
  for (int64_t row = chunk * plan.chunk_rows + lane; row < end; row += ColumnPlan::kLanes) f.Add(row, column, mine);
  return mine;
}

template <class F>
__global__ void __launch_bounds__(ColumnPlan::kColumns* ColumnPlan::kLanes)
    ColumnKernel(F f, ColumnPlan plan, typename F::State* partial) {
  using State = typename F::State;
  __shared__ alignas(16) unsigned char room[sizeof(State) * ColumnPlan::kColumns * ColumnPlan::kLanes];
  State* const states = reinterpret_cast<State*>(room);
  const int x = static_cast<int>(threadIdx.x);
  const int lane = static_cast<int>(threadIdx.y);
  const int64_t column = int64_t{blockIdx.x} * ColumnPlan::kColumns + x;
  const int64_t chunk = blockIdx.y;
  if (column < plan.columns) states[lane * ColumnPlan::kColumns + x] = SumLane(f, plan, chunk, column, lane);
  __syncthreads();
  if (lane != 0 || column >= plan.columns) return;
  State sum = states[x];
  for (int other = 1; other < ColumnPlan::kLanes; ++other) F::Join(sum, states[other * ColumnPlan::kColumns + x]);
  partial[chunk * plan.columns + column] = sum;
}

// Joins the chunks' sums of a column in their order.
template <class F>
struct ColumnEnd {
  F f;
  ColumnPlan plan;
  const typename F::State* partial;
  __host__ __device__ void operator()(int64_t column) const {
    typename F::State sum = partial[column];
    for (int64_t chunk = 1; chunk < plan.chunks; ++chunk) F::Join(sum, partial[chunk * plan.columns + column]);
    f.Finish(column, sum);
  }
};

// The columns of [rows, columns], each summed over all rows: Start, Add(row, column, State&) and Join as for rows, then
// Finish(column, State). partial: plan.ScratchBytes<F>() of scratch.
template <class F>
void ForEachColumn(Stream& stream, const ColumnPlan& plan, typename F::State* partial, const F& f) {
  if (plan.columns == 0) return;
  if (stream.native() == nullptr) {
    stream.Rehearse([f, plan, partial] {
      for (int64_t i = 0; i < plan.chunks * plan.columns; ++i) {
        const int64_t chunk = i / plan.columns;
        const int64_t column = i % plan.columns;
        typename F::State sum = SumLane(f, plan, chunk, column, 0);
        for (int lane = 1; lane < ColumnPlan::kLanes; ++lane) F::Join(sum, SumLane(f, plan, chunk, column, lane));
        partial[i] = sum;
      }
    });
  } else {
    const dim3 grid(static_cast<unsigned>((plan.columns + ColumnPlan::kColumns - 1) / ColumnPlan::kColumns),
                    static_cast<unsigned>(plan.chunks));
    const dim3 block(ColumnPlan::kColumns, ColumnPlan::kLanes);
    ColumnKernel<<<grid, block, 0, NativeStream(stream)>>>(f, plan, partial);
    CheckLaunch(stream);
  }
  ForEach(stream, plan.columns, ColumnEnd<F>{f, plan, partial});
}

}  // namespace moka::cuda
