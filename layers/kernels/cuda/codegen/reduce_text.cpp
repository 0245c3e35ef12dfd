// A block's threads are divided into rows of lanes; partial sums meet in shared memory by halving, in a fixed order.
// Where sums are few and long, chunks of them go to different blocks and a second kernel adds the chunks: no atomics,
// so the bits are the same in every run.
#include "layers/kernels/cuda/codegen/reduce_text.h"

#include <algorithm>
#include <bit>

#include "core/text.h"
#include "layers/kernels/cuda/codegen/element_text.h"
#include "layers/kernels/cuda/codegen/pointwise_text.h"

namespace moka::cuda {
namespace {

constexpr int64_t kWantedBlocks = 132 * 8;  // fill a Hopper chip
constexpr int64_t kLeastSteps = 8;          // of a thread in a chunk
constexpr int64_t kFewSteps = 4;            // of a thread in a short row
constexpr int64_t kMostAcross = 32;         // columns are read by whole warps

// How a sum is divided: `rows` where the fastest dimension is summed, so that a row of lanes reads along it; columns
// where it is kept, so that neighbouring threads have neighbouring sums.
struct Split {
  bool is_rows = true;
  int width = 1;
  int64_t across = 1;
  int64_t lanes = kBlockThreads;
  std::vector<int> kept_dims;
  std::vector<int> summed_dims;
  int64_t kept = 1;
  int64_t summed = 1;
  int64_t tiles = 1;
  int64_t chunks = 1;
  int64_t chunk_terms = 1;

  // Sums of a thread.
  int64_t sums() const { return is_rows ? 1 : width; }
  // Terms that a thread takes at a time.
  int64_t terms() const { return is_rows ? width : 1; }
};

int64_t PowerOfTwo(int64_t at_least) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(at_least))); }

// Short rows share a block (`across`), so that no lane is idle for want of terms. Vectors narrow until they divide a
// kept last dimension, as a vector of sums may not cross its end.
Split SplitOf(const Nest& nest, bool may_cut, bool may_take_vectors) {
  Split s;
  const std::vector<int64_t>& y = nest.outputs[0].strides;
  for (const int d : AllDims(nest)) {
    const bool is_kept = y[static_cast<size_t>(d)] != 0;
    (is_kept ? s.kept_dims : s.summed_dims).push_back(d);
    (is_kept ? s.kept : s.summed) *= nest.extents[static_cast<size_t>(d)];
  }
  s.is_rows = y.empty() || y.back() == 0;
  Nest read = nest;
  read.outputs.clear();
  if (may_take_vectors) s.width = VectorWidth(read);
  while (!s.is_rows && nest.extents.back() % s.width != 0) s.width /= 2;
  if (s.is_rows) {
    s.lanes =
        std::min<int64_t>(kBlockThreads, PowerOfTwo((s.summed + kFewSteps * s.width - 1) / (kFewSteps * s.width)));
    s.across = std::min(kBlockThreads / s.lanes, PowerOfTwo(s.kept));
  } else {
    s.across = std::min(kMostAcross, PowerOfTwo((s.kept + s.width - 1) / s.width));
  }
  s.lanes = kBlockThreads / s.across;
  s.tiles = (s.kept + s.across * s.sums() - 1) / (s.across * s.sums());
  const int64_t least = kLeastSteps * s.lanes * s.terms();
  if (may_cut) s.chunks = std::clamp<int64_t>(s.summed / least, 1, std::max<int64_t>(1, kWantedBlocks / s.tiles));
  s.chunk_terms = RoundUp((s.summed + s.chunks - 1) / s.chunks, s.terms()).value();
  s.chunks = (s.summed + s.chunk_terms - 1) / s.chunk_terms;
  return s;
}

// Sizes are constants of the text, so that the compiler turns divisions into multiplications and unrolls loops.
std::string ConstantsText(const Split& s) {
  const int steps = std::countr_zero(static_cast<uint64_t>(s.lanes));
  return StrCat("constexpr int kWidth = ", s.width, ";\nconstexpr int kSums = ", s.sums(),
                ";\nconstexpr int kLanes = ", s.lanes, ";\nconstexpr int kAcross = ", s.across,
                ";\nconstexpr int kHalvings = ", steps, ";\nconstexpr int kPhases = kHalvings + 2;\n",
                "constexpr Index kKept = ", s.kept, "u;\nconstexpr Index kSummed = ", s.summed,
                "u;\nconstexpr Index kTiles = ", s.tiles, "u;\nconstexpr Index kChunk = ", s.chunk_terms, "u;\n");
}

