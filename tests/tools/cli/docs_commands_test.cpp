// Every command that the documentation shows can be typed: README.md, docs/, the models' pages and cards and the verbs'
// own examples. Verbs, flags and key=value are read by the very parser and schema, and models, scripts and presets that
// are named exist. Words in capitals stand for something (RUN, FOLDER/train, N).
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "proto/nets/solver_file.h"
#include "tools/cli/command_line.h"
#include "tools/nets/net_source.h"
#include "tools/train/overrides.h"
#include "tools/train/train_setup.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

using Words = std::vector<std::string>;

struct ShownLine {
  std::string place;  // "README.md:14"
  std::string text;
};

// The commands of a shell line as words without their quotes: "a && b | c" are three. What redirects is left out, and
// so are comments and settings of variables, whose uses are replaced.
std::vector<Words> CommandsOf(const std::string& line, std::map<std::string, std::string>& variables) {
  std::vector<Words> commands(1);
  std::string word;
  bool has_word = false;
  char quote = 0;
  const auto end_word = [&] {
    if (has_word) commands.back().push_back(word);
    word.clear();
    has_word = false;
  };
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        word += c;
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      has_word = true;
    } else if (c == '#' && !has_word) {
      break;
    } else if (c == ';' || c == '|' || c == '&') {
      end_word();
      commands.emplace_back();
    } else if (c == ' ') {
      end_word();
    } else {
      word += c;
      has_word = true;
    }
  }
  end_word();
  static const std::regex setting("([A-Z_]+)=(.*)");
  for (Words& words : commands) {
    std::smatch match;
    while (!words.empty() && std::regex_match(words.front(), match, setting)) {
      variables[match[1]] = match[2];
      words.erase(words.begin());
    }
    for (std::string& each : words) {
      if (each.starts_with("$") && variables.contains(each.substr(1))) each = variables[each.substr(1)];
    }
    const auto redirects = [](const std::string& each) { return each.starts_with(">") || each.starts_with("<"); };
    words.erase(std::ranges::find_if(words, redirects), words.end());
  }
  std::erase_if(commands, [](const Words& words) { return words.empty(); });
  return commands;
}

// Lines of fenced blocks (of a shell, or of no language), lines that end with a backslash joined to the next.
std::vector<ShownLine> FencedLines(const std::string& name, const std::string& text) {
  std::vector<ShownLine> lines;
  bool is_shell = false;
  bool is_fenced = false;
  bool goes_on = false;
  int number = 0;
  for (const std::string& line : Split(text, '\n')) {
    ++number;
    const std::string_view trimmed = Trim(line);
    if (trimmed.starts_with("```")) {
      is_fenced = !is_fenced;
      const std::string_view language = trimmed.substr(3);
      is_shell = is_fenced && (language.empty() || language == "sh" || language == "bash");
      goes_on = false;
      continue;
    }
    if (!is_shell) continue;
    std::string shown(trimmed.starts_with("$ ") ? trimmed.substr(2) : trimmed);
    const bool has_more = shown.ends_with("\\");
    if (has_more) shown.pop_back();
    if (goes_on) {
      lines.back().text += " " + shown;
    } else {
      lines.push_back({StrCat(name, ":", number), shown});
    }
    goes_on = has_more;
  }
  return lines;
}

// Returns the lines between single backquotes outside of fenced blocks.
std::vector<ShownLine> InlineLines(const std::string& name, const std::string& text) {
  std::vector<ShownLine> lines;
  bool is_fenced = false;
  int number = 0;
  for (const std::string& line : Split(text, '\n')) {
    ++number;
    if (Trim(line).starts_with("```")) is_fenced = !is_fenced;
    if (is_fenced) continue;
    const std::vector<std::string> parts = Split(line, '`');
    for (size_t i = 1; i + 1 < parts.size(); i += 2) lines.push_back({StrCat(name, ":", number), parts[i]});
  }
  return lines;
}

bool IsPlaceholder(const std::string& word) {
  return word == "..." || word == "FILE" || std::ranges::any_of(word, [](unsigned char c) { return std::isupper(c); });
}

const Verb* VerbNamed(const std::vector<Verb>& verbs, const std::string& name) {
  const auto found = std::ranges::find(verbs, name, &Verb::name);
  return found == verbs.end() ? nullptr : &*found;
}

