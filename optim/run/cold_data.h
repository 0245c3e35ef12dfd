// The data of a training as they lie on disk, with none of their pages in the system's cache: what MLPerf wants before
// a run, as a second run over warm files is faster than the first.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "proto/nets/solver_file.h"

namespace moka {

struct ColdData {
  bool is_cold = false;  // no page of any file is in memory
  int64_t files = 0;
  int64_t bytes = 0;
  std::string why{};  // else
  int64_t at_ms = 0;  // since 1970, behind it
};

// Drops the pages of all files that the data layers of these nets name from the system's cache, and looks whether they
// are gone. To be called before a net is built: pages that are mapped stay.
ColdData DropDataPages(const SolverNets& nets, const std::filesystem::path& base_folder);

}  // namespace moka
