#include "core/trace.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "core/file.h"

namespace moka {
namespace {

TEST(TraceTest, WritesSpansAndCountsWhatDidNotFit) {
  const auto path = std::filesystem::temp_directory_path() / ("moka_trace_" + std::to_string(getpid()) + ".json");
  EXPECT_FALSE(TraceIsOn());
  StartTrace(2);
  TraceSpan("conv1", "convolution", 10, 25);
  { const ScopedSpan span("say \"hi\"", "test"); }
  TraceSpan("lost", "test", 0, 1);
  StopTrace(path);
  EXPECT_FALSE(TraceIsOn());
  const std::string json = ReadFile(path);
  EXPECT_NE(json.find("\"ts\":10,\"dur\":15,\"cat\":\"convolution\",\"name\":\"conv1\""), std::string::npos) << json;
  EXPECT_NE(json.find("\"name\":\"say \\\"hi\\\"\""), std::string::npos);
  EXPECT_NE(json.find("\"dropped_spans\":1"), std::string::npos);
  EXPECT_EQ(json.find("lost"), std::string::npos);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace moka
