// The tree as the tests of structure and prose read it: its folders, files, lines and pages. Paths are relative to the
// repository.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace moka::testing {

struct SourceFile {
  std::string room;
  std::string path;
  std::vector<std::string> lines;
  bool is_header = false;
};

struct ProseLine {
  size_t number = 0;  // counted from 1
  std::string text;
};

// The rooms that the program is made of: core, proto, graph, layers, data, comm, optim and tools.
const std::vector<std::string>& Rooms();
// Those, models and tests: each has a README.md.
std::vector<std::string> FoldersWithPages();

// Whether the folder is a data set of the user, which lies in data/ beside the folders of sources.
bool IsOfUsers(const std::filesystem::path& folder);

// All files below a folder of the top, sorted, without the user's data sets.
std::vector<std::filesystem::path> FilesOf(const std::string& folder);

std::vector<std::string> LinesOf(const std::filesystem::path& path);

// The lines of a page in Markdown without its blocks of code.
std::vector<ProseLine> ProseOf(const std::filesystem::path& page);

// Every header and source below folders of the top, in the order of their paths.
std::vector<SourceFile> SourcesIn(const std::vector<std::string>& folders);
// Those of the rooms.
const std::vector<SourceFile>& AllSources();

// The text between the quotes or brackets of an include line; empty for other lines.
std::string Included(const std::string& line);

}  // namespace moka::testing
