// Reads the files once a program: each structure test walks all of them.
#include "tests/tools/source_files.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>

namespace moka::testing {
namespace fs = std::filesystem;

namespace {

std::vector<SourceFile> ReadSources() {
  std::vector<SourceFile> files;
  const fs::path root = MOKA_SOURCE_DIR;
  for (const std::string room : {"core", "proto", "graph", "layers", "data", "comm", "optim", "tools"}) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / room)) {
      const std::string extension = entry.path().extension().string();
      const bool is_header = extension == ".h" || extension == ".cuh";
      if (!is_header && extension != ".cpp" && extension != ".cu") continue;
      SourceFile file{room, fs::relative(entry.path(), root).string(), {}, is_header};
      std::ifstream stream(entry.path());
      for (std::string line; std::getline(stream, line);) file.lines.push_back(line);
      files.push_back(std::move(file));
    }
  }
  std::ranges::sort(files, {}, &SourceFile::path);
  return files;
}

}  // namespace

const std::vector<SourceFile>& AllSources() {
  static const std::vector<SourceFile> files = ReadSources();
  return files;
}

std::string Included(const std::string& line) {
  static const std::regex pattern(R"re(^\s*#\s*include\s*[<"]([^>"]+)[>"])re");
  std::smatch match;
  return std::regex_search(line, match, pattern) ? match[1].str() : std::string();
}

}  // namespace moka::testing
