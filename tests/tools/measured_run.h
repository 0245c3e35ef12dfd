// A run of the binary on input that is not to be trusted, and what it took of the machine.
#pragma once

#include <fcntl.h>
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

namespace moka {

struct MeasuredRun {
  int code = -1;           // exit code; -1: ended by a signal
  int signal = 0;          // that ended it
  bool is_late = false;    // it was ended at the limit
  int64_t peak_bytes = 0;  // resident, of the process or of the largest of its children
  double seconds = 0;
  std::string said{};  // to both outputs
};

// Runs moka with these words in the folder, with an open file as its input, for `limit` at most.
inline MeasuredRun RunMeasured(const std::vector<std::string>& words, const std::filesystem::path& folder,
                               const std::filesystem::path& input = "/dev/null",
                               std::chrono::seconds limit = std::chrono::seconds(30)) {
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
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  run.peak_bytes = int64_t{usage.ru_maxrss} * 1024;
  if (WIFEXITED(status)) run.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) run.signal = WTERMSIG(status);
  run.said = ReadFile(said_file);
  return run;
}

// The words of a line, with `from` replaced in each. They hold no blanks.
inline std::vector<std::string> WordsOf(const std::string& line, const std::string& from, const std::string& to) {
  std::vector<std::string> words;
  for (std::string word : Split(line, ' ')) {
    for (size_t at = 0; (at = word.find(from, at)) != std::string::npos; at += to.size()) word.replace(at, 1, to);
    if (!word.empty()) words.push_back(std::move(word));
  }
  return words;
}

}  // namespace moka
