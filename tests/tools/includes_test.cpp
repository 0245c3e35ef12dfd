// A source includes, itself or through others, a header of each function that it calls: batches of sources compiled
// together hide that one is forgotten, until somebody compiles it alone, as builds with a compiler cache do.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "tests/tools/source_files.h"
#include "tests/tools/source_scan.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using testing::Included;
using testing::Rooms;
using testing::ScannedCall;
using testing::ScannedSource;
using testing::ScanSource;
using testing::SourceFile;
using testing::SourcesIn;

struct ReadSource {
  std::vector<std::string> includes;  // of the repository
  ScannedSource scanned;
  bool is_header = false;
};

using Sources = std::map<std::string, ReadSource>;

// The rooms' sources and the tests'.
Sources ReadAll() {
  Sources sources;
  std::vector<std::string> folders = Rooms();
  folders.emplace_back("tests");
  for (const SourceFile& file : SourcesIn(folders)) {
    ReadSource source{{}, ScanSource(file.lines), file.is_header};
    for (const std::string& line : file.lines) {
      if (const std::string included = Included(line); !included.empty()) source.includes.push_back(included);
    }
    sources[file.path] = std::move(source);
  }
  return sources;
}

// The file and all that it includes, at any depth. A name without a folder is of the file's own.
const std::set<std::string>& Reach(const Sources& sources, const std::string& path,
                                   std::map<std::string, std::set<std::string>>& known) {
  const auto [found, is_new] = known.try_emplace(path, std::set<std::string>{path});
  if (!is_new) return found->second;
  std::set<std::string> reach = {path};
  for (const std::string& included : sources.at(path).includes) {
    const std::string beside = (fs::path(path).parent_path() / included).string();
    for (const std::string& name : {included, beside}) {
      if (!sources.contains(name)) continue;
      const std::set<std::string>& further = Reach(sources, name, known);
      reach.insert(further.begin(), further.end());
    }
  }
  return known[path] = std::move(reach);
}

// Calls of functions that a header declares, which the file does not reach.
std::vector<std::string> Forgotten(const Sources& sources) {
  std::map<std::string, std::set<std::string>> declared;  // headers by functions
  std::set<std::string> members;                          // what a call without an object may be, too
  for (const auto& [path, source] : sources) {
    members.insert(source.scanned.members.begin(), source.scanned.members.end());
    for (const std::string& name : source.scanned.declared) {
      const size_t at = name.rfind("::");
      if (at != std::string::npos) members.insert(name.substr(at + 2));
      if (source.is_header) declared[name].insert(path);
    }
  }
  std::vector<std::string> faults;
  std::map<std::string, std::set<std::string>> known;
  for (const auto& [path, source] : sources) {
    std::set<std::string> done(source.scanned.declared.begin(), source.scanned.declared.end());
    const std::set<std::string>& reach = Reach(sources, path, known);
    for (const ScannedCall& call : source.scanned.calls) {
      const auto found = declared.find(call.name);
      if (found == declared.end() || members.contains(call.name) || !done.insert(call.name).second) continue;
      const bool is_reached =
          std::ranges::any_of(found->second, [&](const std::string& header) { return reach.contains(header); });
      if (!is_reached)
        faults.push_back(path + ":" + std::to_string(call.line) + " calls " + call.name + " of " +
                         *found->second.begin() + ", which it does not include");
    }
  }
  return faults;
}

TEST(IncludesTest, SourcesReachTheHeadersOfWhatTheyCall) {
  for (const std::string& fault : Forgotten(ReadAll())) ADD_FAILURE() << fault;
}

TEST(IncludesTest, AForgottenHeaderIsFound) {
  const auto read = [](std::vector<std::string> includes, const std::vector<std::string>& lines, bool is_header) {
    return ReadSource{std::move(includes), ScanSource(lines), is_header};
  };
  Sources sources;
  sources["core/text.h"] = read({}, {"namespace moka {", "int Width(int n);", "struct A { int Size(); };", "}"}, true);
  sources["core/more.h"] = read({"core/text.h"}, {"int More();"}, true);
  sources["data/right.cpp"] = read({"core/more.h"}, {"int f() {", "  return Width(1);", "}"}, false);
  sources["data/own.cpp"] = read({}, {"int Width(int n) { return n; }", "int g() { return Width(1); }"}, false);
  sources["data/other.cpp"] = read({}, {"int h(A& a) {", "  return a.Width(1) + b::Width(1) + Size();", "}"}, false);
  EXPECT_EQ(Forgotten(sources), std::vector<std::string>());
  sources["data/wrong.cpp"] = read({}, {"int f() {", "  return Width(1);", "}"}, false);
  EXPECT_EQ(Forgotten(sources),
            std::vector<std::string>({"data/wrong.cpp:2 calls Width of core/text.h, which it does not include"}));
}

}  // namespace
}  // namespace moka
