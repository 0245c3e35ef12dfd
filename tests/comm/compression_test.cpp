// Compressed gradients: nothing is lost that error feedback keeps, means are right where it does not, all ranks hold
// the same bits, and each method does what its formula says, against plain loops in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>

#include "comm/algorithms/algorithm.h"
#include "comm/compression/all_gather.h"
#include "comm/compression/compressed_bucket.h"
#include "comm/exchange/gradient_exchange.h"
#include "core/error.h"
#include "core/text.h"
#include "tests/comm/random_gradient.h"
#include "tests/comm/world.h"

namespace moka {
namespace {

constexpr std::chrono::seconds kPatience(5);
const Shape kShape{24, 9, 5};  // 24 x 45 as a matrix
constexpr size_t kCount = kGradientCount;

CompressionOptions Options(const std::string& method) {
  CompressionOptions options;
  options.method = method;
  options.density = 0.01;
  options.min_elements = 16;
  options.seed = 42;
  return options;
}

std::unique_ptr<GradientCompressor> Make(const CompressionOptions& options, int rank = 0, int ranks = 1) {
  return FindCompression(options).make(options, kShape, {0, rank, ranks});
}

Floats State(GradientCompressor& compressor, std::string_view name) {
  for (const CompressorState& state : compressor.States()) {
    if (state.name == name) return {state.values.begin(), state.values.end()};
  }
  return {};
}

// One rank alone: what it sends of a gradient.
Floats Sent(GradientCompressor& compressor, const CompressionMethod& method, const Floats& gradient, int64_t step) {
  std::vector<Floats> payloads;
  for (int round = 0; round < method.rounds; ++round) {
    payloads.emplace_back(static_cast<size_t>(compressor.PayloadFloats(round, step)));
    compressor.Encode(round, step, round == 0 ? gradient : payloads[static_cast<size_t>(round - 1)], payloads.back());
  }
  Floats sum(gradient.size());
  compressor.AddDecoded(step, payloads.back(), sum);
  return sum;
}

struct Outcome {
  std::vector<Floats> sums;  // by step
  std::map<std::string, Floats> states;
};

// Every rank's gradients of several steps through one bucket of two gradients.
std::vector<Outcome> Exchange(const CompressionOptions& options, int ranks, int steps) {
  std::vector<Outcome> outcomes(static_cast<size_t>(ranks));
  RunRanks(ranks, [&](Transport& transport) {
    const int rank = transport.rank();
    GradientCompression compression(options, rank, ranks);
    Floats first(kCount);
    Floats second(kCount);
    compression.Allow(3, "a");
    compression.Allow(7, "b");
    std::vector<CompressedGradient*> gradients = {
        compression.Add(3, Tensor({DType::kFloat32, kShape, {}}, first.data())),
        compression.Add(7, Tensor({DType::kFloat32, kShape, {}}, second.data()))};
    EXPECT_EQ(compression.Add(8, Tensor({DType::kFloat32, kShape, {}}, second.data())), nullptr);
    CompressedBucket bucket(transport, compression.method(), gradients,
                            FindAllReduce("direct").make({.ranks = ranks}, rank));
    Outcome& outcome = outcomes[static_cast<size_t>(rank)];
    for (int64_t step = 0; step < steps; ++step) {
      std::ranges::copy(Gradient(rank, step), first.begin());
      std::ranges::copy(Gradient(rank + 100, step), second.begin());
      bucket.Run(step, kPatience);
      outcome.sums.push_back(first);
      outcome.sums.push_back(second);
    }
    for (const auto& gradient : compression.gradients()) {
      for (const CompressorState& state : gradient->compressor->States()) {
        outcome.states[StrCat(state.name, ":", gradient->blob)] = {state.values.begin(), state.values.end()};
      }
    }
  });
  return outcomes;
}

TEST(AllGather, CarriesBitsAsTheyAre) {
  constexpr int kRanks = 4;
  constexpr size_t kPart = 64;
  RunRanks(kRanks, [&](Transport& transport) {
    Floats values(kRanks * kPart);
    const auto word = [](int rank, size_t i) {  // all exponents: numbers that signal too
      return static_cast<uint32_t>(rank) << 31U | static_cast<uint32_t>(i * 4 + 3) << 23U | 0x155U;
    };
    const int rank = transport.rank();
    for (size_t i = 0; i < kPart; ++i) {
      const uint32_t bits = word(rank, i);
      std::memcpy(&values[static_cast<size_t>(rank) * kPart + i], &bits, sizeof bits);
    }
    Runner runner(transport, AllGatherSchedule(rank, kRanks), Wire::kFloat32);
    EXPECT_EQ(SentElements(runner.schedule(), kRanks * kPart), (kRanks - 1) * static_cast<int64_t>(kPart));
    runner.Run(Message(std::span<float>(values)), kPatience);
    for (int r = 0; r < kRanks; ++r) {
      for (size_t i = 0; i < kPart; ++i) {
        uint32_t bits = 0;
        std::memcpy(&bits, &values[static_cast<size_t>(r) * kPart + i], sizeof bits);
        ASSERT_EQ(bits, word(r, i)) << r << " " << i;
      }
    }
  });
}

class MethodTest : public testing::TestWithParam<const char*> {};

TEST_P(MethodTest, AllRanksHoldTheSameBits) {
  for (const int ranks : {2, 3, 4}) {
    const std::vector<Outcome> outcomes = Exchange(Options(GetParam()), ranks, 4);
    for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.sums, outcomes[0].sums) << ranks;
    EXPECT_NE(outcomes[0].sums[0], outcomes[0].sums[2]);
  }
}

TEST_P(MethodTest, TheSameRunSendsTheSame) {
  const std::vector<Outcome> a = Exchange(Options(GetParam()), 3, 3);
  const std::vector<Outcome> b = Exchange(Options(GetParam()), 3, 3);
  EXPECT_EQ(a[1].sums, b[1].sums);
  EXPECT_EQ(a[1].states, b[1].states);
}

TEST_P(MethodTest, AGradientThatIsNotFiniteIsNotKept) {
  const CompressionOptions options = Options(GetParam());
  const CompressionMethod& method = FindCompression(options);
  const auto compressor = Make(options);
  Sent(*compressor, method, Gradient(0, 0), 0);
  std::vector<Floats> before;
  for (const CompressorState& state : compressor->States()) {
    before.emplace_back(state.values.begin(), state.values.end());
  }
  Floats bad = Gradient(0, 1);
  bad[5] = std::numeric_limits<float>::infinity();
  const Floats sent = Sent(*compressor, method, bad, 1);
  EXPECT_TRUE(std::ranges::any_of(sent, [](float v) { return std::isnan(v); }));
  size_t i = 0;
  for (const CompressorState& state : compressor->States()) {
    EXPECT_EQ(Floats(state.values.begin(), state.values.end()), before[i++]) << state.name;
  }
  for (const float v : Sent(*compressor, method, Gradient(0, 2), 2)) ASSERT_TRUE(std::isfinite(v));
}

INSTANTIATE_TEST_SUITE_P(Methods, MethodTest, testing::Values("dgc", "powersgd", "qsgd", "sign", "terngrad"));

// The sum of all that was sent and of what all ranks keep back is the sum of the gradients.
TEST(ErrorFeedback, LosesNothing) {
  constexpr int kSteps = 6;
  for (const char* method : {"dgc", "powersgd", "sign"}) {
    for (const int ranks : {1, 2, 4}) {
      const std::vector<Outcome> outcomes = Exchange(Options(method), ranks, kSteps);
      for (const size_t which : {size_t{0}, size_t{1}}) {
        std::vector<double> raw(kCount);
        std::vector<double> found(kCount);
        const auto add = [](const Floats& values, std::vector<double>& sum) {
          for (size_t i = 0; i < kCount; ++i) sum[i] += double{values[i]};
        };
        for (int64_t step = 0; step < kSteps; ++step) {
          add(outcomes[0].sums[static_cast<size_t>(2 * step) + which], found);
          for (int rank = 0; rank < ranks; ++rank) add(Gradient(rank + (which == 1 ? 100 : 0), step), raw);
        }
        for (const Outcome& outcome : outcomes) add(outcome.states.at(which == 0 ? "residual:a" : "residual:b"), found);
        for (size_t i = 0; i < kCount; ++i) {
          ASSERT_NEAR(found[i], raw[i], 2e-5 * ranks * kSteps) << method << " " << ranks << " " << i;
        }
      }
    }
  }
}

TEST(Dgc, SendsTheLargestAndMasksTheirMomentum) {
  CompressionOptions options = Options("dgc");
  options.momentum = 0.9;
  const CompressionMethod& method = FindCompression(options);
  const auto compressor = Make(options);
  const auto k = static_cast<size_t>(std::ceil(0.01 * kCount));
  EXPECT_EQ(compressor->PayloadFloats(0, 0), static_cast<int64_t>(2 * k));
  std::vector<double> u(kCount);
  std::vector<double> v(kCount);
  for (int64_t step = 0; step < 5; ++step) {
    const Floats gradient = Gradient(0, step);
    for (size_t i = 0; i < kCount; ++i) {
      u[i] = 0.9 * u[i] + double{gradient[i]};
      v[i] += u[i];
    }
    std::vector<size_t> order(kCount);
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, std::greater<>(), [&](size_t i) { return std::abs(v[i]); });
    std::vector<double> expected(kCount);
    for (size_t n = 0; n < k; ++n) {
      expected[order[n]] = v[order[n]];
      u[order[n]] = v[order[n]] = 0;
    }
    const Floats sent = Sent(*compressor, method, gradient, step);
    for (size_t i = 0; i < kCount; ++i) {
      ASSERT_NEAR(sent[i], expected[i], 1e-4) << step << " " << i;
      ASSERT_NEAR(State(*compressor, "momentum")[i], u[i], 1e-4);
      ASSERT_NEAR(State(*compressor, "residual")[i], v[i], 1e-4);
    }
  }
}

