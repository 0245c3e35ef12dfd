// Prose is spelt one way (docs/CONTRIBUTING.md): British, with -ise, in comments and Markdown; identifiers are
// American, as Caffe's are. A word counts as prose unless it is quoted, has capitals or underscores inside, or is
// written as code is ("normalize: false", "normalize()", "x.color"). An identifier is read with its code; comments,
// texts in quotes and includes are not.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "tests/tools/source_files.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using testing::FilesOf;
using testing::FoldersWithPages;
using testing::LinesOf;
using testing::ProseLine;
using testing::ProseOf;

// The text that stands in a file for people, a block at a time: a quotation may go on in the next line of its block.
struct Block {
  std::string place;  // "docs/input.md:12"
  std::string text;
};

// The line is counted from 1.
void Append(std::vector<Block>& blocks, const std::string& file, size_t line, const std::string& text, bool& goes_on) {
  if (!goes_on) blocks.push_back({file + ":" + std::to_string(line), ""});
  blocks.back().text += " " + text;
  goes_on = true;
}

// Comments of C++, CUDA and the schema: consecutive ones are a block.
std::vector<Block> CommentsOf(const fs::path& file) {
  const std::vector<std::string> lines = LinesOf(file);
  std::vector<Block> blocks;
  bool goes_on = false;
  for (size_t i = 0; i < lines.size(); ++i) {
    const size_t at = lines[i].find("//");
    const bool is_address = at != std::string::npos && at > 0 && lines[i][at - 1] == ':';
    if (at == std::string::npos || is_address) {
      goes_on = false;
    } else {
      Append(blocks, file.string(), i + 1, lines[i].substr(at + 2), goes_on);
    }
  }
  return blocks;
}

// Paragraphs of Markdown without its blocks of code, without the tables that the zoo makes of its cards.
std::vector<Block> ParagraphsOf(const fs::path& page) {
  std::vector<Block> blocks;
  bool goes_on = false;
  bool is_made = false;
  size_t last = 0;
  for (const ProseLine& line : ProseOf(page)) {
    const std::string& text = line.text;
    if (line.number != last + 1 || text.starts_with("|")) goes_on = false;
    last = line.number;
    if (text == "<!-- zoo -->" || text == "<!-- /zoo -->") is_made = !is_made;
    if (is_made || text.empty() || text.starts_with("    ")) {
      goes_on = false;
    } else {
      Append(blocks, page.string(), line.number, text, goes_on);
    }
  }
  return blocks;
}

