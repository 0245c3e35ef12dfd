// The checks of `moka zoo verify` in tiers, each a row; an entry passes when none fails.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/zoo/entry.h"
#include "tools/zoo/expected.h"

namespace moka {

// Each takes in those before it. static: seconds for all entries, nothing is computed. fast: made-up data, an entry
// takes seconds. nightly: minutes of training on the real data. release: the whole recipe.
enum class Tier : uint8_t { kStatic, kFast, kNightly, kRelease };
// Errors: kUsage with the nearest name.
Tier TierNamed(const std::string& name);
std::string_view TierName(Tier tier);

enum class CheckVerdict : uint8_t { kHolds, kFails, kSkipped };

struct CheckResult {
  std::string check;
  CheckVerdict verdict = CheckVerdict::kHolds;
  std::string text;  // what was found
};

// Whether the card says that a check says nothing of this entry.
const ZooSkip* SkipOf(const ZooEntry& entry, std::string_view check);

// The facts that the checks of one entry share.
struct CheckContext {
  ZooEntry entry;
  std::optional<Expected> expected;  // of the file, or what --update has just measured
  std::filesystem::path runs;        // where trainings of the tiers nightly and release go
};

struct EntryCheck {
  std::vector<std::string> names;  // of its results
  Tier tier;
  std::string_view doc;  // what holds, one line
  // Errors are failures of the check.
  std::vector<CheckResult> (*run)(const CheckContext&);
};

// In the order in which they are made.
const std::vector<EntryCheck>& AllEntryChecks();

// One line of what holds, or of what does not.
CheckResult Holds(std::string_view check, std::string text);
CheckResult Fails(std::string_view check, std::string text);
CheckResult Skipped(std::string_view check, std::string text);

// Everything of expected.json, measured; with what the fast tier computes if `with_runs`, else that is `before`'s.
Expected Measure(const ZooEntry& entry, const std::optional<Expected>& before, bool with_runs);

// The checks themselves (static_checks.cpp, weights_checks.cpp, forward_checks.cpp, gradient_check.cpp,
// training_checks.cpp, run_checks.cpp). Those of weights have no result where an entry carries none.
std::vector<CheckResult> CheckCard(const CheckContext& context);
std::vector<CheckResult> CheckNets(const CheckContext& context);
std::vector<CheckResult> CheckCounts(const CheckContext& context);
std::vector<CheckResult> CheckReadme(const CheckContext& context);
std::vector<CheckResult> CheckWeights(const CheckContext& context);
std::vector<CheckResult> CheckForward(const CheckContext& context);
std::vector<CheckResult> CheckDeployed(const CheckContext& context);
std::vector<CheckResult> CheckGradient(const CheckContext& context);
std::vector<CheckResult> CheckTraining(const CheckContext& context);
std::vector<CheckResult> CheckMemory(const CheckContext& context);
std::vector<CheckResult> CheckMetric(const CheckContext& context);
std::vector<CheckResult> CheckShortRun(const CheckContext& context);
std::vector<CheckResult> CheckRecipe(const CheckContext& context);

// These measure what the checks compare.
void MeasureCounts(const ZooEntry& entry, Expected& expected);
std::vector<ExpectedOutput> MeasureOutputs(const ZooEntry& entry);
struct TrainingFound {
  ExpectedTraining training;
  std::vector<double> losses;
  std::string difference;  // between the training and one resumed in its middle; empty: bit for bit the same
};
TrainingFound TrainOnMadeUpData(const ZooEntry& entry);
ExpectedMemory MeasureMemory(const ZooEntry& entry);

// Data of a recipe's nets that is not there, a sentence each.
std::vector<std::string> MissingData(const RecipeNets& recipe);
// Lines that make the databases of the card's data sets, scripts by the place where they lie beside the models.
std::vector<std::string> DataCommands(const ZooEntry& entry);
// `moka train` with these words. Returns its exit code. Errors: as there.
int RunTraining(const std::vector<std::string>& words);

}  // namespace moka
