// Ranges cover every index once, small work stays in one thread, nested work inside.
#include "core/threads/parallel.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace moka {
namespace {

TEST(ParallelTest, CoversEveryIndexOnce) {
  for (const int threads : {1, 2, 3, 4}) {
    SetThreadCount(threads);
    for (const int64_t count : {0, 1, 2, 3, 7, 1000}) {
      std::vector<int> hits(static_cast<size_t>(count), 0);
      ParallelFor(count, 1, [&](int64_t begin, int64_t end, int thread) {
        EXPECT_LT(thread, threads);
        for (int64_t i = begin; i < end; ++i) ++hits[static_cast<size_t>(i)];
      });
      EXPECT_EQ(std::accumulate(hits.begin(), hits.end(), 0), count);
    }
  }
  SetThreadCount(2);
}

TEST(ParallelTest, SmallWorkStaysOnOneThread) {
  SetThreadCount(4);
  int calls = 0;
  ParallelFor(10, 100, [&](int64_t begin, int64_t end, int thread) {
    ++calls;
    EXPECT_EQ(begin, 0);
    EXPECT_EQ(end, 10);
    EXPECT_EQ(thread, 0);
  });
  EXPECT_EQ(calls, 1);
  SetThreadCount(2);
}

TEST(ParallelTest, NestedWorkRunsInside) {
  SetThreadCount(2);
  std::vector<int64_t> sums(8, 0);
  ParallelFor(8, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      ParallelFor(10, 1, [&](int64_t b, int64_t e, int) {
        for (int64_t j = b; j < e; ++j) sums[static_cast<size_t>(i)] += j;
      });
    }
  });
  for (const int64_t sum : sums) EXPECT_EQ(sum, 45);
}

}  // namespace
}  // namespace moka
