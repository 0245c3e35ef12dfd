// moka data whiten: the filler of a net's first convolution that whitens a database's pictures.
#include "core/error.h"
#include "core/text.h"
#include "data/inspect/whitening.h"
#include "tools/cli/command_line.h"
#include "tools/cli/print.h"

namespace moka {
namespace {

std::vector<double> NumbersOfFlag(const Arguments& arguments, const std::string& flag, double low) {
  constexpr double kMost = 1e30;
  std::vector<double> numbers;
  if (!arguments.Has(flag)) return numbers;
  for (const std::string& text : Split(arguments.Get(flag), ',')) {
    numbers.push_back(NumberOfFlag(flag, Trim(text), low, kMost));
  }
  return numbers;
}

std::string Listed(const std::vector<double>& numbers) {
  std::string text;
  for (const double number : numbers) text += fmt::format("{}{:.6g}", text.empty() ? "" : ", ", number);
  return text;
}

int RunWhiten(const Arguments& arguments) {
  constexpr double kLeast = 1e-12;
  const std::string& path = arguments.Word(0, "the database");
  WhiteningOptions options;
  options.kernel = arguments.Int("kernel", options.kernel, 1, 16);
  options.records = arguments.Int("records", options.records, 1, INT64_MAX);
  options.mean = NumbersOfFlag(arguments, "mean", -1e30);
  options.deviation = NumbersOfFlag(arguments, "std", kLeast);
  if (arguments.Has("eps")) options.eps = NumberOfFlag("eps", arguments.Get("eps"), kLeast, 1e30);
  const Whitening whitening = ComputeWhitening(path, options);
  const size_t patch = whitening.variances.size();
  Print("# Whitens {0}x{0} patches of {1} records of {2}: the eigenvectors of their covariance over\n",
        whitening.kernel, whitening.records, Printable(path));
  Print("# sqrt(variance + {:.6g}), then their negatives. Pixels less {} over {}; variances {}.\n", options.eps,
        Listed(whitening.mean), Listed(whitening.deviation), Listed(whitening.variances));
  Print(
      "convolution_param {{\n  num_output: {} kernel_size: {}\n  weight_filler {{\n    type: \"constant\"\n    values: "
      "[\n",
      2 * patch, whitening.kernel);
  for (size_t i = 0; i < 2 * patch; ++i) {
    std::vector<double> filter(whitening.filters.begin() + static_cast<int64_t>((i % patch) * patch),
                               whitening.filters.begin() + static_cast<int64_t>((i % patch + 1) * patch));
    if (i >= patch) {
      for (double& value : filter) value = -value;
    }
    Print("      {}{}\n", Listed(filter), i + 1 < 2 * patch ? "," : "");
  }
  Print("    ]\n  }}\n}}\n");
  return 0;
}

}  // namespace

Verb DataWhitenVerb() {
  Verb verb;
  verb.name = "whiten";
  verb.under = "data";
  verb.summary = "print the filler of a first convolution that whitens the pictures";
  verb.usage = "DATABASE [--flags]";
  verb.examples = {"moka data whiten data/cifar10/train --mean 113.86,122.94,125.28 --std 66.45,61.91,62.53"};
  verb.options = {{"kernel", "N", "side of the patches in pixels (default 2)"},
                  {"mean", "VALUES", "a channel, as the net's transform_param has it (default: the records')"},
                  {"std", "VALUES", "a channel, as the net's transform_param has it (default: the records')"},
                  {"eps", "VALUE", "added to variances before their roots are taken (default 0.0005)"},
                  {"records", "N", "at most, spread evenly over the database (default 5000)"}};
  verb.run = RunWhiten;
  verb.most_words = 1;
  return verb;
}

}  // namespace moka