TEST(Dgc, OfEqualElementsTheFirstAreSent) {
  CompressionOptions options = Options("dgc");
  const auto compressor = Make(options);
  const Floats sent = Sent(*compressor, FindCompression(options), Floats(kCount, -2.0F), 0);
  for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(sent[i], i < 11 ? -2.0F : 0.0F) << i;
}

TEST(Dgc, TheDensityFallsOverTheWarmUp) {
  CompressionOptions options = Options("dgc");
  options.density = 0.001;
  options.warmup_iter = 50;
  const std::vector<double> paper = {0.25, 0.063, 0.0158, 0.004, 0.001};
  for (size_t stage = 0; stage < paper.size(); ++stage) {
    EXPECT_NEAR(DgcDensity(options, static_cast<int64_t>(10 * stage)), paper[stage], 0.01 * paper[stage]);
    EXPECT_EQ(DgcDensity(options, static_cast<int64_t>(10 * stage)),
              DgcDensity(options, static_cast<int64_t>(10 * stage + 9)));
  }
  EXPECT_EQ(DgcDensity(options, 1000), 0.001);
  EXPECT_EQ(Make(options)->PayloadFloats(0, 0), 2 * 270);
  EXPECT_EQ(Make(options)->PayloadFloats(0, 50), 2 * 2);
}

