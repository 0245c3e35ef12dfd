// A run of the binary on input that is not to be trusted, and what it took of the machine.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "core/file.h"
#include "core/text.h"
#include "tests/sanitized.h"

namespace moka {

struct MeasuredRun {
  int code = -1;           // exit code; -1: ended by a signal
  int signal = 0;          // that ended it
  bool is_late = false;    // it was ended at the limit
  int64_t peak_bytes = 0;  // resident, of the process or of the largest of its children
  double cpu_seconds = 0;  // of the process and of its children: other work of the machine does not count
  std::string said{};      // to both outputs
};

// The resources that a run may take. The limit of the clock only ends what hangs, as a busy machine is slow.
constexpr int64_t kMostBytes = int64_t{512} << 20;
constexpr double kMostCpuSeconds = kIsSanitized ? 100 : 10;
constexpr std::chrono::seconds kWallLimit{kIsSanitized ? 300 : 60};

inline double SecondsOf(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

// Runs moka with these words in the folder, with an open file as its input, for `limit` at most.
inline MeasuredRun RunMeasured(const std::vector<std::string>& words, const std::filesystem::path& folder,
                               const std::filesystem::path& input = "/dev/null",
                               std::chrono::seconds limit = kWallLimit) {
  const std::filesystem::path said_file = folder / "said.txt";
  std::vector<char*> argv;
  std::string binary = MOKA_BINARY;
  std::vector<std::string> own = words;
  argv.push_back(binary.data());
  for (std::string& word : own) argv.push_back(word.data());
  argv.push_back(nullptr);
  const auto begin = std::chrono::steady_clock::now();
  const pid_t pid = fork();
  if (pid == 0) {
    const int in = open(input.c_str(), O_RDONLY | O_CLOEXEC);
    const int said = open(said_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
    if (dup2(in, 0) < 0 || dup2(said, 1) < 0 || dup2(said, 2) < 0 || chdir(folder.c_str()) != 0) _exit(126);
    setenv("OMP_NUM_THREADS", "1", 1);
    execv(binary.c_str(), argv.data());
    _exit(127);
  }
  MeasuredRun run;
  rusage usage{};
  int status = 0;
  while (wait4(pid, &status, WNOHANG, &usage) == 0) {
    if (!run.is_late && std::chrono::steady_clock::now() - begin > limit) {
      run.is_late = true;
      kill(pid, SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  run.cpu_seconds = SecondsOf(usage.ru_utime) + SecondsOf(usage.ru_stime);
  run.peak_bytes = int64_t{usage.ru_maxrss} * 1024;
  if (WIFEXITED(status)) run.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) run.signal = WTERMSIG(status);
  run.said = ReadFile(said_file);
  return run;
}

// Sanitizers take memory of their own, so the resident memory says nothing there.
inline void ExpectWithinLimits(const MeasuredRun& run, const std::string& what) {
  EXPECT_FALSE(run.is_late) << what << "\n" << run.said;
  EXPECT_LT(run.cpu_seconds, kMostCpuSeconds) << what << "\n" << run.said;
  if (!kIsSanitized) {
    EXPECT_LT(run.peak_bytes, kMostBytes) << what << "\n" << run.said;
  }
}

// The words of a line, with `from`, one character, replaced in each. They hold no blanks.
inline std::vector<std::string> WordsOf(const std::string& line, const std::string& from, const std::string& to) {
  std::vector<std::string> words;
  for (std::string word : Split(line, ' ')) {
    for (size_t at = 0; (at = word.find(from, at)) != std::string::npos; at += to.size()) word.replace(at, 1, to);
    if (!word.empty()) words.push_back(std::move(word));
  }
  return words;
}

}  // namespace moka
