// Every file below bad_input/ is one mistake of a user. Its first lines, comments, say what is done with it and what
// must come of it:
//
//   # The pooling method has one letter too many.      what the mistake is
//   # make: weights w.safetensors ip/0:3x64            files made first (MakeFile below), relative to the case's folder
//   # setup: data import glyphs:20:1 db                moka runs that come before and must succeed
//   # run: model show unknown_enum_value.prototxt      the run under test
//   # exit: 78
//   # error: unknown_enum_value.prototxt:12:25: ...    every line of stderr that starts with "error:", "  help:" or
//   # help: did you mean "MAX"?                        "  note:", in order; {*} stands for any text
//   # narrates: yes                                    other lines may come before the error
//   # writes: runs                                     this path may change; nothing else may
//
// NAME.prototxt is itself the broken file. NAME.case holds several, each after a line "--- FILE" ("--- FILE hex": bytes
// as hex digits, "#" begins a comment). A run has 10 s of CPU and 1 GiB of address space.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "proto/weights.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MOKA_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MOKA_SANITIZED 1
#endif
#endif

namespace moka {
namespace {

namespace fs = std::filesystem;

#ifdef MOKA_SANITIZED
constexpr rlim_t kAddressSpaceBytes = RLIM_INFINITY;  // sanitizers reserve terabytes
constexpr rlim_t kCpuSeconds = 100;
#else
constexpr rlim_t kAddressSpaceBytes = rlim_t{1} << 30U;
constexpr rlim_t kCpuSeconds = 10;
#endif
constexpr auto kWallLimit = std::chrono::seconds(120);  // of a machine that is busy with other work

struct CaseFile {
  std::string name;
  std::string bytes;
};

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

std::vector<std::string> Words(std::string_view text) {
  std::vector<std::string> words;
  for (const std::string& word : Split(text, ' ')) {
    if (!word.empty()) words.push_back(word);
  }
  return words;
}

std::string BytesOfHex(const std::string& text) {
  std::string bytes;
  std::string digits;
  for (const std::string& line : Split(text, '\n')) {
    for (const char c : line.substr(0, line.find('#'))) {
      if (std::isxdigit(static_cast<unsigned char>(c)) == 0) continue;
      digits += c;
      if (digits.size() < 2) continue;
      bytes += static_cast<char>(std::stoi(digits, nullptr, 16));
      digits.clear();
    }
  }
  return bytes;
}

// One "# key: value" line of the head.
void TakeDirective(const std::string& line, Case& c) {
  const size_t colon = line.find(": ");
  if (colon == std::string::npos) return;
  const std::string key = line.substr(2, colon - 2);
  const std::string value = line.substr(colon + 2);
  if (key == "run") c.run = Words(value);
  if (key == "exit") c.exit_code = std::stoi(value);
  if (key == "error") c.lines.push_back("error: " + value);
  if (key == "help" || key == "note") c.lines.push_back(StrCat("  ", key, ": ", value));
  if (key == "setup" || key == "make") c.preparations.push_back({key == "setup", Words(value)});
  if (key == "writes") c.writes = value;
  if (key == "writes" || key == "narrates") c.narrates = true;
}

std::string BytesOf(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << stream.rdbuf();
  return bytes.str();
}

Case ReadCase(const fs::path& path, const fs::path& root) {
  Case c;
  c.name = fs::relative(path, root).replace_extension().string();
  const std::string text = BytesOf(path);
  const bool is_single = path.extension() == ".prototxt";
  if (is_single) c.files.push_back({path.filename().string(), text});
  bool in_head = true;
  bool is_hex = false;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    in_head = in_head && line.starts_with("# ");
    if (in_head) {
      TakeDirective(line, c);
    } else if (!is_single && line.starts_with("--- ")) {
      if (is_hex) c.files.back().bytes = BytesOfHex(c.files.back().bytes);
      const std::vector<std::string> words = Words(line);
      is_hex = words.size() > 2;
      c.files.push_back({words.at(1), {}});
    } else if (!is_single) {
      c.files.back().bytes += line + "\n";
    }
  }
  if (is_hex) c.files.back().bytes = BytesOfHex(c.files.back().bytes);
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

// "ip/0:3x64": blob 0 of layer "ip", some small values of that shape.
NamedBlob BlobOf(const std::string& text) {
  const size_t slash = text.find('/');
  const size_t colon = text.find(':');
  NamedBlob blob;
  blob.layer = text.substr(0, slash);
  blob.index = std::stoi(text.substr(slash + 1, colon - slash - 1));
  std::vector<int64_t> dims;
  for (const std::string& dim : Split(text.substr(colon + 1), 'x')) dims.push_back(std::stoll(dim));
  blob.shape = Shape(dims);
  blob.values.assign(static_cast<size_t>(blob.shape.Count()), 0.01F);
  return blob;
}

// weights FILE BLOB... · cut FILE BYTES · put FILE OFFSET HEX · repeat FILE TIMES HEX · folder NAME
void MakeFile(const fs::path& folder, const std::vector<std::string>& words) {
  const fs::path path = folder / words.at(1);
  const std::string& kind = words.at(0);
  if (kind == "folder") {
    fs::create_directories(path);
  } else if (kind == "weights") {
    std::vector<NamedBlob> blobs;
    for (size_t i = 2; i < words.size(); ++i) blobs.push_back(BlobOf(words[i]));
    WriteSafetensors(path, blobs, {});
  } else if (kind == "cut") {
    ASSERT_GT(fs::file_size(path), std::stoull(words.at(2))) << "nothing would be cut";
    fs::resize_file(path, std::stoull(words.at(2)));
  } else if (kind == "put") {
    std::fstream stream(path, std::ios::binary | std::ios::in | std::ios::out);
    stream.seekp(std::stoll(words.at(2)));
    stream << BytesOfHex(words.at(3));
    ASSERT_TRUE(stream.good());
  } else if (kind == "repeat") {
    const std::string part = BytesOfHex(words.at(3));
    std::ofstream stream(path, std::ios::binary);
    for (int i = 0; i < std::stoi(words.at(2)); ++i) stream << part;
  } else {
    FAIL() << "unknown: make: " << kind;
  }
}

struct Outcome {
  int exit_code = -1;  // -1: it did not end by itself
  std::string end;     // how it ended otherwise
  std::string err;
};

// In the child of fork: only async-signal-safe calls.
[[noreturn]] void BecomeMoka(const fs::path& folder, int out, std::vector<char*>& argv) {
  const rlimit space{kAddressSpaceBytes, kAddressSpaceBytes};
  const rlimit cpu{kCpuSeconds, kCpuSeconds};
  const rlimit core{0, 0};
  const bool ready = setrlimit(RLIMIT_AS, &space) == 0 && setrlimit(RLIMIT_CPU, &cpu) == 0 &&
                     setrlimit(RLIMIT_CORE, &core) == 0 && chdir(folder.c_str()) == 0 &&
                     dup2(out, STDERR_FILENO) >= 0 && dup2(open("/dev/null", O_RDWR), STDOUT_FILENO) >= 0;
  if (ready) execv(argv[0], argv.data());
  _exit(126);
}

Outcome RunMoka(const fs::path& folder, const std::vector<std::string>& words) {
  const fs::path err = folder.parent_path() / "stderr";
  std::vector<std::string> texts = {MOKA_BINARY};
  texts.insert(texts.end(), words.begin(), words.end());
  std::vector<char*> argv;
  for (std::string& text : texts) argv.push_back(text.data());
  argv.push_back(nullptr);
  const int out = open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  const pid_t child = fork();
  if (child == 0) BecomeMoka(folder, out, argv);
  close(out);
  const auto start = std::chrono::steady_clock::now();
  int status = 0;
  bool is_late = false;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (!is_late && std::chrono::steady_clock::now() - start > kWallLimit) {
      is_late = true;
      kill(child, SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  Outcome outcome;
  outcome.err = BytesOf(err);
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) outcome.end = StrCat(is_late ? "hung, " : "", "signal ", WTERMSIG(status));
  return outcome;
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

std::vector<std::string> ErrorLines(const std::string& err) {
  std::vector<std::string> lines;
  for (const std::string& line : Split(err, '\n')) {
    if (line.starts_with("error: ") || line.starts_with("  help: ") || line.starts_with("  note: "))
      lines.push_back(line);
  }
  return lines;
}

// Whether a line is the expected one, where {*} is any text.
bool Fits(std::string_view pattern, std::string_view line) {
  const size_t star = pattern.find("{*}");
  if (star == std::string_view::npos) return pattern == line;
  if (!line.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 3);
  for (size_t i = star; i <= line.size(); ++i) {
    if (Fits(rest, line.substr(i))) return true;
  }
  return false;
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
    for (const CaseFile& file : c.files) {
      fs::create_directories((folder_ / file.name).parent_path());
      std::ofstream(folder_ / file.name, std::ios::binary) << file.bytes;
    }
    for (const Preparation& preparation : c.preparations) {
      if (!preparation.is_run) {
        MakeFile(folder_, preparation.words);
        continue;
      }
      const Outcome outcome = RunMoka(folder_, preparation.words);
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
  const Outcome outcome = RunMoka(folder_, c.run);
  EXPECT_EQ(outcome.exit_code, c.exit_code) << outcome.end << "\n" << outcome.err;
  EXPECT_TRUE(c.narrates || outcome.err.starts_with("error: ")) << outcome.err;
  const std::vector<std::string> lines = ErrorLines(outcome.err);
  const bool fits = std::ranges::equal(c.lines, lines, Fits);
  EXPECT_TRUE(fits) << "expected:\n"
                    << Join(c.lines, "\n") << "\nfound:\n"
                    << Join(lines, "\n") << "\nin:\n"
                    << outcome.err;
  EXPECT_EQ(Join(Changes(before, FilesBelow(folder_), c.writes), ", "), "");
}

std::string TestName(const ::testing::TestParamInfo<Case>& tested) {
  std::string name = tested.param.name;
  std::ranges::replace_if(
      name, [](unsigned char ch) { return std::isalnum(ch) == 0; }, '_');
  return name;
}

void PrintTo(const Case& c, std::ostream* stream) { *stream << c.name; }

INSTANTIATE_TEST_SUITE_P(Cases, BadInput, ::testing::ValuesIn(AllCases()), TestName);

TEST(BadInputSuite, HoldsTheMistakesPromised) { EXPECT_GE(AllCases().size(), 200U); }

}  // namespace
}  // namespace moka
