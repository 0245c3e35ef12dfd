// Built with -fopenmp-simd (the loops' promise that elements are independent, as in-place operands are the same
// element) and -fno-trapping-math (so that selections become masks); neither changes a result.
#include "layers/kernels/cpu/tiles/tile_ops.h"

#include <algorithm>

#include "layers/kernels/cpu/tiles/tile_math.h"
#include "layers/kernels/cpu/vector_targets.h"

namespace moka::tile {
namespace {

// Operations as types, so that they inline into loops of every instruction set.
#define MOKA_UNARY(NAME, VALUE)    \
  struct NAME {                    \
    template <class T>             \
    MOKA_INLINE static T Of(T a) { \
      return VALUE;                \
    }                              \
  };
#define MOKA_BINARY(NAME, VALUE)        \
  struct NAME {                         \
    template <class T>                  \
    MOKA_INLINE static T Of(T a, T b) { \
      return VALUE;                     \
    }                                   \
  };
MOKA_UNARY(CopyOp, a)
MOKA_UNARY(NegOp, -a)
MOKA_UNARY(AbsOp, Abs(a))
MOKA_UNARY(ExpOp, Exp(a))
MOKA_UNARY(LogOp, Log(a))
MOKA_UNARY(SqrtOp, Sqrt(a))
MOKA_UNARY(TanhOp, Tanh(a))
MOKA_UNARY(SigmoidOp, Sigmoid(a))
MOKA_UNARY(SignOp, (a > 0 ? T{1} : T{0}) - (a < 0 ? T{1} : T{0}))
MOKA_UNARY(FloorOp, Floor(a))
MOKA_UNARY(ErfOp, Erf(a))
MOKA_BINARY(AddOp, a + b)
MOKA_BINARY(SubOp, a - b)
MOKA_BINARY(MulOp, a* b)
MOKA_BINARY(DivOp, a / b)
MOKA_BINARY(MaxOp, a > b ? a : (a != a ? a : b))
MOKA_BINARY(MinOp, a < b ? a : (a != a ? a : b))
MOKA_BINARY(PowOp, Pow(a, b))
MOKA_BINARY(LtOp, a < b ? T{1} : T{0})
MOKA_BINARY(LeOp, a <= b ? T{1} : T{0})
MOKA_BINARY(GtOp, a > b ? T{1} : T{0})
MOKA_BINARY(GeOp, a >= b ? T{1} : T{0})
MOKA_BINARY(EqOp, a == b ? T{1} : T{0})
#undef MOKA_UNARY
#undef MOKA_BINARY

// If the operand is one value for the tile, so is the result: it is computed once and written n times.
template <class Op, class T>
MOKA_INLINE void Unary(const Step& step, const Frame<T>& frame, int64_t n) {
  const T* a = frame.at[step.a];
  T* y = frame.at[step.y];
  if (step.scalars != 0) {
    const T value = Op::Of(*a);
    for (int64_t i = 0; i < n; ++i) y[i] = value;
    return;
  }
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = Op::Of(a[i]);
}

// The two bits of `scalars` say which operands are one value; with a loop for each case the value stays in a register.
template <class Op, class T>
MOKA_INLINE void Binary(const Step& step, const Frame<T>& frame, int64_t n) {
  const T* a = frame.at[step.a];
  const T* b = frame.at[step.b];
  T* y = frame.at[step.y];
  if (step.scalars == 0) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = Op::Of(a[i], b[i]);
  } else if (step.scalars == 1) {
    const T first = *a;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = Op::Of(first, b[i]);
  } else if (step.scalars == 2) {
    const T second = *b;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = Op::Of(a[i], second);
  } else {
    const T value = Op::Of(*a, *b);
    for (int64_t i = 0; i < n; ++i) y[i] = value;
  }
}

// One loop for each combination of scalar operands, as a test inside would keep it from being vectorised.
template <int kScalars, class T>
MOKA_INLINE void SelectLoop(const T* c, const T* a, const T* b, T* y, int64_t n) {
  const T c0 = *c;
  const T a0 = *a;
  const T b0 = *b;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const T condition = (kScalars & 1) != 0 ? c0 : c[i];
    const T yes = (kScalars & 2) != 0 ? a0 : a[i];
    const T no = (kScalars & 4) != 0 ? b0 : b[i];
    y[i] = condition != 0 ? yes : no;
  }
}

