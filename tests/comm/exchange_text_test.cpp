// The text that --explain=comm prints.
#include "comm/exchange/exchange_text.h"

#include <gtest/gtest.h>

namespace moka {
namespace {

TEST(ExchangeText, HasPredictedAndMeasuredTimesOfEachBucketAndTheCosts) {
  const FusionInput input{.gradients = {{"ip2#0", 40, 0.001}, {"ip2#1", 20'000, 0.001}, {"conv1#2", 2000, 0.0125}},
                          .backward_s = 0.0125};
  CostTable costs;
  costs.Add("direct", CostCurve({{1024, 2e-4}, {4096, 5e-4}, {20'480, 2.1e-3}}));
  costs.Add("ring", CostCurve({{1024, 4e-4}, {4096, 5e-4}}));
  FusionPlan plan{
      .planner = "optimal",
      .buckets = {{.first = 0, .count = 2, .bytes = 20'040, .algorithm = "direct", .begin_s = 0.001, .end_s = 0.003},
                  {.first = 2, .count = 1, .bytes = 2000, .algorithm = "ring", .begin_s = 0.0125, .end_s = 0.0129}},
      .exposed_s = 0.0004};
  plan.gradients_hash = HashOf(input.gradients);
  const std::string predicted = ExplainExchange({.plan = plan, .input = input, .costs = {}});
  EXPECT_EQ(predicted,
            "fusion \"optimal\": 3 gradients in 2 buckets; ms from the first gradient of an iteration on, predicted\n"
            "bucket  gradients     bytes  algorithm   ready   begin     end  takes  layers, as the backward pass ends "
            "them\n"
            "     0          2  19.6 KiB  direct      1.000   1.000   3.000  2.000  ip2\n"
            "     1          1  1.95 KiB  ring       12.500  12.500  12.900  0.400  conv1\n"
            "backward pass 12.500 ms; exposed communication 0.400 ms predicted\n");
  const std::string both = ExplainExchange({.plan = plan,
                                            .input = input,
                                            .costs = costs,
                                            .times = {{0.0011, 0.0012, 0.0042}, {0.0130, 0.0131, 0.0136}},
                                            .iterations = 40,
                                            .exposed_s = 0.00072});
  EXPECT_NE(both.find("| measured over 40 iterations"), std::string::npos) << both;
  EXPECT_NE(both.find("2.000  |   1.100   1.200   4.200  3.000  ip2\n"), std::string::npos) << both;
  EXPECT_NE(both.find("0.400 ms predicted; exposed 0.720 ms measured, with the wait for other ranks\n"),
            std::string::npos);
  EXPECT_NE(both.find("all-reduce  direct   ring\n"
                      "  1.00 KiB   0.200  0.400\n"
                      "  4.00 KiB   0.500  0.500\n"
                      "  20.0 KiB   2.100      -\n"),
            std::string::npos)
      << both;
  // 100 us and 0.0976 us a byte go through all three points.
  EXPECT_NE(both.find("fit of direct: 100.0 us + 97.656 ns a byte (R^2 1.000)\n"), std::string::npos) << both;
}

}  // namespace
}  // namespace moka