// Whether the text has the flag as a whole word: a flag may be the beginning of another one.
bool HasFlag(const std::string& text, const std::string& flag) {
  for (size_t at = text.find(flag); at != std::string::npos; at = text.find(flag, at + 1)) {
    const size_t end = at + flag.size();
    if (end == text.size()) return true;
    const auto next = static_cast<unsigned char>(text[end]);
    if (std::isalnum(next) == 0 && next != '-' && next != '_') return true;
  }
  return false;
}

// A line of a block is typed as it stands; prose may end with a flag whose value it does not give.
enum class Shown : uint8_t { kBlock, kProse };

// Checks commands one after the other, since what one makes the next may use.
class CommandChecker {
 public:
  // Returns the parts of the line that cannot be typed as they stand.
  std::vector<std::string> FaultsOf(const std::string& line, Shown shown = Shown::kBlock) {
    faults_.clear();
    shown_ = shown;
    for (const Words& words : CommandsOf(line, variables_)) CheckCommand(words);
    return faults_;
  }
  int mokas() const { return mokas_; }
  int scripts() const { return scripts_; }

 private:
  void Expect(bool holds, const std::string& fault) {
    if (!holds) faults_.push_back(fault);
  }

  void CheckCommand(Words words) {
    if (words[0] == "python3") words.erase(words.begin());
    if (words.empty()) return;
    const std::string program = words[0];
    if (program == "cp" && words.size() > 2) made_.insert(words.back());
    if (program == "mpirun" || program == "srun") return CheckLaunched(words);
    if (program == "moka" || program == "build/release/moka") return CheckMoka(words);
    if (program == "cmake") return CheckPreset(words);
    if (program.starts_with("tools/") || program.starts_with("tests/")) return CheckScript(words);
  }

  // Behind the launcher's own words.
  void CheckLaunched(const Words& words) {
    const auto moka =
        std::ranges::find_if(words, [](const std::string& w) { return w == "moka" || w.ends_with("/moka"); });
    if (moka != words.end()) CheckMoka({moka, words.end()});
  }

  void CheckMoka(Words words) {
    words.erase(words.begin());
    std::erase(words, "...");
    if (words.empty() || IsPlaceholder(words[0]) || words[0] == "help" || words[0].starts_with("--")) return;
    std::string name;
    const std::vector<Verb>* verbs = &AllVerbs();
    const Verb* verb = nullptr;
    while (!verbs->empty() && !words.empty() && words[0] != "--help") {
      if (IsPlaceholder(words[0])) return;
      verb = VerbNamed(*verbs, words[0]);
      if (verb == nullptr) return Expect(false, StrCat("no verb \"", words[0], "\" in moka", name));
      name += " " + words[0];
      words.erase(words.begin());
      verbs = &verb->subverbs;
    }
    ++mokas_;
    if (!verbs->empty()) return;
    try {
      if (shown_ == Shown::kProse && TakesValue(*verb, words)) words.emplace_back("VALUE");
      const Arguments arguments = ParseArguments(*verb, words);
      CheckModels(name, arguments);
      CheckStart(arguments.Peek("from"));
      const auto launched = std::ranges::find(words, "--");
      if (name == " launch" && launched != words.end()) CheckMoka({launched, words.end()});
    } catch (const Error& error) {
      Expect(false, error.what());
    }
  }

  // Whether the last word is a flag that wants a value behind it.
  static bool TakesValue(const Verb& verb, const Words& words) {
    return !words.empty() && std::ranges::any_of(verb.options, [&](const OptionSpec& option) {
      return "--" + option.name == words.back() && !option.value.empty();
    });
  }

