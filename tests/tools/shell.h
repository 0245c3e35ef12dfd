// A shell line run by a test of the binary, and what came of it.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/file.h"
#include "core/text.h"

namespace moka {

struct Outcome {
  int code = 0;  // -1: ended by a signal
  std::string out;
  std::string err;
};

// Runs the line, written by a test and never a user's, with its output in files of the folder. `input`: a file.
inline Outcome RunShell(const std::string& line, const std::filesystem::path& folder,
                        const std::string& input = "/dev/null") {
  const std::string out = (folder / "out.txt").string();
  const std::string err = (folder / "err.txt").string();
  const int status = std::system(StrCat(line, " >'", out, "' 2>'", err, "' <'", input, "'").c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, ReadFile(out), ReadFile(err)};
}

}  // namespace moka