template <class T>
MOKA_INLINE void Select(const Step& step, const Frame<T>& frame, int64_t n) {
  const T* c = frame.at[step.a];
  const T* a = frame.at[step.b];
  const T* b = frame.at[step.c];
  T* y = frame.at[step.y];
  switch (step.scalars) {
    case 0: SelectLoop<0>(c, a, b, y, n); break;
    case 1: SelectLoop<1>(c, a, b, y, n); break;
    case 2: SelectLoop<2>(c, a, b, y, n); break;
    case 3: SelectLoop<3>(c, a, b, y, n); break;
    case 4: SelectLoop<4>(c, a, b, y, n); break;
    case 5: SelectLoop<5>(c, a, b, y, n); break;
    case 6: SelectLoop<6>(c, a, b, y, n); break;
    default: SelectLoop<7>(c, a, b, y, n); break;
  }
}

// Philox (core/rng.h) of kBlocks counters at once, in place.
constexpr int kBlocks = 16;
struct PhiloxBlocks {
  uint32_t c0[kBlocks];
  uint32_t c1[kBlocks];
  uint32_t c2[kBlocks];
  uint32_t c3[kBlocks];
};

// The counter of core/rng.h: the block's number in the low words, the stream in the high ones.
MOKA_INLINE void SetCounter(PhiloxBlocks& p, int j, uint64_t block, uint64_t stream) {
  p.c0[j] = static_cast<uint32_t>(block);
  p.c1[j] = static_cast<uint32_t>(block >> 32U);
  p.c2[j] = static_cast<uint32_t>(stream);
  p.c3[j] = static_cast<uint32_t>(stream >> 32U);
}

