// The parts that convolutions with sums rest on beside cuDNN: mean and variance from sums in float, as cuDNN gives
// them, the sweep for gradients, transposed weights, and the choice by time.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "core/device/device.h"
#include "core/half.h"
#include "core/rng.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cuda/channels.h"
#include "layers/kernels/cuda/timing.h"
#include "layers/kernels/cuda/workspace.h"

namespace moka {
namespace {

constexpr Device kRehearsedGpu{DeviceKind::kCuda, Device::kRehearsed};

struct Moments {
  double mean = 0;
  double variance = 0;
};

Moments TwoPasses(const std::vector<float>& values) {
  Moments m;
  for (const float v : values) m.mean += static_cast<double>(v);
  m.mean /= static_cast<double>(values.size());
  for (const float v : values) m.variance += (static_cast<double>(v) - m.mean) * (static_cast<double>(v) - m.mean);
  m.variance /= static_cast<double>(values.size());
  return m;
}

// The sum of f(v) in float: tiles of 128 in a row, then the tiles, as an epilogue and its reduction add.
template <class F>
float TiledSum(const std::vector<float>& values, F&& f) {
  float sum = 0;
  for (size_t begin = 0; begin < values.size(); begin += 128) {
    float tile = 0;
    for (size_t i = begin; i < std::min(begin + 128, values.size()); ++i) tile += f(values[i]);
    sum += tile;
  }
  return sum;
}

// Returns the moments from sums in float, over the values of one channel after another.
std::vector<Moments> FromFloatSums(const std::vector<std::vector<float>>& channels) {
  const auto count = static_cast<int64_t>(channels.size());
  std::vector<float> sums;
  std::vector<float> squares;
  for (const std::vector<float>& values : channels) {
    sums.push_back(TiledSum(values, [](float v) { return v; }));
    squares.push_back(TiledSum(values, [](float v) { return v * v; }));
  }
  const TensorType type{DType::kFloat16, Shape{1, count, 1, static_cast<int64_t>(channels[0].size())}, {}};
  const std::unique_ptr<Stream> stream = MakeStream(kRehearsedGpu);
  cuda::StatisticsOfSums(*stream, type, sums.data(), squares.data(), sums.data(), squares.data());
  stream->Synchronize();
  std::vector<Moments> found;
  for (size_t c = 0; c < sums.size(); ++c) {
    found.push_back({static_cast<double>(sums[c]), static_cast<double>(squares[c])});
  }
  return found;
}

std::vector<float> Normal(uint64_t seed, double mean, double deviation, size_t count) {
  RandomStream random(seed, 1);
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i) {
    values.push_back(FloatOfHalf(HalfOfFloat(static_cast<float>(random.Normal(mean, deviation)))));
  }
  return values;
}

TEST(ChannelStatistics, FloatSumsGiveTheVarianceToAThousandthAtThreeDeviations) {
  constexpr size_t kCount = 200'000;
  std::vector<std::vector<float>> channels;
  for (const double mean : {0.0, 0.5, -1.0, 3.0, -3.0}) channels.push_back(Normal(7, 0.1 * mean, 0.1, kCount));
  const std::vector<Moments> found = FromFloatSums(channels);
  for (size_t c = 0; c < channels.size(); ++c) {
    const Moments expected = TwoPasses(channels[c]);
    EXPECT_NEAR(found[c].mean, expected.mean, 1e-3 * std::sqrt(expected.variance)) << "channel " << c;
    EXPECT_NEAR(found[c].variance, expected.variance, 1e-3 * expected.variance) << "channel " << c;
  }
}

TEST(ChannelStatistics, ConstantChannelsHaveNoNegativeVariance) {
  std::vector<std::vector<float>> channels;
  for (const float value : {0.1F, 3.3F, -1000.7F, 0.0F}) channels.emplace_back(10'007, value);
  const std::vector<Moments> found = FromFloatSums(channels);
  for (size_t c = 0; c < channels.size(); ++c) {
    const auto value = static_cast<double>(channels[c][0]);
    EXPECT_GE(found[c].variance, 0) << "channel " << c;
    EXPECT_LE(found[c].variance, 1e-4 * value * value) << "channel " << c;
  }
}

TEST(ChannelStatistics, NotANumberStaysOne) {
  const std::vector<Moments> found = FromFloatSums({{1.0F, std::nanf(""), 2.0F}});
  EXPECT_TRUE(std::isnan(found[0].mean));
  EXPECT_TRUE(std::isnan(found[0].variance));
}

// All numbers are small multiples of powers of 2, whose sums are exact in any order.
TEST(GradientSums, AreThoseOfThePlainLoop) {
  constexpr int64_t kPositions = 3 * 5 * 7;
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    for (const int64_t channels : {16, 3}) {  // in packs and one by one
      for (const int given : {0, 1, 2, 3}) {
        SCOPED_TRACE(testing::Message() << NameOf(dtype) << ", " << channels << " channels, given " << given);
        RandomStream random(3, 5);
        const auto count = static_cast<size_t>(kPositions * channels);
        std::vector<std::vector<uint16_t>> halves(4, std::vector<uint16_t>(count));  // dx, summand, mask, x
        std::vector<std::vector<float>> values(4, std::vector<float>(count));
        for (size_t t = 0; t < 4; ++t) {
          for (size_t i = 0; i < count; ++i) {
            values[t][i] = static_cast<float>(static_cast<int64_t>(random.Below(17)) - 8) / 8;
            halves[t][i] = dtype == DType::kFloat16 ? HalfOfFloat(values[t][i]) : BFloat16OfFloat(values[t][i]);
          }
        }
        const bool sum = (given & 1) != 0;
        const bool mask = (given & 2) != 0;
        const TensorType type{dtype, Shape{3, channels, 5, 7}, ChannelsLast(4)};
        std::vector<std::byte> scratch(static_cast<size_t>(cuda::GradientSumsScratch(type)));
        std::vector<float> sums(static_cast<size_t>(channels), -1);
        std::vector<float> products(sums);
        const std::unique_ptr<Stream> stream = MakeStream(kRehearsedGpu);
        cuda::TakeGradientSums(
            *stream, type,
            {halves[0].data(), sum ? halves[1].data() : nullptr, mask ? halves[2].data() : nullptr, halves[3].data()},
            halves[0].data(), sums.data(), products.data(), scratch.data());
        stream->Synchronize();
        std::vector<float> expected(sums.size(), 0);
        std::vector<float> expected_products(sums.size(), 0);
        for (size_t i = 0; i < count; ++i) {
          const float g = mask && !(values[2][i] > 0) ? 0 : values[0][i] + (sum ? values[1][i] : 0);
          expected[i % sums.size()] += g;
          expected_products[i % sums.size()] += g * values[3][i];
          ASSERT_EQ(dtype == DType::kFloat16 ? FloatOfHalf(halves[0][i]) : FloatOfBFloat16(halves[0][i]), g) << i;
        }
        EXPECT_EQ(sums, expected);
        EXPECT_EQ(products, expected_products);
      }
    }
  }
}

TEST(TransposeHalves, IsTheTransposition) {
  constexpr size_t kRows = 67;
  constexpr size_t kColumns = 130;
  std::vector<uint16_t> from(kRows * kColumns);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<uint16_t>(i);
  std::vector<uint16_t> to(from.size(), 0);
  const std::unique_ptr<Stream> stream = MakeStream(kRehearsedGpu);
  cuda::TransposeHalves(*stream, kRows, kColumns, from.data(), to.data());
  stream->Synchronize();
  for (size_t row = 0; row < kRows; ++row) {
    for (size_t column = 0; column < kColumns; ++column) {
      ASSERT_EQ(to[column * kRows + row], from[row * kColumns + column]) << row << ", " << column;
    }
  }
}

TEST(Trial, HasZeroedTensorsByNumberAndScratch) {
  const cuda::Trial trial({{3, 100}, {-7, 64}}, 1000, kRehearsedGpu);
  trial.stream().Synchronize();
  EXPECT_EQ(trial.stream().device(), kRehearsedGpu);
  EXPECT_NE(trial.tensor(3), trial.tensor(-7));
  for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(trial.tensor(3)[i], std::byte{0});
  for (int64_t i = 0; i < 1000; ++i) trial.scratch()[i] = std::byte{1};
  for (int64_t i = 0; i < 64; ++i) EXPECT_EQ(trial.tensor(-7)[i], std::byte{0});
  EXPECT_THROW(trial.tensor(4), std::out_of_range);
}

TEST(Workspace, IsAlignedAndFitsItsRoom) {
  EXPECT_EQ(cuda::WorkspaceRoom(0), 0);
  for (uintptr_t at = 1 << 20; at < (1 << 20) + 600; at += 64) {
    auto* const room = reinterpret_cast<std::byte*>(at);
    std::byte* const begin = cuda::WorkspaceIn(room);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(begin) % 256, 0U);
    EXPECT_GE(begin, room);
    EXPECT_LE(begin + 1000, room + cuda::WorkspaceRoom(1000));
  }
}

TEST(FastestOf, TakesTheFastest) {
  const std::unique_ptr<Stream> stream = MakeStream(kRehearsedGpu);
  const auto take = [&](const std::vector<int>& ms) {
    return cuda::FastestOf(*stream, ms.size(), [&](size_t i) {
      stream->Rehearse([wait = ms[i]] { std::this_thread::sleep_for(std::chrono::milliseconds(wait)); });
    });
  };
  EXPECT_EQ(take({20}), 0U);
  EXPECT_EQ(take({40, 1, 20}), 1U);
  EXPECT_EQ(take({1, 40, 20}), 0U);
  EXPECT_EQ(take({40, 20, 1}), 2U);
}

}  // namespace
}  // namespace moka