TEST(Sign, SendsSignsTimesTheMeanMagnitude) {
  const CompressionOptions options = Options("sign");
  const auto compressor = Make(options);
  EXPECT_EQ(compressor->PayloadFloats(0, 0), 1 + (24 * 45 + 31) / 32);
  std::vector<double> e(kCount);
  for (int64_t step = 0; step < 5; ++step) {
    const Floats gradient = Gradient(0, step);
    double scale = 0;
    for (size_t i = 0; i < kCount; ++i) scale += std::abs(e[i] += double{gradient[i]}) / kCount;
    const Floats sent = Sent(*compressor, FindCompression(options), gradient, step);
    for (size_t i = 0; i < kCount; ++i) {
      const double expected = e[i] < 0 ? -scale : scale;
      e[i] -= expected;
      ASSERT_NEAR(sent[i], expected, 1e-5) << step << " " << i;
    }
  }
}

// P and Q in double, from the compressor's own first Q.
TEST(PowerSgd, IsAStepOfSubspaceIteration) {
  CompressionOptions options = Options("powersgd");
  options.rank = 3;
  const CompressionMethod& method = FindCompression(options);
  const auto compressor = Make(options);
  EXPECT_EQ(compressor->PayloadFloats(0, 0), 3 * 24);
  EXPECT_EQ(compressor->PayloadFloats(1, 0), 3 * 45);
  constexpr size_t kRows = 24;
  constexpr size_t kColumns = 45;
  std::vector<double> e(kCount);
  const Floats first = State(*compressor, "q");
  std::vector<double> q(first.begin(), first.end());
  for (int64_t step = 0; step < 4; ++step) {
    const Floats gradient = Gradient(0, step);
    std::vector<double> p(3 * kRows);
    for (size_t i = 0; i < kCount; ++i) e[i] += double{gradient[i]};
    for (size_t k = 0; k < 3; ++k) {
      for (size_t i = 0; i < kRows; ++i) {
        for (size_t j = 0; j < kColumns; ++j) p[k * kRows + i] += e[i * kColumns + j] * q[k * kColumns + j];
      }
      for (size_t before = 0; before <= k; ++before) {  // at last by itself: the length
        double dot = 0;
        for (size_t i = 0; i < kRows; ++i) dot += p[k * kRows + i] * p[before * kRows + i];
        for (size_t i = 0; i < kRows; ++i) {
          p[k * kRows + i] =
              before < k ? p[k * kRows + i] - dot * p[before * kRows + i] : p[k * kRows + i] / std::sqrt(dot);
        }
      }
    }
    std::vector<double> expected(kCount);
    for (size_t k = 0; k < 3; ++k) {
      for (size_t j = 0; j < kColumns; ++j) {
        double sum = 0;
        for (size_t i = 0; i < kRows; ++i) sum += e[i * kColumns + j] * p[k * kRows + i];
        q[k * kColumns + j] = sum;
        for (size_t i = 0; i < kRows; ++i) expected[i * kColumns + j] += sum * p[k * kRows + i];
      }
    }
    const Floats sent = Sent(*compressor, method, gradient, step);
    for (size_t i = 0; i < kCount; ++i) {
      e[i] -= expected[i];
      ASSERT_NEAR(sent[i], expected[i], 1e-4) << step << " " << i;
      ASSERT_NEAR(State(*compressor, "residual")[i], e[i], 1e-4);
    }
  }
}