// Ten rounds of Philox4x32 (Salmon et al., SC 2011) as a structure of arrays, so that the blocks are lanes of vectors.
MOKA_INLINE void RunPhilox(PhiloxBlocks& p, uint64_t seed) {
  auto k0 = static_cast<uint32_t>(seed);
  auto k1 = static_cast<uint32_t>(seed >> 32U);
  for (int round = 0; round < 10; ++round) {
#pragma omp simd
    for (int j = 0; j < kBlocks; ++j) {
      const uint64_t p0 = uint64_t{0xD2511F53U} * p.c0[j];
      const uint64_t p1 = uint64_t{0xCD9E8D57U} * p.c2[j];
      p.c0[j] = static_cast<uint32_t>(p1 >> 32U) ^ p.c1[j] ^ k0;
      p.c1[j] = static_cast<uint32_t>(p1);
      p.c2[j] = static_cast<uint32_t>(p0 >> 32U) ^ p.c3[j] ^ k1;
      p.c3[j] = static_cast<uint32_t>(p0);
    }
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
}

// The upper 24 bits as a number in [0, 1): each is a float exactly. Through int32_t, as AVX2 converts no unsigned
// numbers.
template <class T>
MOKA_INLINE T Unit(uint32_t word) {
  return static_cast<T>(static_cast<int32_t>(word >> 8U)) * static_cast<T>(0x1.0p-24);
}

// Elements in logical order: a block gives four of them.
// The tile may begin within a block of four: its first words are skipped.
template <class T>
MOKA_INLINE void RandInOrder(uint64_t seed, uint64_t stream, uint64_t first, T* y, int64_t n) {
  uint32_t words[4 * kBlocks];
  PhiloxBlocks p;
  int64_t skipped = static_cast<int64_t>(first % 4);
  uint64_t block = first / 4;
  for (int64_t done = 0; done < n;) {
    for (int j = 0; j < kBlocks; ++j) SetCounter(p, j, block + static_cast<uint64_t>(j), stream);
    RunPhilox(p, seed);
    for (int j = 0; j < kBlocks; ++j) {
      words[4 * j] = p.c0[j];
      words[4 * j + 1] = p.c1[j];
      words[4 * j + 2] = p.c2[j];
      words[4 * j + 3] = p.c3[j];
    }
    const int64_t made = std::min(4 * int64_t{kBlocks} - skipped, n - done);
    for (int64_t i = 0; i < made; ++i) y[done + i] = Unit<T>(words[skipped + i]);
    done += made;
    block += kBlocks;
    skipped = 0;
  }
}

// Elements in any order: a block each. One of the four words of a block is used, so this is four times the work: for
// layouts in which neighbours in memory are not logical neighbours.
template <class T>
MOKA_INLINE void RandAt(uint64_t seed, uint64_t stream, const uint64_t* index, T* y, int64_t n) {
  PhiloxBlocks p;
  T made[kBlocks];
  for (int64_t done = 0; done < n; done += kBlocks) {
    const int64_t count = std::min<int64_t>(kBlocks, n - done);
    uint32_t word[kBlocks] = {};
    for (int j = 0; j < kBlocks; ++j) {
      const uint64_t i = j < count ? index[done + j] : 0;
      SetCounter(p, j, i / 4, stream);
      word[j] = static_cast<uint32_t>(i % 4);
    }
    RunPhilox(p, seed);
#pragma omp simd
    for (int j = 0; j < kBlocks; ++j) {
      const uint32_t low = word[j] == 0 ? p.c0[j] : p.c1[j];
      const uint32_t high = word[j] == 2 ? p.c2[j] : p.c3[j];
      made[j] = Unit<T>(word[j] < 2 ? low : high);
    }
    for (int64_t j = 0; j < count; ++j) y[done + j] = made[j];
  }
}

// An index is given where the tile's elements lie in another order than the logical one; the numbers of an element are
// the same either way.
template <class T>
MOKA_INLINE void Rand(const Step& step, const Frame<T>& frame, int64_t n) {
  const uint64_t seed = frame.seeds[step.a];
  if (frame.index != nullptr) {
    RandAt(seed, step.stream, frame.index, frame.at[step.y], n);
  } else {
    RandInOrder(seed, step.stream, frame.first, frame.at[step.y], n);
  }
}

// One dispatch a tile: the switch is not in the loop over elements.
template <class T>
MOKA_INLINE void RunOne(const Step& step, const Frame<T>& frame, int64_t n) {
  switch (step.op) {
    case ScalarOp::kInput:
    case ScalarOp::kConstant: return Unary<CopyOp>(step, frame, n);
    case ScalarOp::kAdd: return Binary<AddOp>(step, frame, n);
    case ScalarOp::kSub: return Binary<SubOp>(step, frame, n);
    case ScalarOp::kMul: return Binary<MulOp>(step, frame, n);
    case ScalarOp::kDiv: return Binary<DivOp>(step, frame, n);
    case ScalarOp::kNeg: return Unary<NegOp>(step, frame, n);
    case ScalarOp::kAbs: return Unary<AbsOp>(step, frame, n);
    case ScalarOp::kExp: return Unary<ExpOp>(step, frame, n);
    case ScalarOp::kLog: return Unary<LogOp>(step, frame, n);
    case ScalarOp::kSqrt: return Unary<SqrtOp>(step, frame, n);
    case ScalarOp::kTanh: return Unary<TanhOp>(step, frame, n);
    case ScalarOp::kSigmoid: return Unary<SigmoidOp>(step, frame, n);
    case ScalarOp::kSign: return Unary<SignOp>(step, frame, n);
    case ScalarOp::kFloor: return Unary<FloorOp>(step, frame, n);
    case ScalarOp::kErf: return Unary<ErfOp>(step, frame, n);
    case ScalarOp::kMax: return Binary<MaxOp>(step, frame, n);
    case ScalarOp::kMin: return Binary<MinOp>(step, frame, n);
    case ScalarOp::kPow: return Binary<PowOp>(step, frame, n);
    case ScalarOp::kLt: return Binary<LtOp>(step, frame, n);
    case ScalarOp::kLe: return Binary<LeOp>(step, frame, n);
    case ScalarOp::kGt: return Binary<GtOp>(step, frame, n);
    case ScalarOp::kGe: return Binary<GeOp>(step, frame, n);
    case ScalarOp::kEq: return Binary<EqOp>(step, frame, n);
    case ScalarOp::kSelect: return Select(step, frame, n);
    case ScalarOp::kRand: return Rand(step, frame, n);
  }
}

template <class T>
MOKA_INLINE void RunAll(const Step* steps, int64_t count, const Frame<T>& frame, int64_t n) {
  for (int64_t i = 0; i < count; ++i) RunOne(steps[i], frame, n);
}

// Lanes are a fixed number (kLanes) whatever the width of registers, so that every instruction set adds in the same
// order.
template <class T>
MOKA_INLINE void SumLanes(const T* x, int64_t n, double* lanes) {
  double local[kLanes];
  for (int64_t j = 0; j < kLanes; ++j) local[j] = lanes[j];
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
#pragma omp simd
    for (int64_t j = 0; j < kLanes; ++j) local[j] += static_cast<double>(x[i + j]);
  }
  for (int64_t j = 0; i + j < n; ++j) local[j] += static_cast<double>(x[i + j]);
  for (int64_t j = 0; j < kLanes; ++j) lanes[j] = local[j];
}

