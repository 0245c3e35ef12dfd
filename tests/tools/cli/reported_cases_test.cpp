// Every folder below tests/cases with a file "case" is something that users of other tools reported: a file, a flag or
// a mistake of theirs that was silently ignored or misread. The file's head says what was reported, where, and what is
// right:
//
//   # A path with spaces is cut at the first of them.   what happened to the user
//   # report: https://github.com/BVLC/caffe/issues/1935
//   # right: the label is what follows the last space.  what must happen, and why
//   # make: picture 'p/my cat.png' 4x4                   files made first (MakeFile)
//   # run: train solver.prototxt --device cpu            a run; those of a case follow each other in one folder
//   # exit: 0                                            of the run above; 0 if it is not said
//   # err: net.prototxt:3:9: {*}                         a line of its stderr, of several in their order
//   # error: ...  # help: ...  # note: ...  # warning: ...   likewise; all lines of these kinds must be listed,
//                                                      one that is repeated once
//   # out: accuracy = {~0.75}                            a line of its stdout, of several in their order
//   # not: Segmentation                                  a text that neither has
//   # values: runs/latest/checkpoints/iter_0000001.safetensors ip/0 0.5,0.25   a blob of weights it wrote, within 1e-5
//   # in: runs/latest/log.txt {*}lr = {~0.01}            a line of a file it wrote
//   # exists: runs/latest/config                         a path that is there afterwards
//   # absent: db                                         a path that is not
//
// In patterns {*} is any text and {~V} a number near V.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "core/text.h"
#include "proto/weights/weights.h"
#include "tests/tools/cli/case_file.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

const std::set<std::string> kOthers = {"absent", "exists", "in", "not", "values"};
const std::vector<std::string> kSaid = {"error: ", "warning: ", "  help: ", "  note: "};

struct ReportedRun {
  std::vector<std::string> words;
  int exit_code = 0;
  std::vector<std::string> said;  // lines as in kSaid
  std::vector<std::string> err;
  std::vector<std::string> out;
  std::vector<CaseLine> others;  // not, values, in, exists, absent
};

struct Reported {
  std::string name;
  std::string title;
  std::string right;
  std::vector<std::string> reports;
  std::vector<std::vector<std::string>> made;
  std::vector<CaseFile> files;
  std::vector<ReportedRun> runs;
};

// A line that speaks of the run before it. Whether there is such a line.
bool TakeExpectation(const CaseLine& line, ReportedRun& run) {
  const auto& [key, value] = line;
  if (key == "exit") {
    run.exit_code = std::stoi(value);
  } else if (key == "error" || key == "warning") {
    run.said.push_back(StrCat(key, ": ", value));
  } else if (key == "help" || key == "note") {
    run.said.push_back(StrCat("  ", key, ": ", value));
  } else if (key == "err") {
    run.err.push_back(value);
  } else if (key == "out") {
    run.out.push_back(value);
  } else if (kOthers.contains(key)) {
    run.others.push_back(line);
  } else {
    return false;
  }
  return true;
}

Reported ReadReported(const fs::path& folder) {
  CaseText text = ReadCaseText(folder / "case");
  Reported c;
  c.name = folder.filename().string();
  c.title = text.title;
  c.files = std::move(text.files);
  for (const CaseLine& line : text.head) {
    if (line.key == "report") {
      c.reports.push_back(line.value);
    } else if (line.key == "right") {
      c.right = line.value;
    } else if (line.key == "make") {
      c.made.push_back(Words(line.value));
    } else if (line.key == "run") {
      c.runs.emplace_back().words = Words(line.value);
    } else if (c.runs.empty() || !TakeExpectation(line, c.runs.back())) {
      ADD_FAILURE() << c.name << ": a head has no such line here: " << line.key;
    }
  }
  return c;
}

std::vector<Reported> AllReported() {
  std::vector<fs::path> folders;
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(MOKA_SOURCE_DIR) / "tests/cases")) {
    if (fs::exists(entry.path() / "case")) folders.push_back(entry.path());
  }
  std::ranges::sort(folders);
  std::vector<Reported> cases;
  for (const fs::path& folder : folders) cases.push_back(ReadReported(folder));
  return cases;
}

