#include "core/trace.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "core/file.h"

namespace moka {
namespace {

TEST(TraceTest, WritesSpansAndCountsWhatDidNotFit) {
  const auto path = std::filesystem::temp_directory_path() / ("moka_trace_" + std::to_string(getpid()) + ".json");
  EXPECT_FALSE(TraceIsOn());
  StartTrace(3);
  TraceSpan("conv1", "convolution", 10, 25);
  TraceSpan("bucket 0", "network", 25, 30, 7);
  { const ScopedSpan span("say \"hi\"", "test"); }
  TraceSpan("lost", "test", 0, 1);
  StopTrace(path);
  EXPECT_FALSE(TraceIsOn());
  const std::string json = ReadFile(path);
  EXPECT_NE(json.find("\"ts\":10,\"dur\":15,\"cat\":\"convolution\",\"name\":\"conv1\""), std::string::npos) << json;
  EXPECT_NE(json.find("\"tid\":7,\"ts\":25,\"dur\":5,\"cat\":\"network\",\"name\":\"bucket 0\""), std::string::npos)
      << json;
  EXPECT_NE(json.find("\"name\":\"say \\\"hi\\\"\""), std::string::npos);
  EXPECT_NE(json.find("\"dropped_spans\":1"), std::string::npos);
  EXPECT_EQ(json.find("lost"), std::string::npos);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace moka
