// The table of checks and their tiers, and the joins that all share.
#include "tools/zoo/checks.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

constexpr std::array<std::pair<Tier, std::string_view>, 4> kTiers = {
    {{Tier::kStatic, "static"}, {Tier::kFast, "fast"}, {Tier::kNightly, "nightly"}, {Tier::kRelease, "release"}}};

}  // namespace

Tier TierNamed(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& [tier, own] : kTiers) {
    if (own == name) return tier;
    names.emplace_back(own);
  }
  throw Error(ErrorKind::kUsage, {}, StrCat("--tier is one of ", Join(names, ", "), ", not \"", Printable(name), "\""),
              DidYouMean(name, names));
}

std::string_view TierName(Tier tier) {
  return std::ranges::find(kTiers, tier, &std::pair<Tier, std::string_view>::first)->second;
}

const std::vector<EntryCheck>& AllEntryChecks() {
  static const std::vector<EntryCheck> checks = {
      {{"card"}, Tier::kStatic, "the card parses and says what an entry must say", CheckCard},
      {{"nets"}, Tier::kStatic, "solvers read, nets build in each phase with the same weights", CheckNets},
      {{"counts"}, Tier::kStatic, "parameters, statistics and multiply-adds are the card's", CheckCounts},
      {{"readme"}, Tier::kStatic, "the README's table is made of the card", CheckReadme},
      {{"weights"}, Tier::kStatic, "the weights in the folder are the card's, and its nets take them", CheckWeights},
      {{"forward"}, Tier::kFast, "outputs on a fixed batch with fixed weights are as expected", CheckForward},
      {{"deploy"}, Tier::kFast, "the deployed net computes what the test net does", CheckDeployed},
      {{"gradient"}, Tier::kFast, "the gradient is the derivative of the loss, by differences along it", CheckGradient},
      {{"training", "resume"},
       Tier::kFast,
       "steps on made-up data lower the loss; saved, loaded and resumed they are the same bit for bit",
       CheckTraining},
      {{"memory"}, Tier::kNightly, "a training step of the recipe is planned in the memory expected", CheckMemory},
      {{"metric"}, Tier::kNightly, "those weights reach the card's metric on the real data", CheckMetric},
      {{"short_run"}, Tier::kNightly, "a short training on the real data reaches its floor", CheckShortRun},
      {{"recipe"}, Tier::kRelease, "the recipe on the real data reaches its floor", CheckRecipe},
  };
  return checks;
}

CheckResult Holds(std::string_view check, std::string text) {
  return {std::string(check), CheckVerdict::kHolds, std::move(text)};
}
CheckResult Fails(std::string_view check, std::string text) {
  return {std::string(check), CheckVerdict::kFails, std::move(text)};
}
CheckResult Skipped(std::string_view check, std::string text) {
  return {std::string(check), CheckVerdict::kSkipped, std::move(text)};
}

const ZooSkip* SkipOf(const ZooEntry& entry, std::string_view check) {
  const auto& skips = entry.card.check().skip();
  const auto found = std::ranges::find_if(skips, [&](const ZooSkip& skip) { return skip.check() == check; });
  return found == skips.end() ? nullptr : &*found;
}

Expected Measure(const ZooEntry& entry, const std::optional<Expected>& before, bool with_runs) {
  Expected expected = before.value_or(Expected{});
  MeasureCounts(entry, expected);
  if (!with_runs) return expected;
  expected.outputs = MeasureOutputs(entry);
  expected.training.reset();
  if (SkipOf(entry, "training") == nullptr) expected.training = TrainOnMadeUpData(entry).training;
  expected.memory = MeasureMemory(entry);
  return expected;
}

}  // namespace moka
