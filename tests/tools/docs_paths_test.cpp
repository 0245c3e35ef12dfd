// Everything that Markdown names is there: links and their headings, paths of sources and folders, in comments too;
// each room has a page of a screen that names its folders.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/tools/source_files.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using testing::FilesOf;
using testing::FoldersWithPages;
using testing::IsOfUsers;
using testing::LinesOf;
using testing::ProseLine;
using testing::ProseOf;

std::vector<fs::path> Pages() {
  std::vector<fs::path> pages = {"README.md"};
  std::vector<std::string> folders = FoldersWithPages();
  folders.emplace_back("docs");
  for (const std::string& folder : folders) {
    for (const fs::path& file : FilesOf(folder)) {
      if (file.extension() == ".md") pages.push_back(file);
    }
  }
  return pages;
}

// As a forge makes a heading's address: small letters, blanks are hyphens, other signs go.
std::string AddressOf(const std::string& heading) {
  std::string address;
  for (const char c : heading) {
    const auto letter = static_cast<unsigned char>(c);
    if (c == ' ') address += '-';
    if (letter >= 0x80 || std::isalnum(letter) != 0 || c == '-' || c == '_')
      address += static_cast<char>(std::tolower(letter));
  }
  return address;
}

bool HasHeading(const fs::path& page, const std::string& address) {
  return std::ranges::any_of(ProseOf(page), [&](const ProseLine& line) {
    if (!line.text.starts_with("#")) return false;
    return AddressOf(line.text.substr(line.text.find_first_not_of("# "))) == address;
  });
}

// All first groups of a pattern in a line.
std::vector<std::string> Found(const std::string& line, const std::regex& pattern) {
  std::vector<std::string> found;
  for (std::sregex_iterator it(line.begin(), line.end(), pattern); it != std::sregex_iterator(); ++it)
    found.push_back((*it)[1]);
  return found;
}

class DocsPathsTest : public ::testing::Test {
 protected:
  void SetUp() override { fs::current_path(MOKA_SOURCE_DIR); }
};

TEST_F(DocsPathsTest, LinksLeadSomewhere) {
  static const std::regex link(R"(\]\(([^)\s]+)\))");
  static const std::regex code("`[^`]*`");
  int links = 0;
  for (const fs::path& page : Pages()) {
    for (const ProseLine& line : ProseOf(page)) {
      for (const std::string& target : Found(std::regex_replace(line.text, code, ""), link)) {
        if (target.find("://") != std::string::npos) continue;
        ++links;
        const std::string file = target.substr(0, target.find('#'));
        const fs::path to = file.empty() ? page : (page.parent_path() / file).lexically_normal();
        EXPECT_TRUE(fs::exists(to)) << page << ":" << line.number << ": " << target;
        if (target.find('#') == std::string::npos || to.extension() != ".md") continue;
        EXPECT_TRUE(HasHeading(to, target.substr(target.find('#') + 1)))
            << page << ":" << line.number << ": no heading " << target;
      }
    }
  }
  EXPECT_GT(links, 300);
}

TEST_F(DocsPathsTest, PathsThatAreNamedExist) {
  static const std::regex quoted("`([^`]+)`");
  static const std::regex path(
      R"(((core|proto|graph|layers|data|comm|optim|tools|tests|docs)/[a-z0-9_./-]+?)/?(:\d+)?)");
  int paths = 0;
  for (const fs::path& page : Pages()) {
    if (page.string().starts_with("models/")) continue;
    // Elsewhere data/NAME is a user's database, and the page of the tests names their folders from there.
    const std::string name = page.string();
    const bool is_of_sources = name == "docs/ARCHITECTURE.md" || name == "docs/CONTRIBUTING.md";
    for (const ProseLine& line : ProseOf(page)) {
      for (const std::string& text : Found(line.text, quoted)) {
        const std::string word = text.substr(0, text.find(' '));
        std::smatch match;
        if (!std::regex_match(word, match, path)) continue;
        const std::string file = match[1];
        const bool is_source = file.ends_with(".h") || file.ends_with(".cpp");
        if (file.starts_with("data/") && !is_source && !is_of_sources) continue;
        ++paths;
        const bool is_there = fs::exists(file) || fs::exists(file + ".cpp") || fs::exists(page.parent_path() / file);
        EXPECT_TRUE(is_there) << name << ":" << line.number << ": no " << file;
      }
    }
  }
  EXPECT_GT(paths, 150);
}

TEST_F(DocsPathsTest, SourcesThatCommentsNameExist) {
  static const std::regex path(
      R"((?:^|[^\w/.])((?:core|proto|graph|layers|data|comm|optim|tools|tests)/[\w/]+\.(?:h|cpp|cu|cuh))\b)");
  int paths = 0;
  for (const std::string& room : FoldersWithPages()) {
    for (const fs::path& source : FilesOf(room)) {
      const std::string kind = source.extension().string();
      if (kind != ".h" && kind != ".cpp" && kind != ".cu" && kind != ".cuh" && kind != ".proto") continue;
      const std::vector<std::string> lines = LinesOf(source);
      for (size_t i = 0; i < lines.size(); ++i) {
        const size_t comment = lines[i].find("//");
        if (comment == std::string::npos) continue;
        for (const std::string& file : Found(lines[i].substr(comment), path)) {
          ++paths;
          EXPECT_TRUE(fs::exists(file)) << source << ":" << i + 1 << ": no " << file;
        }
      }
    }
  }
  EXPECT_GT(paths, 100);
}

// A room's page names its files by their names alone, or from the room.
TEST_F(DocsPathsTest, FilesThatRoomsPagesNameExist) {
  static const std::regex quoted("`([a-z0-9_/]+\\.(?:h|cpp|cuh|cu))`");
  int files = 0;
  for (const std::string& room : FoldersWithPages()) {
    std::set<std::string> there;
    for (const fs::path& file : FilesOf(room)) {
      there.insert(file.filename().string());
      there.insert(file.lexically_relative(room).string());
      there.insert(file.string());
    }
    for (const ProseLine& line : ProseOf(fs::path(room) / "README.md")) {
      for (const std::string& file : Found(line.text, quoted)) {
        ++files;
        EXPECT_TRUE(there.contains(file) || fs::exists(file))
            << room << "/README.md:" << line.number << ": no " << file;
      }
    }
  }
  EXPECT_GT(files, 40);
}

TEST_F(DocsPathsTest, RoomsHaveAPageThatNamesTheirFolders) {
  for (const std::string& room : FoldersWithPages()) {
    const fs::path page = fs::path(room) / "README.md";
    ASSERT_TRUE(fs::exists(page)) << page;
    std::string text;
    int lines = 0;
    bool is_made = false;  // the table of the zoo's cards
    for (const std::string& line : LinesOf(page)) {
      is_made = line == "<!-- zoo -->" || (is_made && line != "<!-- /zoo -->");
      lines += is_made ? 0 : 1;
      text += line + "\n";
    }
    EXPECT_LE(lines, 40) << page;
    for (const fs::directory_entry& entry : fs::directory_iterator(room)) {
      const std::string folder = entry.path().filename().string();
      if (!entry.is_directory() || folder == "__pycache__" || room == "models") continue;
      if (IsOfUsers(entry.path())) continue;
      EXPECT_NE(text.find("`" + folder + "/"), std::string::npos) << page << " does not name " << folder << "/";
    }
  }
}

}  // namespace
}  // namespace moka
