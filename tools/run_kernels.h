// The kernels a run chose, in its folder: config/kernels.tsv. They come before the times of the user's cache, so a
// resumed run goes on bit for bit whatever became of those. The first line says how the run chooses and carries a
// checksum of the rest, which are lines of graph/kernel_search.h:
//
//   # moka kernels 1 fastest crc32c 0a1b2c3d       (or: listed, and no lines)
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "optim/run_folder.h"
#include "tools/program_options.h"
#include "tools/train_setup.h"

namespace moka {

struct RunKernels {
  bool is_listed = false;  // --kernels=listed: the first of the list is taken, nothing is timed
  std::string times{};     // what KernelSearch::Used() gave
};

// Nothing if the run kept none. Errors: kBadData if the file is damaged.
std::optional<RunKernels> ReadRunKernels(const std::filesystem::path& run_folder);
// Writes what the programs compiled with these options chose. Errors: kCantCreate, kIo.
void WriteRunKernels(const RunFolder& run, const CompileOptions& options);

// The compile options of a training: those of the flags, and for a run that goes on from a checkpoint its own choice
// of kernels, unless --kernels asks for another, which is said. Errors: those of CompileOptionsOf and ReadRunKernels.
CompileOptions CompileOptionsOfRun(const Arguments& arguments, const TrainSetup& setup);

}  // namespace moka