TEST(PowerSgd, AGradientOfItsRankCrossesWhole) {
  CompressionOptions options = Options("powersgd");
  options.rank = 2;
  const auto compressor = Make(options);
  Floats gradient(kCount);
  for (size_t i = 0; i < 24; ++i) {
    for (size_t j = 0; j < 45; ++j) gradient[i * 45 + j] = static_cast<float>(i) * 0.1F + static_cast<float>(j);
  }
  for (int64_t step = 0; step < 3; ++step) {
    const Floats sent = Sent(*compressor, FindCompression(options), gradient, step);
    for (size_t i = 0; i < kCount; ++i) ASSERT_NEAR(sent[i], gradient[i], 2e-3) << step << " " << i;
  }
}

TEST(PowerSgd, AnEmptyDirectionIsDrawnAnew) {
  CompressionOptions options = Options("powersgd");
  const auto compressor = Make(options);
  const Floats none = Sent(*compressor, FindCompression(options), Floats(kCount), 0);
  EXPECT_EQ(none, Floats(kCount));
  const Floats q = State(*compressor, "q");
  EXPECT_TRUE(std::ranges::any_of(q, [](float v) { return v != 0; }));
  const Floats sent = Sent(*compressor, FindCompression(options), Gradient(0, 1), 1);
  EXPECT_TRUE(std::ranges::any_of(sent, [](float v) { return v != 0; }));
}

