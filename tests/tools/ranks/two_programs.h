// Two ranks under mpirun with a command each. A shell takes the one of its rank: given two programs, the mpirun of Open
// MPI 5.0 crashes.
#pragma once

#include <filesystem>
#include <string>

#include "core/file.h"
#include "core/text.h"

namespace moka {

// Writes the commands beside what they work on, and returns the line of a shell in `folder` that runs them; it ends
// with code 124 where the ranks wait for each other for ever.
inline std::string UnderMpirun(const std::string& first, const std::string& second,
                               const std::filesystem::path& folder) {
  WriteFileAtomically(folder / "ranks.sh", StrCat("if [ \"$OMPI_COMM_WORLD_RANK\" = 0 ]; then\n  exec env ", first,
                                                  "\nelse\n  exec env ", second, "\nfi\n"));
  return "OMP_NUM_THREADS=1 timeout 30 mpirun --oversubscribe --bind-to none -np 2 sh ranks.sh";
}

}  // namespace moka
