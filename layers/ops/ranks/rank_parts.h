// The part that the ops by which ranks work on one tensor together share: attributes, which part is whose, and keys.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/checksum.h"
#include "core/text.h"
#include "graph/op.h"

namespace moka {

// First of `count` columns of part `part`; the first parts have one more where they do not divide. PartBegin(count,
// parts, parts) = count.
inline int64_t PartBegin(int64_t count, int64_t parts, int64_t part) {
  return part * (count / parts) + std::min(part, count % parts);
}

// A key for a tensor of that name (Collectives::Announce), with three after it; above those of gradients, which count
// from 0.
inline int64_t RankKey(std::string_view name) {
  constexpr uint64_t kMask = (uint64_t{1} << 50U) - 1;
  return static_cast<int64_t>(uint64_t{1} << 60U | (Hash64(name) & kMask) << 2U);
}

inline constexpr int64_t kBackwardKey = 2;  // added to a node's key in its gradient

inline std::vector<AttributeSpec> RankAttributes() {
  return {{"key", int64_t{0}, "tells the tensors of a program apart; its gradient's is 2 more"},
          {"rank", int64_t{0}, "this rank's number, from 0"},
          {"ranks", int64_t{1}, "number of ranks"}};
}

// A rank, and of how many.
struct RankOf {
  explicit RankOf(const Attributes& attributes) : rank(attributes.Int("rank")), ranks(attributes.Int("ranks")) {}
  int64_t rank;
  int64_t ranks;
};

// Errors: kConfig unless the rank is one of them.
inline RankOf CheckRank(std::string_view op, const Attributes& attributes) {
  const RankOf of(attributes);
  if (of.rank >= 0 && of.rank < of.ranks) return of;
  throw Error(ErrorKind::kConfig, StrCat(op, ": there is no rank ", of.rank, " of ", of.ranks));
}

}  // namespace moka
