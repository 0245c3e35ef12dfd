// Conversions between float32 and the half types on the wire. The loops are cloned for wider vectors and resolved at
// load time (target_clones), so that one binary runs on every x86-64.
#include "comm/schedule/wire.h"

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/half.h"
#include "core/text.h"
#include "core/vector_clones.h"

namespace moka {
namespace {

struct WireName {
  std::string_view name;
  Wire wire;
};
constexpr std::array<WireName, 3> kNames = {
    {{"float32", Wire::kFloat32}, {"float16", Wire::kFloat16}, {"bfloat16", Wire::kBFloat16}}};

// Inlined into clones for wider vectors.
template <class F>
inline __attribute__((always_inline)) void ReadHalves(Wire wire, const std::byte* bytes, int64_t count, F f) {
  for (int64_t i = 0; i < count; ++i) {
    uint16_t half = 0;
    std::memcpy(&half, bytes + 2 * i, sizeof half);
    f(i, wire == Wire::kFloat16 ? FloatOfHalf(half) : FloatOfBFloat16(half));
  }
}

uint16_t HalfOf(Wire wire, float value) { return wire == Wire::kFloat16 ? HalfOfFloat(value) : BFloat16OfFloat(value); }

}  // namespace

int64_t BytesOf(Wire wire) { return wire == Wire::kFloat32 ? 4 : 2; }

std::string_view NameOf(Wire wire) { return kNames[static_cast<size_t>(wire)].name; }

Wire WireOf(std::string_view name) {
  std::vector<std::string> known;
  for (const WireName& row : kNames) {
    if (row.name == name) return row.wire;
    known.emplace_back(row.name);
  }
  const std::string near = DidYouMean(name, known);
  throw Error(ErrorKind::kConfig, SourcePlace{}, StrCat("unknown wire type \"", Printable(name), "\""),
              near.empty() ? StrCat("known are ", Join(known, ", ")) : near);
}

MOKA_VECTOR_CLONES void Encode(Wire wire, const float* values, int64_t count, std::byte* bytes) {
  if (wire == Wire::kFloat32) {
    std::memcpy(bytes, values, static_cast<size_t>(count) * sizeof(float));
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    const uint16_t half = HalfOf(wire, values[i]);
    std::memcpy(bytes + 2 * i, &half, sizeof half);
  }
}

MOKA_VECTOR_CLONES void Decode(Wire wire, const std::byte* bytes, int64_t count, float* values) {
  if (wire == Wire::kFloat32) {
    std::memcpy(values, bytes, static_cast<size_t>(count) * sizeof(float));
    return;
  }
  ReadHalves(wire, bytes, count, [&](int64_t i, float value) { values[i] = value; });
}

MOKA_VECTOR_CLONES void DecodeAdd(Wire wire, const std::byte* bytes, int64_t count, float* sums) {
  if (wire == Wire::kFloat32) {
    for (int64_t i = 0; i < count; ++i) {
      float value = 0;
      std::memcpy(&value, bytes + 4 * i, sizeof value);
      sums[i] += value;
    }
    return;
  }
  ReadHalves(wire, bytes, count, [&](int64_t i, float value) { sums[i] += value; });
}

MOKA_VECTOR_CLONES void RoundTo(Wire wire, float* values, int64_t count) {
  if (wire == Wire::kFloat32) return;
  for (int64_t i = 0; i < count; ++i) {
    const uint16_t half = HalfOf(wire, values[i]);
    values[i] = wire == Wire::kFloat16 ? FloatOfHalf(half) : FloatOfBFloat16(half);
  }
}

}  // namespace moka
