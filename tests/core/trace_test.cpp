// The JSON of traces: spans, lanes, dropped counts, and the common clock.
#include "core/trace.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

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

TEST(TraceTest, NamesMayGoBeforeTheTraceIsWritten) {
  const auto path = std::filesystem::temp_directory_path() / ("moka_names_" + std::to_string(getpid()) + ".json");
  StartTrace();
  for (const std::string part : {"one", "two", "one"}) {
    std::string name = "a step's name of some length, " + part;
    TraceSpan(name, std::string("kernel"), 10, 20);
    name.assign(name.size(), '?');
  }
  StopTrace(path);
  const std::string json = ReadFile(path);
  EXPECT_EQ(json.find('?'), std::string::npos) << json;
  EXPECT_NE(json.find("\"name\":\"a step's name of some length, two\""), std::string::npos) << json;
  std::filesystem::remove(path);
}

TEST(TraceTest, ARanksTimesAreOnTheCommonClockAndItsLanesHaveNames) {
  const auto path = std::filesystem::temp_directory_path() / ("moka_trace_rank_" + std::to_string(getpid()) + ".json");
  StartTrace(10);
  NameTraceLane("network", 7);
  // As scopes end: the inner one first, also where both have the same time.
  TraceSpan("inner", "test", 110, 120, 3);
  TraceSpan("outer", "test", 100, 150, 3);
  TraceSpan("same, within", "test", 200, 210, 3);
  TraceSpan("same", "test", 200, 210, 3);
  TraceSpan("bucket", "collective", 105, 125, 7);
  StopTrace(path, {.rank = 2,
                   .ranks = 4,
                   .name = "rank 2 on node7",
                   .before = {.at_micros = 0, .micros = 1000, .error_micros = 5},
                   .after = {.at_micros = 1000, .micros = 2000, .error_micros = 9}});
  const std::string json = ReadFile(path);
  std::filesystem::remove(path);
  EXPECT_NE(json.find("\"rank\":2,\"ranks\":4,\"clock_offset_us\":2000,\"clock_error_us\":9"), std::string::npos)
      << json;
  EXPECT_NE(json.find("\"pid\":3,\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"rank 2 on node7\"}"),
            std::string::npos)
      << json;
  EXPECT_NE(json.find("\"tid\":7,\"name\":\"thread_name\",\"args\":{\"name\":\"network\"}"), std::string::npos) << json;
  const std::vector<std::string> order = {"\"ts\":1200,\"dur\":50,\"cat\":\"test\",\"name\":\"outer\"",
                                          "\"ts\":1220,\"dur\":10,\"cat\":\"test\",\"name\":\"inner\"",
                                          "\"ts\":1400,\"dur\":10,\"cat\":\"test\",\"name\":\"same\"",
                                          "\"ts\":1400,\"dur\":10,\"cat\":\"test\",\"name\":\"same, within\"",
                                          "\"ts\":1210,\"dur\":20,\"cat\":\"collective\",\"name\":\"bucket\""};
  size_t at = 0;
  for (const std::string& span : order) {
    const size_t found = json.find(span, at);
    ASSERT_NE(found, std::string::npos) << span << "\n" << json;
    at = found;
  }
}

}  // namespace
}  // namespace moka
