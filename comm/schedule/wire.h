// The type that float32 values have on their way between ranks. Ranks add in float32: a half type on the wire halves
// the bytes and rounds what is sent, partial sums at every hop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace moka {

enum class Wire : uint8_t { kFloat32, kFloat16, kBFloat16 };

// Returns the bytes of an element on the wire, and the word for it on the command line.
int64_t BytesOf(Wire wire);
std::string_view NameOf(Wire wire);
// Errors: kConfig naming what is known.
Wire WireOf(std::string_view name);

// values[0, count) as bytes, and back.
void Encode(Wire wire, const float* values, int64_t count, std::byte* bytes);
void Decode(Wire wire, const std::byte* bytes, int64_t count, float* values);
// sums[i] += value i.
void DecodeAdd(Wire wire, const std::byte* bytes, int64_t count, float* sums);
// Values become what the wire would carry, so that sender and receiver go on with the same bits.
void RoundTo(Wire wire, float* values, int64_t count);

}  // namespace moka
