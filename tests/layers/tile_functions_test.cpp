// The scalar functions of the tile interpreter: their accuracy, their special values, and the same bits for every
// instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/rng.h"
#include "layers/kernels/cpu/tiles/tile_ops.h"

namespace moka {
namespace {

// Largest error in units of the last place of the float result, over floats spread evenly by their bits.
double WorstUlps(ScalarOp op, double (*exact)(double), float low, float high) {
  constexpr int64_t kCount = tile::kTileLength;
  std::vector<float> x(kCount);
  std::vector<float> y(kCount);
  float* at[] = {x.data(), y.data()};
  const tile::Step step{.op = op, .a = 0, .y = 1};
  double worst = 0;
  RandomStream random(10, static_cast<uint64_t>(op));
  for (int block = 0; block < 2000; ++block) {
    for (float& v : x) {
      v = static_cast<float>(random.Uniform(static_cast<double>(low), static_cast<double>(high)));
      if (random.Below(4) == 0) v *= std::ldexp(1.0F, -static_cast<int>(random.Below(20)));
      v = std::max(v, low);
    }
    tile::FunctionsHere<float>().run(&step, 1, {at, nullptr, nullptr, 0}, kCount);
    for (int64_t i = 0; i < kCount; ++i) {
      const auto j = static_cast<size_t>(i);
      const double expected = exact(static_cast<double>(x[j]));
      const auto rounded = std::abs(static_cast<float>(expected));
      const auto ulp = static_cast<double>(std::nextafter(rounded, std::numeric_limits<float>::infinity()) - rounded);
      worst = std::max(worst, std::abs(static_cast<double>(y[j]) - expected) / ulp);
    }
  }
  return worst;
}

TEST(TileFunctions, AreAccurateToAFewUlps) {
  EXPECT_LT(WorstUlps(ScalarOp::kExp, std::exp, -87, 88), 2);
  EXPECT_LT(WorstUlps(ScalarOp::kLog, std::log, 1e-30F, 10), 2);
  EXPECT_LT(WorstUlps(ScalarOp::kLog, std::log, 0.5F, 2), 2);
  EXPECT_LT(WorstUlps(ScalarOp::kTanh, std::tanh, -10, 10), 3);
  EXPECT_LT(WorstUlps(ScalarOp::kErf, std::erf, -5, 5), 3);
  EXPECT_LT(WorstUlps(
                ScalarOp::kSigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, -80, 80),
            4);
  EXPECT_LT(WorstUlps(ScalarOp::kSqrt, std::sqrt, 0, 1000), 1);
}

template <class T>
std::vector<T> RunBinary(ScalarOp op, std::vector<T> a, std::vector<T> b) {
  std::vector<T> y(a.size());
  T* at[] = {a.data(), b.data(), y.data()};
  const tile::Step step{.op = op, .a = 0, .b = 1, .y = 2};
  tile::FunctionsHere<T>().run(&step, 1, {at, nullptr, nullptr, 0}, static_cast<int64_t>(a.size()));
  return y;
}

TEST(TileFunctions, AreTheSameBitsForEveryInstructionSet) {
  RandomStream random(12, 0);
  std::vector<float> a(501);
  std::vector<float> b(501);
  for (float& v : a) v = static_cast<float>(random.Uniform(-3, 3));
  for (float& v : b) v = static_cast<float>(random.Uniform(-3, 3));
  const uint64_t seed = 5;
  for (int op = static_cast<int>(ScalarOp::kAdd); op <= static_cast<int>(ScalarOp::kRand); ++op) {
    std::vector<std::vector<float>> results;
    for (const tile::TileFunctions<float>& functions : tile::RunnableFunctions<float>()) {
      std::vector<float> y(a.size());
      float* at[] = {a.data(), b.data(), y.data()};
      const tile::Step step{.op = static_cast<ScalarOp>(op), .a = 0, .b = 1, .c = 0, .y = 2};
      functions.run(&step, 1, {at, &seed, nullptr, 3}, static_cast<int64_t>(a.size()));
      results.push_back(y);
    }
    for (const std::vector<float>& y : results) {
      EXPECT_EQ(std::memcmp(y.data(), results[0].data(), y.size() * sizeof(float)), 0) << "op " << op;
    }
  }
}

TEST(TileFunctions, PowAgreesWithTheLibrary) {
  std::vector<float> a;
  std::vector<float> b;
  const float inf = std::numeric_limits<float>::infinity();
  for (const float x : {0.0F, -0.0F, 1.0F, -1.0F, 2.0F, -2.0F, 0.5F, 1e-40F, 3e38F, inf, -inf, 7.25F, -0.3F}) {
    for (const float y : {0.0F, 1.0F, -1.0F, 2.0F, 3.0F, -3.0F, 0.5F, -0.75F, 1.7F, 40.0F, -40.0F, inf, -inf}) {
      if (x == -1.0F && std::isinf(y)) continue;  // the library says 1
      a.push_back(x);
      b.push_back(y);
    }
  }
  const std::vector<float> y = RunBinary(ScalarOp::kPow, a, b);
  for (size_t i = 0; i < a.size(); ++i) {
    const float expected = std::pow(a[i], b[i]);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(y[i])) << a[i] << "^" << b[i];
    } else {
      EXPECT_FLOAT_EQ(std::abs(y[i]), std::abs(expected)) << a[i] << "^" << b[i];
      EXPECT_EQ(y[i] < 0, expected < 0) << a[i] << "^" << b[i];
    }
  }
}

TEST(TileFunctions, KeepSpecialValues) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto run = [](ScalarOp op, float x) { return RunBinary<float>(op, {x}, {0}).front(); };
  EXPECT_EQ(run(ScalarOp::kExp, inf), inf);
  EXPECT_EQ(run(ScalarOp::kExp, 200), inf);
  EXPECT_EQ(run(ScalarOp::kExp, -inf), 0);
  EXPECT_FLOAT_EQ(run(ScalarOp::kExp, -100), std::exp(-100.0F));  // a denormal
  EXPECT_EQ(run(ScalarOp::kLog, 0), -inf);
  EXPECT_EQ(run(ScalarOp::kLog, inf), inf);
  EXPECT_TRUE(std::isnan(run(ScalarOp::kLog, -1)));
  EXPECT_FLOAT_EQ(run(ScalarOp::kLog, 1e-42F), std::log(1e-42F));
  EXPECT_EQ(run(ScalarOp::kTanh, inf), 1);
  EXPECT_EQ(run(ScalarOp::kTanh, -100), -1);
  EXPECT_EQ(run(ScalarOp::kSigmoid, -inf), 0);
  EXPECT_EQ(run(ScalarOp::kErf, -inf), -1);
  EXPECT_EQ(run(ScalarOp::kFloor, -2.5F), -3);
  EXPECT_EQ(run(ScalarOp::kFloor, 1e20F), 1e20F);
  for (const ScalarOp op : {ScalarOp::kExp, ScalarOp::kLog, ScalarOp::kTanh, ScalarOp::kSigmoid, ScalarOp::kErf,
                            ScalarOp::kFloor, ScalarOp::kAbs, ScalarOp::kSqrt}) {
    EXPECT_TRUE(std::isnan(run(op, nan))) << static_cast<int>(op);
  }
  EXPECT_TRUE(std::isnan(RunBinary<float>(ScalarOp::kMax, {nan}, {0}).front()));
  EXPECT_TRUE(std::isnan(RunBinary<float>(ScalarOp::kMin, {0}, {nan}).front()));
}

}  // namespace
}  // namespace moka