// The mean over many draws is the gradient, within five standard errors of the method's own variance.
class UnbiasedTest : public testing::TestWithParam<const char*> {};

TEST_P(UnbiasedTest, TheMeanIsTheGradient) {
  constexpr int kDraws = 2000;
  CompressionOptions options = Options(GetParam());
  options.levels = 4;
  options.clip = 0;
  const CompressionMethod& method = FindCompression(options);
  const auto compressor = Make(options);
  const Floats gradient = Gradient(0, 0);
  std::vector<double> sum(kCount);
  std::vector<double> squares(kCount);
  for (int64_t step = 0; step < kDraws; ++step) {
    const Floats sent = Sent(*compressor, method, gradient, step);
    for (size_t i = 0; i < kCount; ++i) {
      sum[i] += double{sent[i]};
      squares[i] += double{sent[i]} * double{sent[i]};
    }
  }
  double bias = 0;
  for (size_t i = 0; i < kCount; ++i) {
    const double mean = sum[i] / kDraws;
    const double sigma = std::sqrt(std::max(squares[i] / kDraws - mean * mean, 1e-4) / kDraws);
    ASSERT_NEAR(mean, gradient[i], 5 * sigma) << i;
    bias += (mean - double{gradient[i]}) / sigma / kCount;
  }
  EXPECT_NEAR(bias, 0, 5 / std::sqrt(kCount));
}

INSTANTIATE_TEST_SUITE_P(Methods, UnbiasedTest, testing::Values("qsgd", "terngrad"));

TEST(Qsgd, SendsLevelsOfTheNormOfABlock) {
  CompressionOptions options = Options("qsgd");
  for (const int levels : {1, 4, 127, 1000}) {
    options.levels = levels;
    const auto compressor = Make(options);
    const int bits = std::bit_width(static_cast<unsigned>(2 * levels));
    const int64_t words = (static_cast<int64_t>(kCount) + 32 / bits - 1) / (32 / bits);
    EXPECT_EQ(compressor->PayloadFloats(0, 0), 3 + words) << levels;
    const Floats gradient = Gradient(0, 0);
    const Floats sent = Sent(*compressor, FindCompression(options), gradient, 0);
    for (size_t block = 0; block < kCount; block += 512) {
      const size_t end = std::min(block + 512, kCount);
      double squares = 0;
      for (size_t i = block; i < end; ++i) squares += double{gradient[i]} * double{gradient[i]};
      const double unit = std::sqrt(squares) / levels;
      for (size_t i = block; i < end; ++i) {
        const double level = double{sent[i]} / unit;
        ASSERT_NEAR(level, std::round(level), 1e-3);
        ASSERT_LE(std::abs(double{sent[i]} - double{gradient[i]}), unit * 1.001) << levels << " " << i;
      }
    }
  }
}

TEST(TernGrad, SendsThreeValuesAndLimitsOutliers) {
  CompressionOptions options = Options("terngrad");
  const auto compressor = Make(options);
  EXPECT_EQ(compressor->PayloadFloats(0, 0), 1 + (24 * 45 + 15) / 16);
  Floats gradient = Gradient(0, 0);
  gradient[3] = 500;
  double sum = 0;
  double squares = 0;
  for (const float g : gradient) {
    sum += double{g} / kCount;
    squares += double{g} * double{g} / kCount;
  }
  const double limit = 2.5 * std::sqrt(squares - sum * sum);
  const Floats sent = Sent(*compressor, FindCompression(options), gradient, 0);
  EXPECT_NEAR(sent[3], limit, 1e-3);
  for (const float v : sent) {
    if (v != 0) {
      ASSERT_NEAR(std::abs(v), limit, 1e-3);
    }
  }
}

