// The kernels a run chose, in its folder: config/kernels.tsv. They come before the times of the user's cache, so a
// resumed run goes on bit for bit whatever became of those. The first line says how the run chooses and carries a
// checksum of the rest, which are lines of graph/kernel_search.h:
//
//   # moka kernels 1 fastest crc32c 0a1b2c3d       (by times or a rule; or: listed, and no times)
//   # disable-kernel winograd,onednn_winograd      (each flag that the run was started with and that changes kernels)
//   # choice cudnn-1f8b.plan 6675                  (what a GPU's libraries compute by: core/choices.h)
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include "core/choices.h"
#include "optim/run/run_folder.h"
#include "tools/train/program_options.h"
#include "tools/train/train_setup.h"

namespace moka {

struct RunKernels {
  bool is_listed = false;  // --kernels=listed: the first of the list is taken, nothing is timed
  std::string times{};     // what KernelSearch::Used() gave
  // The names given to --disable-kernel, --prefer-kernel and --disable-pass.
  std::set<std::string> disabled_kernels{};
  std::set<std::string> preferred_kernels{};
  std::set<std::string> disabled_passes{};
  Choices choices{};
};

// Nothing if the run kept none. Errors: kBadData if the file is damaged.
std::optional<RunKernels> ReadRunKernels(const std::filesystem::path& run_folder);
// Writes what the programs compiled with these options chose. Errors: kCantCreate, kIo.
void WriteRunKernels(const RunFolder& run, const CompileOptions& options);

// The compile options of a training: those of the flags, and for a run that goes on from a checkpoint its own choice
// of kernels, unless --kernels or a flag that names kernels or passes asks for another, which is said. Errors: those of
// CompileOptionsOf and ReadRunKernels.
CompileOptions CompileOptionsOfRun(const Arguments& arguments, const TrainSetup& setup);

}  // namespace moka
