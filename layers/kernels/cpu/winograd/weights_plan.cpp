// Chooses among four orders of work by a model of their times in multiply-adds, whose constants were measured with and
// without a last-level cache in common.
#include "layers/kernels/cpu/winograd/weights_plan.h"

#include <algorithm>
#include <limits>

#include "core/size.h"
#include "core/text.h"
#include "layers/kernels/cpu/instructions.h"

namespace moka::winograd {
namespace {

constexpr int64_t kFloat = 4;      // bytes
constexpr int64_t kLine = 16;      // floats in a cache line
constexpr int64_t kChannels = 64;  // of c, and of k, that a thread multiplies at a time: 16 KiB of sums at a point

// Sums up to this size a thread keeps for itself: those of 128 x 128 channels, with which both orders take the same
// time. At 256 x 256 the private order takes 1.5 times as long as the shared one.
constexpr int64_t kPrivateSums = int64_t{36} * 128 * 128 * kFloat;
// Bytes that a thread transforms before it multiplies: few enough for the second-level cache beside the sums of 64 x
// 64.
constexpr int64_t kPrivateTiles = 768 * 1024;
// The whole order reads V and M again for every block; with more tiles the shared order's chunks are faster.
constexpr int64_t kWholeTiles = 128;
constexpr int64_t kSharedChunk = 128;

// An odd number of lines, so that the points do not meet in one set of a cache.
int64_t PadPoint(int64_t floats) { return (floats / (2 * kLine) * 2 + 3) * kLine; }

// Between what threads have for themselves, in bytes. Where one reads points, which lie far apart, the processor
// fetches ahead of it and takes lines that the next thread is writing. Measured with two threads without a last-level
// cache in common, us side by side and apart: 64 channels of one 8x8 plane 52, 29; 32 channels of two 16x16 planes 52,
// 25; 16 channels of sixteen 32x32 planes 180, 162. With one in common nothing changes.
constexpr int64_t kThreadGap = 512 * 1024;

// Times of a vector in multiply-adds, measured: transformed, added to the weights' transform from this core's cache,
// and from another core's.
constexpr double kTransformed = 6;
constexpr double kOwnSum = 2;
constexpr double kOthersSum = 16;

// A thread's time at one point, in multiply-adds of a vector.
double TimeOf(const GradientProblem& p, int64_t tiles, int64_t c_panels, int64_t k_panels) {
  const auto sums = static_cast<double>(c_panels * k_panels * p.L());
  return static_cast<double>(tiles) * (sums + kTransformed * static_cast<double>(c_panels + k_panels)) + kOwnSum * sums;
}

// The tiles among the threads, each with all sums.
double TimeOfTiles(const GradientProblem& p, int64_t threads) {
  const int64_t parts = std::min(threads, p.segments());
  const auto sums = static_cast<double>(p.c_panels * p.k_panels * p.L());
  const double others = kOthersSum * sums * static_cast<double>(parts - 1) / static_cast<double>(parts);
  const int64_t tiles = std::min(p.tiles, CeilDiv(p.segments(), parts).value() * kSegment);
  return TimeOf(p, tiles, p.c_panels, p.k_panels) + others;
}

// The sums among the threads, each with all tiles: sets the best parts, the widest of k among equal ones, whose
// products are the fastest. Returns their time.
double CutPanels(const GradientProblem& p, int64_t threads, GradientPlan& plan) {
  double best = std::numeric_limits<double>::infinity();
  for (int64_t c_parts = std::min(threads, p.c_panels); c_parts >= 1; --c_parts) {
    const int64_t k_parts = std::min(threads / c_parts, p.k_panels);
    const double time = TimeOf(p, p.tiles, CeilDiv(p.c_panels, c_parts).value(), CeilDiv(p.k_panels, k_parts).value());
    if (time >= best) continue;
    best = time;
    plan.c_parts = c_parts;
    plan.k_parts = k_parts;
  }
  return best;
}

int64_t PrivateLimit(const GradientProblem& p) {
  const int64_t tile = p.points() * (p.c_panels + p.k_panels) * p.L() * kFloat;
  return std::clamp<int64_t>(kPrivateTiles / tile, 32, 128);
}

// Sets the mode, and for kParts the parts.
// Small sums: each thread has its own and they are added, or the sums are cut among the threads. Large sums exist once:
// threads share them by points (kShared) or by blocks (kWhole).
void ChooseMode(const GradientProblem& p, int64_t threads, GradientPlan& plan) {
  const Size sums = Size(p.points()) * p.c_panels * p.k_panels * p.L() * p.L() * kFloat;
  if (sums <= kPrivateSums) {
    const bool is_faster = CutPanels(p, threads, plan) < TimeOfTiles(p, threads);
    plan.mode = is_faster && p.tiles <= PrivateLimit(p) ? GradientMode::kParts : GradientMode::kPrivate;
  } else {
    plan.mode = p.tiles <= kWholeTiles ? GradientMode::kWhole : GradientMode::kShared;
  }
}

// Tiles in equal chunks of at most `limit`.
int64_t ChunkOf(int64_t segments, int64_t limit) {
  const int64_t most = std::max<int64_t>(1, limit / kSegment);
  const int64_t chunks = CeilDiv(segments, most).value();
  return CeilDiv(segments, chunks).value() * kSegment;
}

}  // namespace

const WeightsLanes* WeightsLanesFor(int64_t block, int taps, bool is_half) {
  if (block == 16 && HasAvx512()) return WeightsLanesAvx512(taps, is_half);
  if (block == 8 && HasAvx2()) return WeightsLanesAvx2(taps, is_half);
  return nullptr;
}

const WeightsLanes* WeightsLanesOf(const TensorType& x, int taps) {
  for (const int64_t block : {16, 8}) {
    if (x.layout.Name(4) == StrCat("aBcd", block, "b")) return WeightsLanesFor(block, taps, IsHalf(x.dtype));
  }
  return nullptr;
}

// Kinds stand in an order in which those that take part at a point are neighbours, so that a point has one range of
// tiles.
TileRange TilesAt(const GradientProblem& p, int64_t point, int64_t tiles) {
  const int64_t edge = p.lanes->taps + 3;
  TileRange range;
  int64_t at = 0;
  for (size_t k = 0; k < kKinds; ++k) {
    const int64_t count = tiles / p.unit * p.share(k);
    if (TakesPoint(p.kinds[k].height, point / edge) && TakesPoint(p.kinds[k].width, point % edge) && count > 0) {
      if (range.size() == 0) range.begin = at;
      range.end = at + count;
    }
    at += count;
  }
  return range;
}

// Books scratch in the order v, m, u. Where a thread has copies, one copy is all that is its own, with a gap behind it.
GradientPlan PlanGradient(const GradientProblem& p, int64_t threads) {
  const int64_t lanes = p.L();
  GradientPlan plan;
  ChooseMode(p, threads, plan);
  plan.threads = threads;
  plan.c_block = std::min(p.c_panels, kChannels / lanes);
  plan.k_block = std::min(p.k_panels, kChannels / lanes);
  plan.chunk = p.segments() * kSegment;
  int64_t blocks = p.c_panels * p.k_panels;
  switch (plan.mode) {
    case GradientMode::kPrivate:
      plan.threads = std::min(threads, p.segments());
      plan.c_block = p.c_panels;
      plan.k_block = p.k_panels;
      plan.chunk = ChunkOf(CeilDiv(p.segments(), plan.threads).value(), PrivateLimit(p));
      break;
    case GradientMode::kParts:
      plan.threads = plan.c_parts * plan.k_parts;
      plan.c_block = 1;
      plan.k_block = std::min<int64_t>(p.k_panels, 2);
      blocks = plan.c_block * plan.k_block;
      break;
    case GradientMode::kShared: plan.chunk = ChunkOf(p.segments(), kSharedChunk); break;
    case GradientMode::kWhole: blocks = plan.c_block * plan.k_block; break;
  }
  plan.v_stride = PadPoint(p.c_panels * plan.chunk * lanes);
  plan.m_stride = PadPoint(p.k_panels * plan.chunk * lanes);
  plan.u_stride = PadPoint(blocks * lanes * lanes);
  const auto book = [&plan](Size floats) {
    const int64_t offset = plan.bytes;
    plan.bytes = (RoundUp(floats, kLine) * kFloat + offset).value();
    return offset;
  };
  plan.v = book(Size(p.points()) * plan.v_stride);
  plan.m = book(Size(p.points()) * plan.m_stride);
  const int64_t first_copied = plan.copies() > 1 ? plan.v : plan.bytes;
  plan.u = book(Size(p.points()) * plan.u_stride);
  plan.copy_bytes = plan.bytes - first_copied + kThreadGap;
  plan.bytes = (Size(plan.sum_copies() - 1) * plan.copy_bytes + plan.bytes).value();
  plan.rows = book(Size(plan.threads) * p.lanes->taps * p.lanes->taps * lanes * lanes);
  plan.sums = book(p.bias ? Size(p.segments()) * p.k_panels * lanes : Size());
  return plan;
}

}  // namespace moka::winograd
