// Two preludes with the same functions, for NVRTC and for the host compiler that a rehearsed GPU uses: a test without a
// GPU runs the same kernel text.
#include "layers/kernels/cuda/codegen/prelude.h"

#include "core/text.h"

namespace moka::cuda {
namespace {

// NVRTC has CUDA's headers only where a toolkit is installed, so the conversions of half types are spelt out.
constexpr std::string_view kDevice = R"(
struct Half { unsigned short bits; };
struct BFloat16 { unsigned short bits; };
inline float FloatOf(Half x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
inline float FloatOf(BFloat16 x) { return __uint_as_float(static_cast<unsigned>(x.bits) << 16); }
inline float FloatOfBits(unsigned bits) { return __uint_as_float(bits); }
inline Half HalfOf(float x) {
  Half y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}
inline BFloat16 BFloat16Of(float x) {
  BFloat16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}
)";

constexpr std::string_view kHost = R"(
#include <bit>
#include <cmath>
#include "core/half.h"
struct Half { unsigned short bits; };
struct BFloat16 { unsigned short bits; };
inline float FloatOf(Half x) { return moka::FloatOfHalf(x.bits); }
inline float FloatOf(BFloat16 x) { return moka::FloatOfBFloat16(x.bits); }
inline float FloatOfBits(unsigned bits) { return std::bit_cast<float>(bits); }
inline Half HalfOf(float x) { return {moka::HalfOfFloat(x)}; }
inline BFloat16 BFloat16Of(float x) { return {moka::BFloat16OfFloat(x)}; }
)";

// The functions are those of graph/expression.h, the generator of rand that of core/rng.h.
constexpr std::string_view kCommon = R"(
template <class T, int kLength>
struct alignas(sizeof(T) * kLength < 16 ? sizeof(T) * kLength : 16) Pack { T at[kLength]; };
template <int kLength, class T>
inline Pack<T, kLength> Load(const T* from) { return *reinterpret_cast<const Pack<T, kLength>*>(from); }
template <class T, int kLength>
inline void Store(T* to, const Pack<T, kLength>& pack) { *reinterpret_cast<Pack<T, kLength>*>(to) = pack; }

template <class W, class T>
inline W To(T x) { return static_cast<W>(x); }
template <class W>
inline W To(Half x) { return static_cast<W>(FloatOf(x)); }
template <class W>
inline W To(BFloat16 x) { return static_cast<W>(FloatOf(x)); }
inline void Set(float& y, float x) { y = x; }
inline void Set(float& y, double x) { y = static_cast<float>(x); }
inline void Set(double& y, double x) { y = x; }
template <class W>
inline void Set(Half& y, W x) { y = HalfOf(static_cast<float>(x)); }
template <class W>
inline void Set(BFloat16& y, W x) { y = BFloat16Of(static_cast<float>(x)); }

inline float Abs(float x) { return fabsf(x); }
inline double Abs(double x) { return fabs(x); }
inline float Exp(float x) { return expf(x); }
inline double Exp(double x) { return exp(x); }
inline float Log(float x) { return logf(x); }
inline double Log(double x) { return log(x); }
inline float Sqrt(float x) { return sqrtf(x); }
inline double Sqrt(double x) { return sqrt(x); }
inline float Tanh(float x) { return tanhf(x); }
inline double Tanh(double x) { return tanh(x); }
inline float Floor(float x) { return floorf(x); }
inline double Floor(double x) { return floor(x); }
inline float Erf(float x) { return erff(x); }
inline double Erf(double x) { return erf(x); }
inline float Pow(float x, float y) { return powf(x, y); }
inline double Pow(double x, double y) { return pow(x, y); }
template <class W>
inline W Truth(bool x) { return x ? W(1) : W(0); }
template <class W>
inline W Sigmoid(W x) { return W(1) / (W(1) + Exp(-x)); }
template <class W>
inline W Sign(W x) { return Truth<W>(x > 0) - Truth<W>(x < 0); }
template <class W>
inline W Max(W x, W y) { return x > y || x != x ? x : y; }
template <class W>
inline W Min(W x, W y) { return x < y || x != x ? x : y; }

// Word `i` of a stream by Philox4x32-10, as a number in [0, 1).
inline float Rand(unsigned long long seed, unsigned long long stream, unsigned long long i) {
  unsigned c0 = static_cast<unsigned>(i / 4);
  unsigned c1 = static_cast<unsigned>((i / 4) >> 32);
  unsigned c2 = static_cast<unsigned>(stream);
  unsigned c3 = static_cast<unsigned>(stream >> 32);
  unsigned k0 = static_cast<unsigned>(seed);
  unsigned k1 = static_cast<unsigned>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const unsigned long long p0 = 0xD2511F53ull * c0;
    const unsigned long long p1 = 0xCD9E8D57ull * c2;
    c0 = static_cast<unsigned>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<unsigned>(p1);
    c2 = static_cast<unsigned>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<unsigned>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const unsigned low = i % 2 == 0 ? c0 : c1;
  const unsigned high = i % 2 == 0 ? c2 : c3;
  return static_cast<float>((i % 4 < 2 ? low : high) >> 8) * 0x1p-24f;
}
)";

constexpr std::string_view kDeviceEntry = R"(
extern "C" __global__ void __launch_bounds__(@THREADS@) @NAME@(const Arguments arguments) {
  __shared__ Shared shared;
#pragma unroll
  for (int phase = 0; phase < kPhases; ++phase) {
    if (phase > 0) __syncthreads();
    Phase(arguments, shared, phase, blockIdx.x, static_cast<int>(threadIdx.x));
  }
}
)";

constexpr std::string_view kHostEntry = R"(
extern "C" void @NAME@(unsigned blocks, const void* arguments) {
  for (unsigned block = 0; block < blocks; ++block) {
    static Shared shared;
    for (int phase = 0; phase < kPhases; ++phase) {
      for (int thread = 0; thread < @THREADS@; ++thread) {
        Phase(*static_cast<const Arguments*>(arguments), shared, phase, block, thread);
      }
    }
  }
}
)";

std::string Replaced(std::string text, std::string_view mark, const std::string& by) {
  for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + by.size())) {
    text.replace(at, mark.size(), by);
  }
  return text;
}

}  // namespace

std::string_view Prelude(Target target) {
  static const std::string device = StrCat(kDevice, kCommon);
  static const std::string host = StrCat(kHost, kCommon);
  return target == Target::kDevice ? device : host;
}

// Each kernel has a namespace of its own, so that several texts can be one translation unit.
std::string WithEntry(const KernelText& kernel, Target target) {
  std::string entry(target == Target::kDevice ? kDeviceEntry : kHostEntry);
  entry = Replaced(Replaced(std::move(entry), "@NAME@", kernel.name), "@THREADS@", StrCat(kBlockThreads));
  return StrCat("\nnamespace of_", kernel.name, " {\n", kernel.text, entry, "}\n");
}

std::string_view TypeText(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return "float";
    case DType::kFloat64: return "double";
    case DType::kFloat16: return "Half";
    case DType::kBFloat16: return "BFloat16";
    case DType::kInt64: return "long long";
    case DType::kInt32: return "int";
    case DType::kUInt8: return "unsigned char";
    case DType::kInt8: return "signed char";
  }
  return "";
}

}  // namespace moka::cuda