  // Models that are named exist, and have what is set on the command line.
  void CheckModels(const std::string& verb, const Arguments& arguments) {
    static const std::regex run("runs/([a-z0-9_]+)-[0-9]{4}(@.*)?");
    const bool takes_names = verb.starts_with(" zoo ") || verb == " bench model";
    std::string model;
    for (const std::string& word : arguments.positionals) {
      if (IsPlaceholder(word) || made_.contains(word)) continue;
      if (takes_names && word.find_first_of("/.") == std::string::npos)
        Expect(fs::is_directory("models/" + word), "no model " + word);
      std::smatch match;
      if (std::regex_match(word, match, run))
        Expect(fs::is_directory("models/" + match[1].str()), word + " is a run of no model");
      if (!word.starts_with("models/") || word.find('*') != std::string::npos) continue;
      Expect(fs::exists(word), "no " + word);
      model = word;
    }
    const bool sets_values =
        std::ranges::none_of(arguments.overrides.All(),
                             [](const std::string& word) { return IsPlaceholder(word.substr(word.find('=') + 1)); }) &&
        std::ranges::none_of(arguments.options, [](const auto& option) { return IsPlaceholder(option.second); });
    if (model.empty() || verb != " train" || !sets_values) return;
    const SplitOverrides split = SplitByTarget(OverridesOf(arguments));
    SolverReadOptions options;
    options.overrides = split.solver;
    NetReadOptions nets;
    nets.overrides = split.net;
    (void)ReadSolverNets(ReadSolver(FindConfig(model, "solver.prototxt"), options), nets);
  }

  // A model that a training starts from exists.
  void CheckStart(const std::string& from) {
    constexpr std::string_view kZoo = "zoo:";
    if (!from.starts_with(kZoo) || IsPlaceholder(from.substr(kZoo.size()))) return;
    Expect(fs::is_directory("models/" + from.substr(kZoo.size())), "no model " + from.substr(kZoo.size()));
  }

  void CheckPreset(const Words& words) {
    const auto preset = std::ranges::find(words, "--preset");
    if (preset == words.end() || preset + 1 == words.end()) return;
    const std::string name = StrCat("\"name\": \"", *(preset + 1), "\"");
    Expect(ReadFile("CMakePresets.json").find(name) != std::string::npos, "no preset " + *(preset + 1));
  }

  // The script is there, and each of its flags stands in it or in a module beside it.
  void CheckScript(const Words& words) {
    if (IsPlaceholder(fs::path(words[0]).stem())) return;
    ++scripts_;
    // A folder that is spoken of, or a program that is built of one source.
    if (fs::is_directory(words[0]) || fs::is_regular_file(words[0] + ".cpp")) return;
    if (!fs::is_regular_file(words[0])) return Expect(false, "no " + words[0]);
    std::string text = ReadFile(words[0]);
    for (const fs::directory_entry& beside : fs::recursive_directory_iterator(fs::path(words[0]).parent_path())) {
      if (beside.path().extension() == ".py") text += ReadFile(beside.path());
    }
    if (words[0] == "tools/data/get" && words.size() > 1)
      Expect(IsPlaceholder(words[1]) || fs::is_regular_file("tools/data/sets/" + words[1]), "no set " + words[1]);
    for (size_t i = 1; i < words.size() && words[i] != "--"; ++i) {
      if (words[i].starts_with("--")) {
        const std::string flag = words[i].substr(0, words[i].find('='));
        Expect(HasFlag(text, flag), StrCat(words[0], " has no flag ", flag));
      }
      const bool is_ours = words[i].starts_with("models/") || words[i].starts_with("tools/");
      Expect(!is_ours || IsPlaceholder(words[i]) || fs::exists(words[i]), "no " + words[i]);
    }
  }

  std::map<std::string, std::string> variables_;
  std::set<std::string> made_;  // by commands before
  std::vector<std::string> faults_;
  Shown shown_ = Shown::kBlock;
  int mokas_ = 0;
  int scripts_ = 0;
};

class DocsCommandsTest : public testing::Test {
 protected:
  void SetUp() override { fs::current_path(MOKA_SOURCE_DIR); }

  void Check(const ShownLine& line, Shown shown = Shown::kBlock) {
    EXPECT_EQ(Join(checker_.FaultsOf(line.text, shown), "; "), "") << line.place << ": " << line.text;
  }

  CommandChecker checker_;
};

std::vector<fs::path> Pages() {
  std::vector<fs::path> pages = {"README.md", "models/README.md"};
  for (const char* folder : {"docs", "layers", "models"}) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.path().extension() == ".md" && entry.path() != "models/README.md") pages.push_back(entry.path());
    }
  }
  std::ranges::sort(pages);
  return pages;
}

TEST_F(DocsCommandsTest, CommandsOfFencedBlocksCanBeTyped) {
  for (const fs::path& page : Pages()) {
    for (const ShownLine& line : FencedLines(page.string(), ReadFile(page))) Check(line);
  }
  EXPECT_GE(checker_.mokas(), 150);
  EXPECT_GE(checker_.scripts(), 30);
}

