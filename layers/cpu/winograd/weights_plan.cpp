#include "layers/cpu/winograd/weights_plan.h"

#include <algorithm>

#include "core/size.h"
#include "core/text.h"
#include "layers/cpu/instructions.h"

namespace moka::winograd {
namespace {

constexpr int64_t kFloat = 4;      // bytes
constexpr int64_t kLine = 16;      // floats in a cache line
constexpr int64_t kChannels = 64;  // of c, and of k, that a thread multiplies at a time: 16 KiB of sums at a point

// Sums up to this size a thread keeps for itself: those of 128 x 128 channels, with which both orders take the same
// time. At 256 x 256 the private order takes 1.5 times as long as the shared one.
constexpr int64_t kPrivateSums = int64_t{36} * 128 * 128 * kFloat;
// What a thread transforms before it multiplies: little enough for the second-level cache beside the sums of 64 x 64.
constexpr int64_t kPrivateTiles = 768 * 1024;
// The whole order reads V and M again for every block; with more tiles the shared order's chunks are faster.
constexpr int64_t kWholeTiles = 128;
constexpr int64_t kSharedChunk = 128;

// An odd number of lines, so that the points do not meet in one set of a cache.
int64_t PadPoint(int64_t floats) { return (floats / (2 * kLine) * 2 + 3) * kLine; }

GradientMode ChooseMode(const GradientProblem& p) {
  const Size sums = Size(p.points()) * p.c_panels * p.k_panels * p.L() * p.L() * kFloat;
  if (sums <= kPrivateSums) return GradientMode::kPrivate;
  return p.tiles <= kWholeTiles ? GradientMode::kWhole : GradientMode::kShared;
}

// Tiles in equal chunks of at most `limit`.
int64_t ChunkOf(int64_t segments, int64_t limit) {
  const int64_t most = std::max<int64_t>(1, limit / kSegment);
  const int64_t chunks = CeilDiv(segments, most).value();
  return CeilDiv(segments, chunks).value() * kSegment;
}

}  // namespace

const WeightsLanes* WeightsLanesFor(int64_t block, int taps) {
  if (block == 16 && HasAvx512()) return WeightsLanesAvx512(taps);
  if (block == 8 && HasAvx2()) return WeightsLanesAvx2(taps);
  return nullptr;
}

const WeightsLanes* WeightsLanesOf(const TensorType& x, int taps) {
  for (const int64_t block : {16, 8}) {
    if (x.layout.Name(4) == StrCat("aBcd", block, "b")) return WeightsLanesFor(block, taps);
  }
  return nullptr;
}

GradientPlan PlanGradient(const GradientProblem& p, int64_t threads) {
  const int64_t lanes = p.L();
  GradientPlan plan;
  plan.mode = ChooseMode(p);
  plan.threads = threads;
  plan.c_block = std::min(p.c_panels, kChannels / lanes);
  plan.k_block = std::min(p.k_panels, kChannels / lanes);
  switch (plan.mode) {
    case GradientMode::kPrivate: {
      plan.threads = std::min(threads, p.segments());
      plan.c_block = p.c_panels;
      plan.k_block = p.k_panels;
      const int64_t tile = p.points() * (p.c_panels + p.k_panels) * lanes * kFloat;
      const int64_t limit = std::clamp<int64_t>(kPrivateTiles / tile, 32, 128);
      plan.chunk = ChunkOf(CeilDiv(p.segments(), plan.threads).value(), limit);
      break;
    }
    case GradientMode::kShared: plan.chunk = ChunkOf(p.segments(), kSharedChunk); break;
    case GradientMode::kWhole: plan.chunk = p.segments() * kSegment; break;
  }
  const bool whole = plan.mode == GradientMode::kWhole;
  const int64_t blocks = whole ? plan.c_block * plan.k_block : p.c_panels * p.k_panels;
  plan.v_stride = PadPoint(p.c_panels * plan.chunk * lanes);
  plan.m_stride = PadPoint(p.k_panels * plan.chunk * lanes);
  plan.u_stride = PadPoint(blocks * lanes * lanes);
  const auto book = [&plan](Size floats) {
    const int64_t offset = plan.bytes;
    plan.bytes = (RoundUp(floats, kLine) * kFloat + offset).value();
    return offset;
  };
  plan.v = book(Size(plan.copies()) * p.points() * plan.v_stride);
  plan.m = book(Size(plan.copies()) * p.points() * plan.m_stride);
  plan.u = book(Size(whole ? plan.threads : plan.copies()) * p.points() * plan.u_stride);
  plan.rows = book(Size(plan.threads) * p.lanes->taps * p.lanes->taps * lanes * lanes);
  plan.sums = book(p.bias ? Size(p.segments()) * p.k_panels * lanes : Size());
  return plan;
}

}  // namespace moka::winograd