// Adds kLength terms from number `summed` on, of one sum or of as many neighbouring sums.
std::string TermsText(const Expression& expression, const Nest& nest, const Split& s) {
  std::string text =
      "template <int kLength>\ninline void Terms(const Operands& at, Index kept, Index summed, Wide* sums) {\n";
  text += SplitText(nest.extents, s.kept_dims, "kept", "  ") + SplitText(nest.extents, s.summed_dims, "summed", "  ");
  text += SeedsText(expression, nest, "at", "  ") + LoadsText(expression, nest, "at", "  ");
  text += "#pragma unroll\n  for (int j = 0; j < kLength; ++j) {\n";
  text += Statements(
      expression, "    ", [&](int input) { return ElementText(nest, input); }, IndexText(expression, nest));
  return text + StrCat("    sums[j] += t", expression.results()[0], ";\n  }\n}\n");
}

// Phase 0: a lane adds its strided share. Four steps are unrolled, so that the loads of several can be on their way.
std::string AddUpText(const Split& s) {
  std::string text = R"(    Wide sums[kWidth] = {};
    const Index end = (chunk + 1) * kChunk < kSummed ? (chunk + 1) * kChunk : kSummed;
)";
  text += s.is_rows ? R"(#pragma unroll 4
    for (Index i = chunk * kChunk + lane * kWidth; i < end; i += kLanes * kWidth) {
      if (i + kWidth <= end) {
        Terms<kWidth>(a.at, kept, i, sums);
      } else {
        for (Index k = i; k < end; ++k) Terms<1>(a.at, kept, k, sums);
      }
    }
    for (int j = 1; j < kWidth; ++j) sums[0] += sums[j];
)"
                    : R"(#pragma unroll 4
    for (Index i = chunk * kChunk + lane; i < end; i += kLanes) Terms<kWidth>(a.at, kept, i, sums);
)";
  return text + "    for (int j = 0; j < kSums; ++j) shared.sums[Place(j, lane, x)] = sums[j];\n";
}

// Writes the sums of lane 0: into the result, or as a chunk's into [kept, chunks] (rows) or [chunks, kept] (columns).
std::string WriteText(const Nest& nest, const Split& s) {
  if (s.chunks > 1) {
    const std::string to =
        s.is_rows ? StrCat("(kept + j) * ", s.chunks, "u + chunk") : std::string("chunk * kKept + kept + j");
    return StrCat("    for (int j = 0; j < kSums; ++j) a.at.y0[", to, "] = shared.sums[Place(j, 0, x)];\n");
  }
  const NestOperand& y = nest.outputs[0];
  const std::string next = s.is_rows ? std::string() : StrCat(" + j * ", y.strides.back(), "u");
  return StrCat(SplitText(nest.extents, s.kept_dims, "kept", "    "),
                "    for (int j = 0; j < kSums; ++j) Set(a.at.y0[", OffsetText(y.strides, s.kept_dims), next,
                "], shared.sums[Place(j, 0, x)]);\n");
}

// Phases are separated by barriers, which the prelude's entry puts between calls of Phase; its host entry calls a phase
// for one thread after another and so computes the same sums. Where chunks are left, partial sums stay in the wide
// type.
KernelText TextOf(std::string name, const Expression& expression, const Nest& nest, const Split& s) {
  Nest declared = nest;
  if (s.chunks > 1 && nest.outputs[0].dtype != DType::kFloat64) declared.outputs[0].dtype = DType::kFloat32;
  std::string text = DeclarationsText(expression, declared) + ConstantsText(s);
  text += StrCat("struct Arguments {\n  Operands at;\n};\nstruct Shared {\n  Wide sums[kSums * ", kBlockThreads,
                 "];\n};\ninline int Place(int j, int lane, int x) { return ",
                 s.is_rows ? "(j * kAcross + x) * kLanes + lane" : "(j * kLanes + lane) * kAcross + x", "; }\n");
  text += TermsText(expression, nest, s);
  text += "inline void Phase(const Arguments& a, Shared& shared, int phase, unsigned block, int thread) {\n";
  text += s.is_rows ? "  const int lane = thread % kLanes;\n  const int x = thread / kLanes;\n"
                    : "  const int lane = thread / kAcross;\n  const int x = thread % kAcross;\n";
  text += R"(  const Index chunk = block / kTiles;
  const Index kept = (block % kTiles * kAcross + x) * kSums;
  if (kept >= kKept) return;
  if (phase == 0) {
)";
  text += AddUpText(s);
  text += R"(  } else if (phase <= kHalvings) {
    const int reach = kLanes >> phase;
    if (lane >= reach) return;
    for (int j = 0; j < kSums; ++j) shared.sums[Place(j, lane, x)] += shared.sums[Place(j, lane + reach, x)];
  } else if (lane == 0) {
)";
  return {std::move(name), text + WriteText(nest, s) + "  }\n}\n"};
}