TEST(Compression, RefusesWhatIsOutOfRange) {
  const auto refusal = [](const CompressionOptions& options) -> std::string {
    try {
      FindCompression(options);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kConfig);
      return StrCat(error.text(), "; ", error.hint());
    }
    return {};
  };
  EXPECT_NE(refusal(Options("powersdg")).find("powersgd"), std::string::npos);
  CompressionOptions options = Options("dgc");
  options.density = 0.5;
  EXPECT_NE(refusal(options).find("density is 0.5"), std::string::npos) << refusal(options);
  options = Options("qsgd");
  options.levels = 0;
  EXPECT_NE(refusal(options).find("levels is 0"), std::string::npos);
  options = Options("powersgd");
  options.rank = 0;
  EXPECT_NE(refusal(options).find("rank is 0"), std::string::npos);
  options = Options("terngrad");
  options.clip = -1;
  EXPECT_NE(refusal(options).find("clip is -1"), std::string::npos);
  options.clip = 0;
  options.start_iter = -2;
  EXPECT_NE(refusal(options).find("start_iter is -2"), std::string::npos);
  EXPECT_EQ(refusal(Options("sign")), "");
}

TEST(Compression, LeavesSmallGradientsAlone) {
  CompressionOptions options = Options("powersgd");
  const GradientCompression compression(options, 0, 2);
  EXPECT_TRUE(compression.Suits(Shape{24, 45}));
  EXPECT_FALSE(compression.Suits(Shape{3, 5}));     // fewer than 16
  EXPECT_FALSE(compression.Suits(Shape{4, 1000}));  // no fewer numbers in the products
  EXPECT_FALSE(compression.Suits(Shape{500}));
}

// A gradient whose channels lie in blocks of 16, padded: what crosses is in row-major order, and the padding stays
// zero.
TEST(Compression, ReadsAndWritesBlockedLayouts) {
  const Shape shape{20, 6};
  const Layout layout = Layout::Parse("Ab16a");
  const TensorType type{DType::kFloat32, shape, layout};
  const auto stored = static_cast<size_t>(type.StoredCount());
  ASSERT_EQ(stored, 32U * 6U);
  RunRanks(2, [&](Transport& transport) {
    GradientCompression compression(Options("sign"), transport.rank(), 2);
    compression.Allow(0, "w");
    Floats values(stored);
    CompressedGradient* gradient = compression.Add(0, Tensor(type, values.data()));
    ASSERT_NE(gradient, nullptr);
    const Floats raw = Gradient(transport.rank(), 0, 120);
    CopyTensor(Tensor({DType::kFloat32, shape, {}}, const_cast<float*>(raw.data())), gradient->values);
    CompressedBucket bucket(transport, compression.method(), {gradient},
                            FindAllReduce("direct").make({.ranks = 2}, transport.rank()));
    bucket.Run(0, kPatience);
    Floats sum(120);
    CopyTensor(gradient->values, Tensor({DType::kFloat32, shape, {}}, sum.data()));
    EXPECT_EQ(std::ranges::count(values, 0.0F), static_cast<int64_t>(stored) - 120);
    Floats expected(120);
    for (int rank = 0; rank < 2; ++rank) {
      const Floats other = Gradient(rank, 0, 120);
      double scale = 0;
      for (const float g : other) scale += std::abs(double{g}) / 120;
      for (size_t i = 0; i < 120; ++i) expected[i] += static_cast<float>(other[i] < 0 ? -scale : scale);
    }
    for (size_t i = 0; i < 120; ++i) EXPECT_NEAR(sum[i], expected[i], 1e-5) << i;
  });
}

}  // namespace
}  // namespace moka
