// Chunks begin at multiples of 16 elements, a cache line of floats, so that two ranks' sums never share a line.
#include "comm/schedule/schedule.h"

#include <algorithm>

#include "core/error.h"
#include "core/size.h"

namespace moka {

int64_t ChunkBegin(int64_t elements, int64_t chunks, int64_t i) {
  Require(elements >= 0 && chunks >= 1 && i >= 0 && i <= chunks, "ChunkBegin: a chunk of the message");
  constexpr int64_t kLine = 16;
  const int64_t lines = CeilDiv(elements, kLine).value();
  // The first `longer` chunks have a line more than the others.
  const int64_t each = lines / chunks;
  const int64_t longer = lines % chunks;
  return std::min((i * each + std::min(i, longer)) * kLine, elements);
}

int64_t Schedule::Begin(int64_t elements, int64_t chunk) const {
  if (bounds.empty()) return ChunkBegin(elements, chunks, chunk);
  Require(bounds.back() == elements && bounds.size() == static_cast<size_t>(chunks) + 1, "bounds are of the message");
  return bounds[static_cast<size_t>(chunk)];
}

int64_t SentElements(const Schedule& schedule, int64_t elements) {
  int64_t sum = 0;
  for (const Round& round : schedule.RoundsOf(elements)) {
    for (const Transfer& send : round.sends) {
      sum += schedule.Begin(elements, send.first + send.count) - schedule.Begin(elements, send.first);
    }
  }
  return sum;
}

}  // namespace moka
