// The tables of --explain=comm. They take plain plans and times, so that the simulator prints a plan that never ran in
// the same words.
#include "comm/exchange/exchange_text.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>

#include "core/error.h"
#include "core/text.h"
#include "core/text_table.h"

namespace moka {
namespace {

std::string FixedText(double value, int digits) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

// "ip2 .. conv1": gradients are called LAYER#NUMBER.
std::string LayersOf(const Bucket& bucket, const FusionInput& input) {
  const auto layer = [&](int64_t i) {
    const std::string& name = input.gradients[static_cast<size_t>(i)].name;
    return name.substr(0, name.find('#'));
  };
  const std::string first = layer(bucket.first);
  const std::string last = layer(bucket.first + bucket.count - 1);
  return first == last ? first : StrCat(first, " .. ", last);
}

}  // namespace

std::string ExplainExchange(const ExchangeRecord& record) {
  const FusionPlan& plan = record.plan;
  const FusionInput& input = record.input;
  Require(HashOf(input.gradients) == plan.gradients_hash, "ExplainExchange: the gradients of the plan");
  const bool is_measured = record.times.size() == plan.buckets.size() && record.iterations > 0;
  std::string text = StrCat("fusion \"", plan.planner, "\": ", input.gradients.size(), " gradients in ",
                            plan.buckets.size(), plan.buckets.size() == 1 ? " bucket" : " buckets",
                            "; ms from the first gradient of an iteration on, predicted",
                            is_measured ? StrCat(" | measured over ", record.iterations, " iterations") : "", "\n");
  std::vector<std::vector<std::string>> table = {
      {"bucket", "gradients", "bytes", "algorithm", "ready", "begin", "end", "takes"}};
  const std::string layers = "layers, as the backward pass ends them";
  if (is_measured) table[0].insert(table[0].end(), {"|", "ready", "begin", "end", "takes"});
  table[0].push_back(layers);
  for (size_t b = 0; b < plan.buckets.size(); ++b) {
    const Bucket& bucket = plan.buckets[b];
    const ReadyGradient& last = input.gradients[static_cast<size_t>(bucket.first + bucket.count) - 1];
    std::vector<std::string>& row = table.emplace_back();
    row = {StrCat(b), StrCat(bucket.count), BytesText(bucket.bytes), bucket.algorithm};
    for (const double s : {last.ready_s, bucket.begin_s, bucket.end_s, bucket.end_s - bucket.begin_s}) {
      row.push_back(MillisecondsText(s));
    }
    if (is_measured) {
      row.emplace_back("|");
      const BucketTimes& t = record.times[b];
      for (const double s : {t.ready_s, t.begin_s, t.end_s, t.end_s - t.begin_s}) row.push_back(MillisecondsText(s));
    }
    row.push_back(LayersOf(bucket, input));
  }
  text += TextTable(table, is_measured ? "   l         l" : "   l    l");
  text += StrCat("backward pass ", MillisecondsText(input.backward_s), " ms; exposed communication ",
                 MillisecondsText(plan.exposed_s), " ms predicted");
  if (input.other_s > 0) text += StrCat(", iteration ", MillisecondsText(plan.iteration_s), " ms predicted");
  if (is_measured) {
    text += StrCat("; exposed ", MillisecondsText(record.exposed_s), " ms measured, with the wait for other ranks");
  }
  return text + "\n" + ExplainCosts(record.costs);
}

std::string ExplainCosts(const CostTable& costs) {
  if (costs.empty()) return {};
  std::vector<std::string> head = {"all-reduce"};
  std::map<int64_t, std::vector<std::string>> rows;
  std::vector<std::string> fits;
  const std::vector<std::string> names = costs.algorithms();
  for (const std::string& name : names) {
    head.push_back(name);
    for (const CostPoint& point : costs.Of(name).points()) rows[point.bytes] = {};
    const CostLine line = costs.Of(name).Fit();
    fits.push_back(StrCat(name, ": ", FixedText(line.alpha_s * 1e6, 1), " us + ", FixedText(line.beta_s * 1e9, 3),
                          " ns a byte (R^2 ", FixedText(line.r_squared, 3), ")"));
  }
  for (auto& [bytes, cells] : rows) {
    cells.push_back(BytesText(bytes));
    for (const std::string& name : names) {
      const std::vector<CostPoint>& points = costs.Of(name).points();
      const auto point = std::ranges::find(points, bytes, &CostPoint::bytes);
      cells.push_back(point == points.end() ? "-" : MillisecondsText(point->seconds));
    }
  }
  std::vector<std::vector<std::string>> table = {head};
  for (const auto& [bytes, cells] : rows) table.push_back(cells);
  std::string text = "what all-reduces cost between these ranks (ms):\n" + TextTable(table);
  for (const std::string& fit : fits) text += StrCat("fit of ", fit, "\n");
  return text;
}

}  // namespace moka
