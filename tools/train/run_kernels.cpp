// config/kernels.tsv is the search's lines with the flags in its head; it comes before the user's cache when the run is
// resumed.
#include "tools/train/run_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "core/checksum.h"
#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/text.h"
#include "graph/kernel_search.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "kernels.tsv";
constexpr int64_t kKernelsLimitBytes = int64_t{64} << 20;

constexpr std::string_view kMark = "# ";  // before the name of a flag
constexpr std::string_view kChoice = "# choice ";

// A flag of sets of names, where a run keeps it and where a program reads it.
struct NamesFlag {
  const char* name;
  std::set<std::string> RunKernels::*kept;
  std::set<std::string> CompileOptions::*used;
};
constexpr std::array<NamesFlag, 3> kFlags = {{
    {"disable-kernel", &RunKernels::disabled_kernels, &CompileOptions::disabled_kernels},
    {"prefer-kernel", &RunKernels::preferred_kernels, &CompileOptions::preferred_kernels},
    {"disable-pass", &RunKernels::disabled_passes, &CompileOptions::disabled_passes},
}};

std::string ListOf(const std::set<std::string>& names) { return Join({names.begin(), names.end()}, ","); }

std::string Head(bool is_listed, std::string_view rest) {
  return fmt::format("# moka kernels 1 {} crc32c {:08x}", is_listed ? "listed" : "fastest", Crc32c(rest));
}

// Takes the flags' lines from the front.
RunKernels Parsed(bool is_listed, std::string_view rest) {
  RunKernels kernels{.is_listed = is_listed};
  while (rest.starts_with(kMark)) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    for (const NamesFlag& flag : kFlags) {
      const std::string front = StrCat(kMark, flag.name, " ");
      if (!line.starts_with(front)) continue;
      for (const std::string& name : Split(line.substr(front.size()), ',')) (kernels.*flag.kept).insert(name);
    }
    if (line.starts_with(kChoice)) {
      if (auto choice = ChoiceOf(line.substr(kChoice.size()))) kernels.choices.insert(*std::move(choice));
    }
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
  }
  kernels.times = rest;
  return kernels;
}

// The run's flags where none are given; others are said.
void KeepFlags(const Arguments& arguments, const RunKernels& kept, CompileOptions& options) {
  for (const NamesFlag& flag : kFlags) {
    const std::set<std::string>& names = kept.*flag.kept;
    if (!arguments.Has(flag.name)) {
      options.*flag.used = names;
    } else if (options.*flag.used != names) {
      LogWarning(StrCat("--", flag.name, "=", arguments.Get(flag.name), " is not what the run was started with (",
                        names.empty() ? "none" : ListOf(names), "): it may not go on bit for bit"));
    }
  }
}

}  // namespace

std::optional<RunKernels> ReadRunKernels(const fs::path& run_folder) {
  const fs::path path = run_folder / "config" / kName;
  std::error_code code;
  if (!fs::exists(path, code)) return std::nullopt;
  const std::string text = ReadFile(path, kKernelsLimitBytes);
  const size_t end = text.find('\n');
  if (end != std::string::npos) {
    const std::string_view rest = std::string_view(text).substr(end + 1);
    for (const bool is_listed : {false, true}) {
      if (text.compare(0, end, Head(is_listed, rest)) == 0) return Parsed(is_listed, rest);
    }
  }
  throw Error(ErrorKind::kBadData, {},
              StrCat(path.string(), " is damaged: its checksum does not fit the kernels it names"),
              "with the file removed, kernels are chosen anew and the run may not go on bit for bit");
}

void WriteRunKernels(const RunFolder& run, const CompileOptions& options) {
  std::string rest;
  for (const NamesFlag& flag : kFlags) {
    const std::set<std::string>& names = options.*flag.used;
    if (!names.empty()) rest += StrCat(kMark, flag.name, " ", ListOf(names), "\n");
  }
  if (options.search != nullptr) {
    for (const auto& [name, choice] : UsedChoices()) rest += StrCat(kChoice, LineOf(name, choice), "\n");
    rest += options.search->Used();
  }
  run.WriteConfig(kName, StrCat(Head(options.search == nullptr, rest), "\n", rest));
}

CompileOptions CompileOptionsOfRun(const Arguments& arguments, const TrainSetup& setup) {
  // Times choose kernels only where the solver lets results depend on them.
  const KernelMode timed = LooksInside(arguments) ? KernelMode::kKnown : KernelMode::kFastest;
  const KernelMode usual = setup.solver.deterministic() ? KernelMode::kRule : timed;
  if (!setup.resume) return CompileOptionsOf(arguments, usual);
  const std::optional<RunKernels> kept = ReadRunKernels(setup.run_folder);
  if (!kept) {
    LogWarning(StrCat(setup.run_folder.string(),
                      " did not keep its kernels: they are chosen as for a new run, which may change the last bits"));
    return CompileOptionsOf(arguments, usual);
  }
  const KernelMode mode = KernelModeOf(arguments, kept->is_listed ? KernelMode::kListed : usual);
  const bool chooses_anew = mode == KernelMode::kRenew || (mode == KernelMode::kListed) != kept->is_listed;
  if (chooses_anew) {
    LogWarning(StrCat("--kernels=", arguments.Get("kernels"),
                      " chooses other kernels than the run did: it may not go on bit for bit"));
  }
  CompileOptions options = CompileOptionsOf(arguments, mode, chooses_anew ? "" : kept->times);
  KeepFlags(arguments, *kept, options);
  if (!chooses_anew) PreferChoices(kept->choices);
  return options;
}

}  // namespace moka