// The first American spelling of the block; empty if there is none.
std::string AmericanWord(const std::string& text) {
  static const std::regex quoted(R"re("[^"]{0,240}"|`[^`]*`|\]\([^)]*\))re");
  static const std::regex american(
      "(^|[^\\w./-])((un|de|re|non|pre|multi)?"
      "(color|gray|favor(?!it)|behavior|honor|neighbor|center(?! "
      "loss)|fiber|normaliz|quantiz|optimiz|initializ|serializ|"
      "synchroniz|generaliz|regulariz|standardiz|equaliz|tokeniz|organiz|recogniz|localiz|vectoriz|paralleliz|"
      "discretiz|"
      "minimiz|maximiz|penaliz|randomiz|summariz|specializ|analyz|labeled|labeling|modeled|modeling|canceled|canceling|"
      "catalog(?!u)|artifact)[a-z]*)(?![\\w/:(=]|\\.\\w)");
  const std::string prose = std::regex_replace(text, quoted, "");
  std::smatch match;
  return std::regex_search(prose, match, american) ? match[2].str() : "";
}

std::vector<Block> BlocksOf(const fs::path& file) {
  const std::string name = file.string();
  const std::string kind = file.extension().string();
  // Pages of layer types are written by their fields' and papers' words.
  const bool is_layer_page = kind == ".md" && name.starts_with("layers/") && !name.ends_with("README.md");
  if (is_layer_page || name.starts_with("tests/golden/")) return {};
  if (kind == ".md") return ParagraphsOf(file);
  const bool is_code = kind == ".cpp" || kind == ".h" || kind == ".cu" || kind == ".cuh" || kind == ".proto";
  return is_code ? CommentsOf(file) : std::vector<Block>();
}

std::vector<Block> AllBlocks() {
  std::vector<Block> blocks = BlocksOf("README.md");
  std::vector<std::string> folders = FoldersWithPages();
  folders.emplace_back("docs");
  for (const std::string& folder : folders) {
    for (const fs::path& file : FilesOf(folder)) {
      const std::vector<Block> found = BlocksOf(file);
      blocks.insert(blocks.end(), found.begin(), found.end());
    }
  }
  return blocks;
}

// Collects the names in the code of a file, line by line.
class NamesOfCode {
 public:
  void Read(const std::string& line) {
    size_t at = 0;
    if (!raw_end_.empty()) at = EndOfRaw(line, 0);
    if (at == 0 && line.starts_with("#include")) return;
    while (at < line.size() && line.compare(at, 2, "//") != 0) at = Step(line, at);
  }
  const std::vector<std::string>& names() const { return names_; }

 private:
  static bool IsOfName(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

  // Returns where the token that begins at a place ends.
  size_t Step(const std::string& line, size_t at) {
    const char c = line[at];
    if (line.compare(at, 2, "/*") == 0) return std::min(line.find("*/", at + 2), line.size() - 2) + 2;
    if (line.compare(at, 2, "R\"") == 0) {
      const size_t open = std::min(line.find('(', at), line.size());
      raw_end_ = ")" + line.substr(at + 2, open - at - 2) + "\"";
      return EndOfRaw(line, open);
    }
    if (c == '"' || c == '\'') {
      for (++at; at < line.size() && line[at] != c; ++at) at += line[at] == '\\' ? 1 : 0;
      return at + 1;
    }
    const bool is_number = std::isdigit(static_cast<unsigned char>(c)) != 0;
    size_t end = at;
    while (end < line.size() && (IsOfName(line[end]) || (is_number && line[end] == '\''))) ++end;
    if (end > at && !is_number) names_.push_back(line.substr(at, end - at));
    return std::max(end, at + 1);
  }
  size_t EndOfRaw(const std::string& line, size_t at) {
    const size_t end = line.find(raw_end_, at);
    if (end == std::string::npos) return line.size();
    const size_t bytes = raw_end_.size();
    raw_end_.clear();
    return end + bytes;
  }

  std::vector<std::string> names_;
  std::string raw_end_;  // of the raw string that goes on in the next line
};

std::vector<std::string> NamesOf(const std::vector<std::string>& lines) {
  NamesOfCode code;
  for (const std::string& line : lines) code.Read(line);
  return code.names();
}

// Names that are others' to choose, with the reason.
const std::map<std::string, std::string>& Excused() {
  static const std::map<std::string, std::string> excused = {
      {"GREY", "PictureInput's value, which cards show"},
  };
  return excused;
}

// Whether a name has a British spelling. "quantise" is a verb of the command line and may be part of names.
bool IsBritish(const std::string& name) {
  static const std::regex british(
      "[Cc]olour|COLOUR|[Cc]entre|CENTRE|[Gg]rey|GREY|[Nn]eighbour|[Ff]avour|[Bb]ehaviour|[Hh]onour|"
      "([Nn]ormal|[Ss]erial|[Ss]ummar|[Ii]nitial|[Oo]ptim|[Ss]tandard|[Ff]inal|[Oo]rgan|[Rr]andom|[Ss]ynchron|[Mm]inim|"
      "[Mm]axim|[Rr]ecogn|[Vv]ector|[Gg]eneral|[Rr]egular|[Ee]qual|[Ss]olar|[Pp]oster)is[eia]|"
      "[Qq]uantis(e[a-z]|[ia])");
  return !Excused().contains(name) && std::regex_search(name, british);
}

std::vector<fs::path> FilesOfNames() {
  std::vector<fs::path> files;
  for (const std::string& room : FoldersWithPages()) {
    for (const fs::path& file : FilesOf(room)) {
      const std::string kind = file.extension().string();
      if (kind == ".cpp" || kind == ".h" || kind == ".cu" || kind == ".cuh") files.push_back(file);
    }
  }
  return files;
}

TEST(SpellingTest, IdentifiersAreAmerican) {
  std::map<std::string, std::string> found;  // name to the first file that has it
  for (const fs::path& file : FilesOfNames()) {
    for (const std::string& name : NamesOf(LinesOf(file))) found.try_emplace(name, file.string());
  }
  EXPECT_GT(found.size(), 10000U);
  for (const auto& [name, file] : found) EXPECT_FALSE(IsBritish(name)) << file << ": " << name;
  for (const auto& [name, reason] : Excused()) EXPECT_TRUE(found.contains(name)) << name << ": " << reason;
}

TEST(SpellingTest, BritishNamesAreFoundInCodeAlone) {
  for (const char* name : {"Colour", "kGreyType", "centre_x", "is_initialised", "Orthonormalise", "Quantised"})
    EXPECT_TRUE(IsBritish(name)) << name;
  for (const char* name : {"Color", "kGrayType", "Normalize", "QuantiseVerb", "FinalIsEmpty", "optimistic", "raise"})
    EXPECT_FALSE(IsBritish(name)) << name;
  const std::vector<std::string> lines = {"#include \"colour.h\"", "int a = 1'000, b;  // the colour", "f(R\"(grey",
                                          "centre)\", /*colour=*/c, \"a\\\"grey\", '\\'');"};
  EXPECT_EQ(NamesOf(lines), (std::vector<std::string>{"int", "a", "b", "f", "c"}));
}

TEST(SpellingTest, ProseIsBritish) {
  const std::vector<Block> blocks = AllBlocks();
  EXPECT_GT(blocks.size(), 10000U);
  for (const Block& block : blocks) {
    EXPECT_EQ(AmericanWord(block.text), "")
        << block.place << ":" << block.text << "\n(a name is quoted or in backquotes)";
  }
}

TEST(SpellingTest, OtherSpellingsAreFoundAndNamesLeftAlone) {
  for (const char* text : {"the color of a pixel", "a normalized sum", "(neighboring blocks)", "unlabeled rows"})
    EXPECT_NE(AmericanWord(text), "") << text;
  for (const char* text :
       {"the colour", "`color`", "its \"center\" field", "normalize: false", "Normalize(x)", "x.color", "OptimizerRows",
        "center_loss_param", "\"Batch Normalization: Accelerating\"", "catalogue"})
    EXPECT_EQ(AmericanWord(text), "") << text;
}

}  // namespace
}  // namespace moka
