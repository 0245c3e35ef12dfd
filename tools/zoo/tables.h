// Tables made of cards and expected.json: those in READMEs, and what `moka zoo list` and `info` print. None is typed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/zoo/entry.h"
#include "tools/zoo/expected.h"

namespace moka {

// An entry with what was measured of it.
struct ZooRow {
  ZooEntry entry;
  std::optional<Expected> expected;
};

// The mean of a recipe's results, their sample standard deviation (0 for one) and how many there are.
struct MetricSummary {
  double mean = 0;
  double spread = 0;
  int count = 0;
};
MetricSummary SummaryOf(const ZooRecipe& recipe);
// "accuracy 83.95 ± 0.17 % (2 seeds)"; empty without results.
std::string MetricText(const ZooRecipe& recipe);

// Returns the steps that the net's test data go through, by its transform_param: "B,G,R; minus 104, 117, 123; centre
// crop 227x227".
std::string PreprocessingOf(const NetParameter& test);

// Markdown of models/NAME/README.md: facts, recipes with results, what others published, deviations.
std::string EntryTable(const ZooRow& row);
// Markdown of models/README.md: a line an entry.
std::string ZooTable(const std::vector<ZooRow>& rows);
// For a terminal.
std::string ListText(const std::vector<ZooRow>& rows);
std::string InfoText(const ZooRow& row);
// One JSON object an entry, a key a fact.
std::string RowJson(const ZooRow& row);
// The card in full and expected.json's numbers.
std::string InfoJson(const ZooRow& row);

inline constexpr std::string_view kTableBegin = "<!-- zoo -->";
inline constexpr std::string_view kTableEnd = "<!-- /zoo -->";
// The text with the table between the two marks. Errors: kBadData naming the file where they do not stand once each, in
// this order.
std::string WithTable(const std::string& text, const std::string& table, const std::string& file);

}  // namespace moka
