// Lays the payloads of a bucket's gradients side by side in one message, part r being rank r's, and runs the encode,
// exchange and decode of each round. A method whose payloads can be summed goes through the planned all-reduce instead.
#include "comm/compression/compressed_bucket.h"

#include <algorithm>

#include "comm/compression/all_gather.h"
#include "core/size.h"

namespace moka {

CompressedBucket::CompressedBucket(Transport& transport, const CompressionMethod& method,
                                   const std::vector<CompressedGradient*>& gradients, const Schedule& sum)
    : method_(method),
      rank_(transport.rank()),
      ranks_(transport.size()),
      runner_(transport, method.sums ? sum : AllGatherSchedule(transport.rank(), transport.size()), Wire::kFloat32) {
  int64_t copied = 0;
  for (const CompressedGradient* gradient : gradients) copied += static_cast<int64_t>(gradient->places.size());
  copies_.resize(static_cast<size_t>(copied));
  std::span<float> copies = copies_;
  for (CompressedGradient* gradient : gradients) {
    Member member{.gradient = gradient, .row_major = gradient->values.as<float>()};
    if (const size_t count = gradient->places.size(); count > 0) {
      member.row_major = copies.first(count);
      copies = copies.subspan(count);
    }
    members_.push_back(member);
  }
}

void CompressedBucket::Arrange(int64_t step) {
  for (int round = 0; round < method_.rounds; ++round) {
    const auto r = static_cast<size_t>(round);
    int64_t end = 0;
    for (Member& member : members_) {
      member.at[r] = end;
      member.size[r] = member.gradient->compressor->PayloadFloats(round, step);
      end += member.size[r];
    }
    const int64_t part = RoundUp(end, kPartFloats).value();
    if (part == part_[r]) continue;
    part_[r] = part;
    buffers_[r].assign(static_cast<size_t>(part * (method_.sums ? 1 : ranks_)), 0.0F);
    messages_[r] = Message(std::span<float>(buffers_[r]));
  }
}

std::span<float> CompressedBucket::PayloadOf(const Member& member, int round, int rank) {
  const auto r = static_cast<size_t>(round);
  const int64_t begin = member.at[r] + (method_.sums ? 0 : rank * part_[r]);
  return std::span<float>(buffers_[r]).subspan(static_cast<size_t>(begin), static_cast<size_t>(member.size[r]));
}

void CompressedBucket::Run(int64_t step, std::chrono::nanoseconds patience, const std::atomic<bool>* is_cancelled) {
  Arrange(step);
  for (int round = 0; round < method_.rounds; ++round) {
    for (const Member& member : members_) {
      if (round == 0) member.gradient->Read(member.row_major);
      const std::span<const float> input = round == 0 ? member.row_major : PayloadOf(member, round - 1, rank_);
      member.gradient->compressor->Encode(round, step, input, PayloadOf(member, round, rank_));
    }
    runner_.Run(messages_[static_cast<size_t>(round)], patience, is_cancelled);
  }
  for (const Member& member : members_) {
    std::ranges::fill(member.row_major, 0.0F);
    for (int rank = 0; rank < (method_.sums ? 1 : ranks_); ++rank) {
      member.gradient->compressor->AddDecoded(step, PayloadOf(member, method_.rounds - 1, rank), member.row_major);
    }
    member.gradient->Write(member.row_major);
  }
}

}  // namespace moka
