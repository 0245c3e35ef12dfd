// A transport that plays the other ranks with the input's bytes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/transport/transport.h"

namespace moka {

inline constexpr int kPlayedRanks = 3;

// Takes whatever is sent; what comes, from whichever rank, is the input, and when that ends the others have failed.
class PlayedRanks final : public Transport {
 public:
  PlayedRanks(std::string_view bytes, int rank) : Transport(rank, kPlayedRanks), bytes_(bytes.size() / kUnit * kUnit) {
    std::ranges::transform(bytes.substr(0, bytes_.size()), bytes_.begin(), [](char c) { return std::byte(c); });
  }

  std::span<std::byte> Reserve(int /*peer*/) override { return sink_; }
  void Commit(int /*peer*/, int64_t bytes) override {
    if (bytes < 0 || bytes > std::ssize(sink_) || bytes % kUnit != 0) std::abort();
  }
  std::span<const std::byte> Peek(int /*peer*/) override { return std::span(bytes_).subspan(at_); }
  void Consume(int /*peer*/, int64_t bytes) override {
    if (bytes < 0 || static_cast<size_t>(bytes) > bytes_.size() - at_ || bytes % kUnit != 0) std::abort();
    at_ += static_cast<size_t>(bytes);
  }
  void Idle(Deadline /*until*/, int /*peers*/) override { has_ended_ = at_ == bytes_.size(); }
  void Fail(const std::string& /*why*/) override {}
  std::string failure() const override { return has_ended_ ? "the input ends" : ""; }

 private:
  std::array<std::byte, 4096> sink_{};
  std::vector<std::byte> bytes_;
  size_t at_ = 0;
  bool has_ended_ = false;
};

}  // namespace moka
