// A phase speaks after a second, and not before or in a quiet scope.
#include "core/threads/slow_phase.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "core/quiet_scope.h"

namespace moka {
namespace {

// Returns the text that stderr got while a phase of `lasting` was there.
std::string SaidIn(std::chrono::milliseconds lasting, bool is_quiet) {
  testing::internal::CaptureStderr();
  const auto work = [lasting] {
    const SlowPhase phase("timing kernels");
    std::this_thread::sleep_for(lasting);
  };
  if (is_quiet) {
    const QuietScope quiet;
    work();
  } else {
    work();
  }
  return testing::internal::GetCapturedStderr();
}

TEST(SlowPhaseTest, ItsNameIsSaidOnceItHasLastedASecond) {
  EXPECT_EQ(SaidIn(std::chrono::milliseconds(1300), false), "timing kernels ...\n");
}

TEST(SlowPhaseTest, AShortOneSaysNothing) { EXPECT_EQ(SaidIn(std::chrono::milliseconds(5), false), ""); }

TEST(SlowPhaseTest, AQuietThreadsPhaseIsQuietToo) { EXPECT_EQ(SaidIn(std::chrono::milliseconds(1100), true), ""); }

}  // namespace
}  // namespace moka
