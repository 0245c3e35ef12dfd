// Numbers that ranks send each other as texts. What comes is another process's word: ranks whose programs differ, or
// that are at different places of one, send texts of any length, which end with an error and are never copied blindly.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "comm/transport/communicator.h"

namespace moka {

// Times that ranks tell are below this, 36,000 years, so that their sums and differences are numbers, too.
inline constexpr int64_t kMostMicros = int64_t{1} << 60;

// Errors: kPeer, always: "rank 1 on b sent TEXT; ...". `text`: "12 bytes where 16 were due".
[[noreturn]] void RefuseMessage(const Communicator& world, int rank, std::string_view text);
// Errors: kPeer unless the text that `rank` sent has so many bytes.
void RequireBytes(const Communicator& world, int rank, std::string_view text, size_t bytes);
// A whole number in digits that `rank` sent. Errors: kPeer.
template <class Whole>
Whole WholeOfRank(const Communicator& world, int rank, std::string_view text);
extern template int WholeOfRank<int>(const Communicator& world, int rank, std::string_view text);
extern template uint64_t WholeOfRank<uint64_t>(const Communicator& world, int rank, std::string_view text);

template <class T>
std::string BytesOfValues(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}
// Takes what BytesOfValues gave on `rank`. Errors: kPeer for another number of values.
template <class T>
void TakeValues(const Communicator& world, int rank, std::string_view text, std::span<T> values) {
  RequireBytes(world, rank, text, values.size_bytes());
  if (!values.empty()) std::memcpy(values.data(), text.data(), text.size());
}

}  // namespace moka
