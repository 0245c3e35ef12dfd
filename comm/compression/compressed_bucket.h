// The compressed gradients of one bucket: their payloads cross together, by one all-gather, or by an all-reduce a round
// where they can be summed.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "comm/compression/gradient_compression.h"
#include "comm/schedule/runner.h"

namespace moka {

class CompressedBucket {
 public:
  // sum: the all-reduce of payloads that can be summed. All arguments must outlive it. Requires: gradients is not
  // empty.
  CompressedBucket(Transport& transport, const CompressionMethod& method,
                   const std::vector<CompressedGradient*>& gradients, const Schedule& sum);

  // All ranks: every gradient becomes the sum of what the ranks have sent of theirs. Allocates nothing once it has run
  // with payloads of this size. Errors: as Runner::Run.
  void Run(int64_t step, std::chrono::nanoseconds patience, const std::atomic<bool>* is_cancelled = nullptr);

 private:
  struct Member {
    CompressedGradient* gradient = nullptr;
    std::span<float> row_major;   // the gradient, or a copy where it does not lie so
    std::array<int64_t, 2> at{};  // of its payload in a part, by round
    std::array<int64_t, 2> size{};
  };
  // Where payloads lie in this step.
  void Arrange(int64_t step);
  std::span<float> PayloadOf(const Member& member, int round, int rank);

  const CompressionMethod& method_;
  int rank_;
  int ranks_;
  std::vector<Member> members_;
  std::vector<float> copies_;
  std::array<int64_t, 2> part_{-1, -1};  // floats of a rank's payloads, by round
  std::array<std::vector<float>, 2> buffers_;
  std::array<Message, 2> messages_;
  Runner runner_;
};

}  // namespace moka
