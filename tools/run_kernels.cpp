#include "tools/run_kernels.h"

#include <fmt/format.h>

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
constexpr int64_t kLimitBytes = int64_t{64} << 20;

std::string Head(const RunKernels& kernels) {
  return fmt::format("# moka kernels 1 {} crc32c {:08x}", kernels.is_listed ? "listed" : "fastest",
                     Crc32c(kernels.times));
}

}  // namespace

std::optional<RunKernels> ReadRunKernels(const fs::path& run_folder) {
  const fs::path path = run_folder / "config" / kName;
  std::error_code code;
  if (!fs::exists(path, code)) return std::nullopt;
  const std::string text = ReadFile(path, kLimitBytes);
  const size_t end = text.find('\n');
  if (end != std::string::npos) {
    for (const bool is_listed : {false, true}) {
      RunKernels kernels{.is_listed = is_listed, .times = text.substr(end + 1)};
      if (text.compare(0, end, Head(kernels)) == 0) return kernels;
    }
  }
  throw Error(ErrorKind::kBadData, {},
              StrCat(path.string(), " is damaged: its checksum does not fit the kernels it names"),
              "with the file removed, kernels are chosen anew and the run may not go on bit for bit");
}

void WriteRunKernels(const RunFolder& run, const CompileOptions& options) {
  RunKernels kernels;
  kernels.is_listed = options.search == nullptr;
  if (options.search != nullptr) kernels.times = options.search->Used();
  run.WriteConfig(kName, StrCat(Head(kernels), "\n", kernels.times));
}

CompileOptions CompileOptionsOfRun(const Arguments& arguments, const TrainSetup& setup) {
  const KernelMode usual = LooksInside(arguments) ? KernelMode::kKnown : KernelMode::kFastest;
  if (!setup.resume) return CompileOptionsOf(arguments, usual);
  const std::optional<RunKernels> kept = ReadRunKernels(setup.run_folder);
  if (!kept) {
    LogWarning(StrCat(setup.run_folder.string(),
                      " did not keep its kernels: they are chosen as for a new run, which may change the last bits"));
    return CompileOptionsOf(arguments, usual);
  }
  const KernelMode mode = KernelModeOf(arguments, kept->is_listed ? KernelMode::kListed : usual);
  if (mode == KernelMode::kRenew || (mode == KernelMode::kListed) != kept->is_listed) {
    LogWarning(StrCat("--kernels=", arguments.Get("kernels"),
                      " chooses other kernels than the run did: it may not go on bit for bit"));
    return CompileOptionsOf(arguments, mode);
  }
  return CompileOptionsOf(arguments, mode, kept->times);
}

}  // namespace moka