// Returns the nest that is left to sum once the chunks have been: the dimensions kept, and the chunks after or before
// them.
Nest NestOfPartials(const Nest& nest, const Split& s) {
  Nest left{.extents = {},
            .inputs = {{nest.outputs[0].dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32, {}}},
            .outputs = {{nest.outputs[0].dtype, {}}},
            .index = {}};
  const auto add = [&](int64_t extent, int64_t from, int64_t to) {
    left.extents.push_back(extent);
    left.inputs[0].strides.push_back(from);
    left.outputs[0].strides.push_back(to);
    left.index.push_back(0);
  };
  if (!s.is_rows) add(s.chunks, s.kept, 0);
  int64_t inside = s.kept;
  for (const int d : s.kept_dims) {
    const auto at = static_cast<size_t>(d);
    inside /= nest.extents[at];
    add(nest.extents[at], inside * (s.is_rows ? s.chunks : 1), nest.outputs[0].strides[at]);
  }
  if (s.is_rows) add(s.chunks, 1, 0);
  return left;
}

std::string GroupStartText(const Expression& expression, const Nest& nest, int width) {
  return StrCat(DeclarationsText(expression, nest), "constexpr int kWidth = ", width,
                ";\nconstexpr int kHalvings = ", std::countr_zero(static_cast<unsigned>(kBlockThreads)),
                ";\nconstexpr int kPhases = kHalvings + 2;\n", GroupRowsText(),
                "struct Arguments {\n  const Member* members;\n  const Chunk* chunks;\n  Wide* sums;\n};\n",
                "struct Shared {\n  Wide sums[", kBlockThreads, "];\n};\n");
}

// `first` leaves a thread's sum in `sum`; `last` writes that of the block.
std::string GroupPhaseText(std::string_view first, std::string_view last) {
  return StrCat("inline void Phase(const Arguments& a, Shared& shared, int phase, unsigned block, int thread) {\n",
                "  if (phase == 0) {\n    Wide sum = 0;\n", first, "    shared.sums[thread] = sum;\n",
                "  } else if (phase <= kHalvings) {\n    const int reach = ", kBlockThreads, " >> phase;\n",
                "    if (thread < reach) shared.sums[thread] += shared.sums[thread + reach];\n",
                "  } else if (thread == 0) {\n    ", last, "\n  }\n}\n");
}

}  // namespace

// A block sums one chunk of one member; the joiner adds the chunks of each member. Both read the same tables.
KernelText GroupSumText(std::string name, const Expression& expression, const Nest& nest, int width) {
  const Split split{.width = width, .kept_dims = {}, .summed_dims = {0}};
  const std::string first = StrCat(R"(    const Chunk chunk = a.chunks[block];
    const Member member = a.members[chunk.member];
    const Index count = static_cast<Index>(member.count);
    Wide sums[kWidth] = {};
)",
                                   "    for (int step = 0; step < ", kChunkSteps,
                                   "; ++step) {\n      const Index i = static_cast<Index>(chunk.first) + (step * ",
                                   kBlockThreads, R"(u + thread) * kWidth;
      if (i + kWidth <= count) {
        Terms<kWidth>(member.at, 0, i, sums);
      } else {
        for (Index k = i; k < count; ++k) Terms<1>(member.at, 0, k, sums);
      }
    }
    for (int j = 0; j < kWidth; ++j) sum += sums[j];
)");
  return {std::move(name), GroupStartText(expression, nest, width) + TermsText(expression, nest, split) +
                               GroupPhaseText(first, "a.sums[block] = shared.sums[0];")};
}

KernelText GroupSumJoinerText(std::string name, const Expression& expression, const Nest& nest) {
  const std::string first =
      StrCat("    const Member member = a.members[block];\n    for (long long i = thread; i < member.chunks; i += ",
             kBlockThreads, ") sum += a.sums[member.first_chunk + i];\n");
  return {std::move(name),
          GroupStartText(expression, nest, 1) + GroupPhaseText(first, "Set(*a.members[block].at.y0, shared.sums[0]);")};
}

// One launch where the sums alone fill the chip; else chunks and a second launch that adds them.
ReducePlan PlanReduceSum(const std::string& name, const Expression& expression, const Nest& nest,
                         bool may_take_vectors) {
  const Split first = SplitOf(nest, true, may_take_vectors);
  ReducePlan plan;
  plan.stages.push_back({TextOf(name, expression, nest, first), first.tiles * first.chunks});
  if (first.chunks == 1) return plan;
  plan.partial_count = first.kept * first.chunks;
  const Nest partials = NestOfPartials(nest, first);
  const Split second = SplitOf(partials, false, true);
  plan.stages.push_back({TextOf(name + "_2", Expression::Parse("x0"), partials, second), second.tiles});
  return plan;
}

}  // namespace moka::cuda
