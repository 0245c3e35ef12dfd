// The facts of this process change as it takes memory, files, threads and time.
#include "tools/serve/process_facts.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <vector>

namespace moka {
namespace {

TEST(ProcessFactsTest, CountsWhatThisProcessHas) {
  const ProcessFacts before = ProcessFactsNow();
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  EXPECT_GT(before.start_seconds, now - 3600);
  EXPECT_LT(before.start_seconds, now + 2);
  EXPECT_GT(before.most_files, before.open_files);
  constexpr size_t kBytes = size_t{32} << 20;
  std::vector<char> memory(kBytes, 'a');
  const int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
  std::thread other([&] {
    volatile double sum = 0;
    for (const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
         std::chrono::steady_clock::now() < end;)
      sum = sum + memory[kBytes / 2];
  });
  const ProcessFacts meanwhile = ProcessFactsNow();
  other.join();
  const ProcessFacts after = ProcessFactsNow();
  close(file);
  EXPECT_EQ(meanwhile.threads, before.threads + 1);
  EXPECT_EQ(after.open_files, before.open_files + 1);
  EXPECT_GT(after.resident_bytes, before.resident_bytes + static_cast<int64_t>(kBytes / 2));
  EXPECT_GT(after.virtual_bytes, after.resident_bytes);
  EXPECT_GT(after.cpu_seconds, before.cpu_seconds);
}

}  // namespace
}  // namespace moka
