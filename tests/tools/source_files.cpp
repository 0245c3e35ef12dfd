// Reads the files once a program: each structure test walks all of them.
#include "tests/tools/source_files.h"

#include <algorithm>
#include <fstream>
#include <regex>

namespace moka::testing {
namespace fs = std::filesystem;

std::vector<SourceFile> SourcesIn(const std::vector<std::string>& folders) {
  std::vector<SourceFile> files;
  for (const std::string& room : folders) {
    for (const fs::path& path : FilesOf(room)) {
      const std::string extension = path.extension().string();
      const bool is_header = extension == ".h" || extension == ".cuh";
      if (!is_header && extension != ".cpp" && extension != ".cu") continue;
      files.push_back({room, path.string(), LinesOf(path), is_header});
    }
  }
  std::ranges::sort(files, {}, &SourceFile::path);
  return files;
}

const std::vector<std::string>& Rooms() {
  static const std::vector<std::string> rooms = {"core", "proto", "graph", "layers", "data", "comm", "optim", "tools"};
  return rooms;
}

std::vector<std::string> FoldersWithPages() {
  std::vector<std::string> folders = Rooms();
  for (const char* folder : {"models", "tests"}) folders.emplace_back(folder);
  return folders;
}

bool IsOfUsers(const fs::path& folder) {
  if (folder.parent_path() != "data") return false;
  return std::ranges::none_of(fs::directory_iterator(MOKA_SOURCE_DIR / folder), [](const fs::directory_entry& each) {
    const std::string extension = each.path().extension().string();
    return extension == ".cpp" || extension == ".h";
  });
}

std::vector<fs::path> FilesOf(const std::string& folder) {
  const fs::path root = MOKA_SOURCE_DIR;
  std::vector<fs::path> files;
  for (auto it = fs::recursive_directory_iterator(root / folder); it != fs::recursive_directory_iterator(); ++it) {
    const fs::path path = it->path().lexically_relative(root);
    if (it->is_directory() && IsOfUsers(path)) it.disable_recursion_pending();
    if (it->is_regular_file()) files.push_back(path);
  }
  std::ranges::sort(files);
  return files;
}

std::vector<std::string> LinesOf(const fs::path& path) {
  std::ifstream stream(MOKA_SOURCE_DIR / path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<ProseLine> ProseOf(const fs::path& page) {
  std::vector<ProseLine> prose;
  size_t number = 0;
  bool is_code = false;
  for (const std::string& line : LinesOf(page)) {
    ++number;
    const bool is_fence = line.starts_with("```");
    is_code = is_code != is_fence;
    if (!is_code && !is_fence) prose.push_back({number, line});
  }
  return prose;
}

const std::vector<SourceFile>& AllSources() {
  static const std::vector<SourceFile> files = SourcesIn(Rooms());
  return files;
}

std::string Included(const std::string& line) {
  static const std::regex pattern(R"re(^\s*#\s*include\s*[<"]([^>"]+)[>"])re");
  std::smatch match;
  return std::regex_search(line, match, pattern) ? match[1].str() : std::string();
}

}  // namespace moka::testing