// Rows are added one after another to each column's sum: four at a time, but in the order of single additions.
template <class T>
MOKA_INLINE void AddTo(const T* x, int64_t stride, int64_t rows, int64_t n, double* y) {
  constexpr int64_t kRows = 4;  // between reading a sum and writing it
  constexpr int64_t kLine = 64 / int64_t{sizeof(T)};
  int64_t row = 0;
  for (; row + kRows <= rows; row += kRows, x += kRows * stride) {
    // The rows after these: no hardware guesses their stride.
    for (int64_t next = kRows; next < std::min(2 * kRows, rows - row); ++next) {
      for (int64_t i = 0; i < n; i += kLine) __builtin_prefetch(x + next * stride + i);
    }
    const T* b = x + stride;
    const T* c = b + stride;
    const T* d = c + stride;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      y[i] = (((y[i] + static_cast<double>(x[i])) + static_cast<double>(b[i])) + static_cast<double>(c[i])) +
             static_cast<double>(d[i]);
    }
  }
  for (; row < rows; ++row, x += stride) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] += static_cast<double>(x[i]);
  }
}

// The same bodies, inlined into functions that are compiled for an instruction set each. Tests run all that the machine
// can.
template <class T>
struct Portable {
  static void Run(const Step* steps, int64_t count, const Frame<T>& frame, int64_t n) {
    RunAll(steps, count, frame, n);
  }
  static void Sum(const T* x, int64_t n, double* lanes) { SumLanes(x, n, lanes); }
  static void Add(const T* x, int64_t stride, int64_t rows, int64_t n, double* y) { AddTo(x, stride, rows, n, y); }
  static TileFunctions<T> Row() { return {"tile:portable", Run, Sum, Add}; }
};

#if defined(__x86_64__)
template <class T>
struct Avx2 {
  MOKA_AVX2 static void Run(const Step* steps, int64_t count, const Frame<T>& frame, int64_t n) {
    RunAll(steps, count, frame, n);
  }
  MOKA_AVX2 static void Sum(const T* x, int64_t n, double* lanes) { SumLanes(x, n, lanes); }
  MOKA_AVX2 static void Add(const T* x, int64_t stride, int64_t rows, int64_t n, double* y) {
    AddTo(x, stride, rows, n, y);
  }
  static TileFunctions<T> Row() { return {"tile:avx2", Run, Sum, Add}; }
};

template <class T>
struct Avx512 {
  MOKA_AVX512 static void Run(const Step* steps, int64_t count, const Frame<T>& frame, int64_t n) {
    RunAll(steps, count, frame, n);
  }
  MOKA_AVX512 static void Sum(const T* x, int64_t n, double* lanes) { SumLanes(x, n, lanes); }
  MOKA_AVX512 static void Add(const T* x, int64_t stride, int64_t rows, int64_t n, double* y) {
    AddTo(x, stride, rows, n, y);
  }
  static TileFunctions<T> Row() { return {"tile:avx512", Run, Sum, Add}; }
};
#endif

// Best first.
template <class T>
std::vector<TileFunctions<T>> FindRunnable() {
  std::vector<TileFunctions<T>> runnable;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
      __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0) {
    runnable.push_back(Avx512<T>::Row());
  }
  if (__builtin_cpu_supports("avx2") != 0) runnable.push_back(Avx2<T>::Row());
#endif
  runnable.push_back(Portable<T>::Row());
  return runnable;
}

}  // namespace

template <>
const std::vector<TileFunctions<float>>& RunnableFunctions<float>() {
  static const std::vector<TileFunctions<float>> functions = FindRunnable<float>();
  return functions;
}

template <>
const std::vector<TileFunctions<double>>& RunnableFunctions<double>() {
  static const std::vector<TileFunctions<double>> functions = FindRunnable<double>();
  return functions;
}

}  // namespace moka::tile
