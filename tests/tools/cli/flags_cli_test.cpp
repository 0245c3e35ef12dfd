// The flags of every verb that the program has, taken from its own table.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "tests/tools/cli/every_verb.h"
#include "tests/tools/cli/flag_sweep.h"

namespace moka {
namespace {

class FlagsTest : public EveryVerbTest {
 protected:
  // The flags that have no use beside a verb's line, which are refused.
  static const std::map<std::string, std::set<std::string>>& Useless() {
    static const std::map<std::string, std::set<std::string>> useless = {
        {"bench data", {"batch", "size"}},  // of a database, and the line is of a net
        {"convert_annoset", {"check_label", "label_map_file", "label_type"}},          // of detection
        {"data inspect", {"per-class"}},                                               // of --sheet
        {"launch", {"json", "mpirun", "network", "np", "preflight", "reach", "ssh"}},  // of what starts now
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

}  // namespace
}  // namespace moka
