// Tier "fast": outputs on a fixed batch with fixed weights, and the deployed net beside the test net.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/error.h"
#include "core/text.h"
#include "tools/zoo/checks.h"

namespace moka {
namespace {

constexpr double kDeployTolerance = 1e-4;  // of the largest value: programs may fuse and order sums otherwise

// The test net over made-up data, its batch, and weights.
struct ForwardSetup {
  explicit ForwardSetup(const ZooEntry& entry) : test(MadeTest(entry)), batch(MadeUpBatch(test)) {
    FillStore(BuildAsIs(test), store);
  }
  static NetParameter MadeTest(const ZooEntry& entry) {
    const RecipeNets recipe = ReadRecipe(entry, entry.card.recipe(0), OverridesOf(entry));
    if (recipe.nets.tests.empty()) throw Error(ErrorKind::kConfig, StrCat(entry.name, " has no test net"));
    return WithMadeUpData(recipe.nets.tests[0], entry.card.check(), entry.card.check().batch());
  }
  static std::vector<std::string> OverridesOf(const ZooEntry& entry) {
    return {entry.card.check().override().begin(), entry.card.check().override().end()};
  }

  NetParameter test;
  Blobs batch;
  ParameterStore store;
};

void AddOutputs(const std::string& net_name, const NetParameter& net, ForwardSetup& setup,
                std::vector<ExpectedOutput>& outputs) {
  BuiltNet built = BuildAsIs(net);
  std::vector<std::string> names;
  for (const BuiltNet::Output& output : built.outputs) names.push_back(output.name);
  const Blobs found = RunOnce(std::move(built), setup.batch, names, setup.store);
  for (const std::string& name : names) outputs.push_back({net_name, name, SummaryOf(found.at(name))});
}

// Weights that inference has and training lacks would be of its filler.
std::vector<std::string> Unlearned(const BuiltNet& deployed, const ParameterStore& store) {
  std::vector<std::string> names;
  for (const NetBlob& blob : deployed.blobs) {
    if (!store.Has(blob.name)) names.push_back(blob.name);
  }
  return names;
}

double LargestOf(const std::vector<float>& values) {
  double largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(static_cast<double>(value)));
  return largest;
}

// "conv1: 0.5 at 3, expected 0.25"; empty where the blobs are equal but for rounding.
std::string DeployDifference(const std::string& name, const BlobValues& test, const BlobValues& deployed) {
  if (test.values.size() != deployed.values.size()) {
    return StrCat(name, ": ", deployed.shape.ToString(), " deployed, ", test.shape.ToString(), " in the test net");
  }
  const double allowed = kDeployTolerance * std::max(LargestOf(test.values), 1e-12);
  for (size_t i = 0; i < test.values.size(); ++i) {
    const double a = static_cast<double>(test.values[i]);
    const double b = static_cast<double>(deployed.values[i]);
    if (std::abs(a - b) <= allowed) continue;  // not for NaN
    return fmt::format("{}: {:.6g} deployed, {:.6g} in the test net, at {}", name, b, a, i);
  }
  return {};
}

}  // namespace

std::vector<ExpectedOutput> MeasureOutputs(const ZooEntry& entry) {
  ForwardSetup setup(entry);
  std::vector<ExpectedOutput> outputs;
  AddOutputs("test", setup.test, setup, outputs);
  if (SkipOf(entry, "deploy") == nullptr) AddOutputs("deploy", DeployedNet(entry, setup.test), setup, outputs);
  return outputs;
}

std::vector<CheckResult> CheckForward(const CheckContext& context) {
  if (!context.expected || context.expected->outputs.empty())
    return {Fails("forward", StrCat(kExpectedFile, " has no outputs (--update writes them)"))};
  const std::vector<ExpectedOutput> found = MeasureOutputs(context.entry);
  std::vector<std::string> wrong;
  std::set<std::string> names;
  for (const ExpectedOutput& output : found) {
    const std::string name = StrCat(output.net, " ", output.blob);
    names.insert(name);
    if (!std::isfinite(output.summary.mean) || !std::isfinite(output.summary.deviation))
      wrong.push_back(StrCat(name, " is not finite"));
    const auto expected = std::ranges::find_if(context.expected->outputs, [&](const ExpectedOutput& each) {
      return each.net == output.net && each.blob == output.blob;
    });
    if (expected == context.expected->outputs.end()) {
      wrong.push_back(StrCat(name, " is not in ", kExpectedFile));
    } else if (const std::string difference = Difference(expected->summary, output.summary); !difference.empty()) {
      wrong.push_back(StrCat(name, ": ", difference));
    }
  }
  for (const ExpectedOutput& expected : context.expected->outputs) {
    if (!names.contains(StrCat(expected.net, " ", expected.blob)))
      wrong.push_back(StrCat("output ", expected.net, " ", expected.blob, " is gone"));
  }
  if (!wrong.empty()) return {Fails("forward", Join(wrong, "; "))};
  return {Holds("forward", StrCat(found.size(), " outputs are as expected"))};
}

std::vector<CheckResult> CheckDeployed(const CheckContext& context) {
  ForwardSetup setup(context.entry);
  BuiltNet test = BuildAsIs(setup.test);
  BuiltNet deployed = BuildAsIs(DeployedNet(context.entry, setup.test));
  const std::vector<std::string> unlearned = Unlearned(deployed, setup.store);
  if (!unlearned.empty()) return {Fails("deploy", StrCat("the test net does not have ", Join(unlearned, ", ")))};
  const std::vector<std::string> common = CommonBlobs(deployed, test);
  const Blobs of_test = RunOnce(std::move(test), setup.batch, common, setup.store);
  const Blobs of_deployed = RunOnce(std::move(deployed), setup.batch, common, setup.store);
  std::vector<std::string> wrong;
  for (const std::string& name : common) {
    const std::string difference = DeployDifference(name, of_test.at(name), of_deployed.at(name));
    if (!difference.empty()) wrong.push_back(difference);
  }
  if (!wrong.empty()) return {Fails("deploy", Join(wrong, "; "))};
  return {Holds("deploy", StrCat(Join(common, ", "), " as in the test net"))};
}

}  // namespace moka
