// The sources of the rooms without tests, as the structure tests read them.
#pragma once

#include <string>
#include <vector>

namespace moka::testing {

struct SourceFile {
  std::string room;
  std::string path;  // relative to the repository
  std::vector<std::string> lines;
  bool is_header = false;
};

// Every header and source of the rooms core, proto, graph, layers, data, comm, optim and tools, in the order of their
// paths.
const std::vector<SourceFile>& AllSources();

// The text between the quotes or brackets of an include line; empty for other lines.
std::string Included(const std::string& line);

}  // namespace moka::testing