// Each pattern has a line that fits, in order.
void ExpectLines(const std::vector<std::string>& patterns, const std::string& text, const std::string& stream) {
  const std::vector<std::string> lines = Split(text, '\n');
  size_t next = 0;
  for (const std::string& pattern : patterns) {
    while (next < lines.size() && !Fits(pattern, lines[next])) ++next;
    ASSERT_LT(next, lines.size()) << "no line of " << stream << " fits, in order: " << pattern;
    ++next;
  }
}

// "FILE LAYER/I V,V,...": the blob's first values, or all of them.
void ExpectValues(const fs::path& folder, const std::vector<std::string>& words) {
  const Weights weights = ReadWeights(folder / words.at(0));
  const auto blob = std::ranges::find_if(
      weights.blobs, [&](const NamedBlob& one) { return StrCat(one.layer, "/", one.index) == words.at(1); });
  ASSERT_NE(blob, weights.blobs.end()) << words[1];
  const std::vector<std::string> expected = Split(words.at(2), ',');
  ASSERT_LE(expected.size(), blob->values.size()) << words[1];
  for (size_t i = 0; i < expected.size(); ++i) {
    const double value = std::stod(expected[i]);
    EXPECT_NEAR(blob->values[i], value, 1e-5 * std::max(1.0, std::abs(value))) << words[1] << " at " << i;
  }
}

// "FILE PATTERN".
void ExpectLine(const fs::path& folder, const std::string& text) {
  const size_t space = text.find(' ');
  ExpectLines({text.substr(space + 1)}, BytesOf(folder / text.substr(0, space)), text.substr(0, space));
}

class ReportedCases : public ::testing::TestWithParam<Reported> {
 protected:
  void SetUp() override {
    setenv("OMP_NUM_THREADS", "1", 1);
    std::string pattern = (fs::temp_directory_path() / "moka_reported_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    temporary_ = pattern;
    folder_ = temporary_ / "case";
    fs::create_directory(folder_);
  }
  void TearDown() override { fs::remove_all(temporary_); }

  void Check(const ReportedRun& run) const {
    const MokaOutcome outcome = RunMoka(folder_, run.words);
    SCOPED_TRACE(StrCat("moka ", Join(run.words, " "), "\nstdout:\n", outcome.out, "stderr:\n", outcome.err));
    EXPECT_EQ(outcome.exit_code, run.exit_code) << outcome.end;
    std::vector<std::string> said = LinesOf(outcome.err, kSaid);
    said.erase(std::ranges::unique(said).begin(), said.end());
    EXPECT_TRUE(std::ranges::equal(run.said, said, Fits)) << "expected:\n" << Join(run.said, "\n");
    ExpectLines(run.err, outcome.err, "stderr");
    ExpectLines(run.out, outcome.out, "stdout");
    for (const CaseLine& line : run.others) CheckOther(line, outcome);
  }

  void CheckOther(const CaseLine& line, const MokaOutcome& outcome) const {
    const auto& [key, value] = line;
    if (key == "values") {
      ExpectValues(folder_, Words(value));
    } else if (key == "in") {
      ExpectLine(folder_, value);
    } else if (key == "not") {
      EXPECT_EQ((outcome.out + outcome.err).find(value), std::string::npos) << value;
    } else {
      EXPECT_EQ(fs::exists(folder_ / value), key == "exists") << value;
    }
  }

  fs::path temporary_;
  fs::path folder_;
};

TEST_P(ReportedCases, ComesOutRight) {
  const Reported& c = GetParam();
  ASSERT_FALSE(c.title.empty());
  ASSERT_FALSE(c.right.empty());
  ASSERT_FALSE(c.runs.empty());
  ASSERT_FALSE(c.reports.empty());
  for (const std::string& report : c.reports) ASSERT_TRUE(report.starts_with("https://")) << report;
  PlaceCaseFiles(folder_, c.files);
  for (const std::vector<std::string>& words : c.made) ASSERT_NO_FATAL_FAILURE(MakeFile(folder_, words));
  for (const ReportedRun& run : c.runs) Check(run);
}

std::string TestName(const ::testing::TestParamInfo<Reported>& tested) { return TestNameOf(tested.param.name); }

void PrintTo(const Reported& c, std::ostream* stream) { *stream << c.title; }

INSTANTIATE_TEST_SUITE_P(Cases, ReportedCases, ::testing::ValuesIn(AllReported()), TestName);

}  // namespace
}  // namespace moka