TEST_F(DocsCommandsTest, CommandsInTheTextCanBeTyped) {
  for (const fs::path& page : Pages()) {
    for (const ShownLine& line : InlineLines(page.string(), ReadFile(page))) Check(line, Shown::kProse);
  }
  EXPECT_GE(checker_.mokas(), 100);
  EXPECT_GE(checker_.scripts(), 30);
}

// A card's commands make its data; comments of solvers say how they are trained.
TEST_F(DocsCommandsTest, CommandsOfCardsAndSolversCanBeTyped) {
  static const std::regex command(R"re(^\s*command: "((?:[^"\\]|\\.)*)")re");
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator("models")) {
    if (entry.path().extension() != ".prototxt") continue;
    int number = 0;
    for (const std::string& line : Split(ReadFile(entry.path()), '\n')) {
      ++number;
      std::smatch match;
      const std::string place = StrCat(entry.path().string(), ":", number);
      if (std::regex_search(line, match, command)) {
        Check({place, std::regex_replace(match[1].str(), std::regex(R"(\\(.))"), "$1")});
      } else if (line.starts_with("# moka ")) {
        Check({place, line.substr(2)});
      }
    }
  }
  EXPECT_GE(checker_.mokas(), 40);
  EXPECT_GE(checker_.scripts(), 20);
}

TEST_F(DocsCommandsTest, ExamplesOfVerbsCanBeTyped) {
  const auto check = [&](const auto& self, const std::vector<Verb>& verbs) -> void {
    for (const Verb& verb : verbs) {
      // A remark on an example stands in parentheses far behind it.
      for (const std::string& example : verb.examples)
        Check({"--help of " + verb.name, example.substr(0, example.find("   ("))});
      self(self, verb.subverbs);
    }
  };
  check(check, AllVerbs());
  EXPECT_GE(checker_.mokas(), 80);
}

TEST_F(DocsCommandsTest, WhatCannotBeTypedIsFound) {
  for (const auto& [line, fault] : std::map<std::string, std::string>{
           {"moka trian models/lenet", "no verb \"trian\" in moka"},
           {"moka data inport a b", "no verb \"inport\" in moka data"},
           {"mpirun -np 2 moka train models/lenet --rank 2", "moka train has no flag --rank"},
           {"moka launch -n 2 -- train models/lenet --rank 2", "moka train has no flag --rank"},
           {"moka train models/lenot", "no models/lenot"},
           {"moka train models/lenet base_rl=1", "base_rl"},
           {"moka train models/lenet layer[ip3].name=x", "ip3"},
           {"moka train models/lenet --from zoo:lenot", "no model lenot"},
           {"moka zoo info resnet5", "no model resnet5"},
           {"moka test runs/lenot-0001@best", "is a run of no model"},
           {"tools/tset", "no tools/tset"},
           {"tools/setup --with-sanitisers", "has no flag --with-sanitisers"},
           {"tools/setup --with-sanit", "has no flag --with-sanit"},
           {"tools/data/get mnits", "no set mnits"},
           {"cmake --workflow --preset asn", "no preset asn"}}) {
    const std::string faults = Join(checker_.FaultsOf(line), "; ");
    EXPECT_NE(faults.find(fault), std::string::npos) << line << ": " << faults;
  }
}

TEST(DocsCommandsParserTest, LinesBecomeCommands) {
  std::map<std::string, std::string> variables;
  const std::vector<Words> commands =
      CommandsOf("M=a/b; moka x $M 'layer[c d]=\"e\"' --f g > out.txt && tools/h i | moka j - # k", variables);
  ASSERT_EQ(commands.size(), 3U);
  EXPECT_EQ(commands[0], (Words{"moka", "x", "a/b", "layer[c d]=\"e\"", "--f", "g"}));
  EXPECT_EQ(commands[1], (Words{"tools/h", "i"}));
  EXPECT_EQ(commands[2], (Words{"moka", "j", "-"}));
  const std::vector<ShownLine> lines = FencedLines("p.md", "a\n```\nmoka b \\\n  c\n```\n```cpp\nmoka d\n```\n");
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].place, "p.md:3");
  EXPECT_EQ(lines[0].text, "moka b  c");
  EXPECT_EQ(InlineLines("p.md", "say `moka e` or\n```\n`moka f`\n```\n")[0].text, "moka e");
}

}  // namespace
}  // namespace moka
