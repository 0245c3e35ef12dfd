// Every file below bad_input/ is one mistake of a user. Its first lines, comments, say what is done with it and what
// must come of it:
//
//   # The pooling method has one letter too many.      what the mistake is
//   # make: weights w.safetensors ip/0:3x64            files made first (MakeFile), relative to the case's folder
//   # setup: data import glyphs:20:1 db                moka runs that come before and must succeed
//   # run: model show unknown_enum_value.prototxt      the run under test
//   # exit: 78
//   # error: unknown_enum_value.prototxt:12:25: ...    every line of stderr that starts with "error:", "  help:" or
//   # help: did you mean "MAX"?                        "  note:", in order; {*} stands for any text
//   # narrates: yes                                    other lines may come before the error
//   # writes: runs                                     this path may change; nothing else may
//
// NAME.prototxt is itself the broken file. NAME.case holds several (case_file.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/text.h"
#include "tests/tools/cli/case_file.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

struct Preparation {
  bool is_run;  // of moka; else a file to make
  std::vector<std::string> words;
};

struct Case {
  std::string name;  // "net/unknown_bottom"
  std::vector<CaseFile> files;
  std::vector<Preparation> preparations;
  std::vector<std::string> run;
  std::vector<std::string> lines;  // expected: "error: ...", "  help: ...", "  note: ..."
  std::string writes;
  int exit_code = -1;
  bool narrates = false;
};

void TakeDirective(const CaseLine& line, Case& c) {
  const auto& [key, value] = line;
  if (key == "run") c.run = Words(value);
  if (key == "exit") c.exit_code = std::stoi(value);
  if (key == "error") c.lines.push_back("error: " + value);
  if (key == "help" || key == "note") c.lines.push_back(StrCat("  ", key, ": ", value));
  if (key == "setup" || key == "make") c.preparations.push_back({key == "setup", Words(value)});
  if (key == "writes") c.writes = value;
  if (key == "writes" || key == "narrates") c.narrates = true;
}

Case ReadCase(const fs::path& path, const fs::path& root) {
  CaseText text = ReadCaseText(path);
  Case c;
  c.name = fs::relative(path, root).replace_extension().string();
  c.files = std::move(text.files);
  for (const CaseLine& line : text.head) TakeDirective(line, c);
  return c;
}

std::vector<Case> AllCases() {
  const fs::path root = fs::path(MOKA_SOURCE_DIR) / "tests/tools/bad_input";
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Case> cases;
  for (const fs::path& path : paths) cases.push_back(ReadCase(path, root));
  return cases;
}

// Path -> bytes of all files (folders end in "/").
std::map<std::string, std::string> FilesBelow(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = fs::relative(entry.path().parent_path(), folder) / entry.path().filename();
    const std::string path = fs::path(name).lexically_normal().string();
    const bool is_folder = entry.is_directory() && !entry.is_symlink();
    files[path + (is_folder ? "/" : "")] = entry.is_regular_file() && !entry.is_symlink() ? BytesOf(entry.path()) : "";
  }
  return files;
}

// Names of what differs, but for what lies at or below `allowed`.
std::vector<std::string> Changes(const std::map<std::string, std::string>& before,
                                 const std::map<std::string, std::string>& after, const std::string& allowed) {
  std::vector<std::string> changed;
  const auto is_allowed = [&](const std::string& path) { return !allowed.empty() && path.starts_with(allowed + "/"); };
  for (const auto& [path, bytes] : after) {
    const auto it = before.find(path);
    if ((it == before.end() || it->second != bytes) && !is_allowed(path)) changed.push_back(path);
  }
  for (const auto& [path, bytes] : before) {
    if (!after.contains(path) && !is_allowed(path)) changed.push_back("gone: " + path);
  }
  return changed;
}

class BadInput : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    setenv("OMP_NUM_THREADS", "1", 1);
    std::string pattern = (fs::temp_directory_path() / "moka_bad_input_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    temporary_ = pattern;
    folder_ = temporary_ / "case";
    fs::create_directory(folder_);
  }
  void TearDown() override { fs::remove_all(temporary_); }

  void Prepare(const Case& c) const {
    PlaceCaseFiles(folder_, c.files);
    for (const Preparation& preparation : c.preparations) {
      if (!preparation.is_run) {
        MakeFile(folder_, preparation.words);
        continue;
      }
      const MokaOutcome outcome = RunMoka(folder_, preparation.words);
      ASSERT_EQ(outcome.exit_code, 0) << "setup: " << Join(preparation.words, " ") << "\n"
                                      << outcome.end << outcome.err;
    }
  }

  fs::path temporary_;
  fs::path folder_;
};

TEST_P(BadInput, IsRefusedByName) {
  const Case& c = GetParam();
  ASSERT_FALSE(c.run.empty());
  ASSERT_FALSE(c.lines.empty());
  ASSERT_GT(c.exit_code, 0);
  ASSERT_NO_FATAL_FAILURE(Prepare(c));
  const auto before = FilesBelow(folder_);
  const MokaOutcome outcome = RunMoka(folder_, c.run);
  EXPECT_EQ(outcome.exit_code, c.exit_code) << outcome.end << "\n" << outcome.err;
  EXPECT_TRUE(c.narrates || outcome.err.starts_with("error: ")) << outcome.err;
  const std::vector<std::string> lines = LinesOf(outcome.err, {"error: ", "  help: ", "  note: "});
  const bool fits = std::ranges::equal(c.lines, lines, Fits);
  EXPECT_TRUE(fits) << "expected:\n"
                    << Join(c.lines, "\n") << "\nfound:\n"
                    << Join(lines, "\n") << "\nin:\n"
                    << outcome.err;
  EXPECT_EQ(Join(Changes(before, FilesBelow(folder_), c.writes), ", "), "");
}

std::string TestName(const ::testing::TestParamInfo<Case>& tested) { return TestNameOf(tested.param.name); }

void PrintTo(const Case& c, std::ostream* stream) { *stream << c.name; }

INSTANTIATE_TEST_SUITE_P(Cases, BadInput, ::testing::ValuesIn(AllCases()), TestName);

TEST(BadInputSuite, HoldsTheMistakesPromised) { EXPECT_GE(AllCases().size(), 200U); }

}  // namespace
}  // namespace moka
