// The flags of every verb that the program has, taken from its own table.
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>
#include <string>

#include "tests/tools/cli/every_verb_fixture.h"
#include "tests/tools/cli/flag_sweep.h"

namespace moka {
namespace {

class FlagsTest : public EveryVerbTest {
 protected:
  // The flags that have no use beside a verb's line, which are refused.
  static const std::map<std::string, std::set<std::string>>& Useless() {
    static const std::map<std::string, std::set<std::string>> useless = {
        {"bench accuracy", {"python"}},       // of peers
        {"bench data", {"batch", "size"}},    // of a database, and the line is of a net
        {"compare", {"gradient-tolerance"}},  // of --gradients
        {"convert_annoset", {"check_label", "label_map_file", "label_type"}},  // of detection
        {"export", {"deploy", "net"}},                                         // of Caffe's weights and PyTorch's
        {"import", {"net"}},                                                   // of weights
        {"data inspect", {"per-class"}},                                       // of --sheet
        {"launch", {"json", "mpirun", "network", "np", "preflight", "reach", "ssh"}},  // of what starts now
        {"new", {"runs"}},                                                             // of --from
        {"quantise", {"int8"}}};
    return useless;
  }
};

TEST_F(FlagsTest, EveryFlagOfEveryVerbDoesSomethingOrIsNamed) {
  // Verbs that train, test, time and infer are swept in refusals_cli_test.cpp, beside lines that bring out more.
  static const std::set<std::string> elsewhere = {"infer", "test", "time", "train", "zoo train"};
  for (const VerbLine& line : Lines()) {
    if (elsewhere.contains(line.path)) continue;
    std::vector<OptionSpec> options = line.verb->options;
    std::erase_if(options, [&](const OptionSpec& option) {
      return option.name == "model" ||                                      // in place of the line's first word
             (line.path == "data vocabulary" && option.name == "stories");  // another kind of text
    });
    const std::string words = line.line.substr(line.path.size());
    const auto run = [&](const std::string& flag) {
      VerbLine with = line;
      with.line = StrCat(line.path, " ", flag, " ", words);  // before what may follow "--"
      // Removes what a flag before this one wrote under the name that stands for a file that is not there.
      with.undo = StrCat("rm -rf no_such_file", line.undo.empty() ? "" : " && " + line.undo);
      return Run(with);
    };
    const auto expected = Useless().find(line.path);
    EXPECT_EQ(SweepFlags(options, run), expected == Useless().end() ? std::set<std::string>{} : expected->second)
        << line.path;
  }
}

// A verb whose row takes no fields refuses them before its work; the others read and apply them, or refuse them at
// their place: no net has the layer.
TEST_F(FlagsTest, EveryVerbReadsFieldsOrRefusesThemAtOnce) {
  for (const VerbLine& line : Lines()) {
    VerbLine with = line;
    with.line = StrCat(line.path, " 'layer[no_such].name=x' ", line.line.substr(line.path.size()));
    const Outcome outcome = Run(with);
    const std::string said = outcome.out + outcome.err;
    EXPECT_GT(outcome.code, 0) << line.path << "\n" << said;
    EXPECT_NE(said.find("no_such"), std::string::npos) << line.path << "\n" << said;
    const bool takes_fields = line.verb->takes_fields != TakenFields::kNone;
    const std::string refusal = StrCat("moka ", line.path, " takes no key=value");
    EXPECT_EQ(outcome.err.find(refusal) == std::string::npos, takes_fields) << line.path << "\n" << said;
    if (!takes_fields) {
      EXPECT_EQ(outcome.code, 64) << line.path;
      EXPECT_EQ(outcome.out, "") << line.path;
    }
    const bool says_so = line.verb->usage.find("key=value") != std::string::npos;
    EXPECT_TRUE(takes_fields || !says_so) << line.path;
  }
}

// A file that help names as a flag's default is one that the verb's sources name, too.
TEST_F(FlagsTest, TheDefaultFileOfAFlagIsTheOneThatTheVerbWrites) {
  std::string sources;
  for (const char* folder : {"tools", "data"}) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(fs::path(MOKA_SOURCE_DIR) / folder)) {
      if (entry.path().extension() == ".cpp") sources += ReadFile(entry.path());
    }
  }
  const std::regex named("\\(default:? ([a-z_]+\\.[a-z]+)\\)");
  int found = 0;
  for (const auto& [path, verb] : RunningVerbs()) {
    for (const OptionSpec& option : verb->options) {
      std::smatch match;
      if (!std::regex_search(option.doc, match, named)) continue;
      ++found;
      EXPECT_NE(sources.find(StrCat("\"", match[1].str(), "\"")), std::string::npos) << path << ": " << option.doc;
    }
  }
  EXPECT_GE(found, 2);
}

// No word of a verb's help is a name of the code, such as "verb.png".
TEST_F(FlagsTest, HelpNamesNoVariableOfItsRow) {
  const std::regex variable("\\b(verb|row|step|options|arguments)\\.[a-z]");
  for (const auto& [path, verb] : RunningVerbs()) {
    const std::string help = HelpText(*verb, path);
    std::smatch match;
    EXPECT_FALSE(std::regex_search(help, match, variable)) << path << ": " << match.str() << "\n" << help;
  }
}

}  // namespace
}  // namespace moka
