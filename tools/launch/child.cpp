// fork and exec with pipes, polled together with a deadline. Between the two only async-signal-safe calls are made;
// signals to this process are passed on.
#include "tools/launch/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/standard_streams.h"
#include "core/system_reason.h"
#include "core/text.h"
#include "core/wall_clock.h"

namespace moka {
namespace {

constexpr int kNotStarted = 127;
constexpr int kOutOfTime = 124;
constexpr int kSignalled = 128;

int CodeOf(int status) { return WIFSIGNALED(status) ? kSignalled + WTERMSIG(status) : WEXITSTATUS(status); }

// The words as execvp takes them; they outlive the result.
std::vector<char*> ArgvOf(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));  // execvp does not write
  argv.push_back(nullptr);
  return argv;
}

sigset_t HeldSet() {
  sigset_t set{};
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD}) sigaddset(&set, signal);
  return set;
}

// In the child of fork: only async-signal-safe calls.
[[noreturn]] void Become(char* const* argv, const char* failure) {
  sigset_t none{};
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  RestoreStreamSignals();
  execvp(argv[0], argv);
  (void)!write(STDERR_FILENO, failure, std::strlen(failure));
  _exit(kNotStarted);
}

struct Running {
  pid_t pid = -1;
  int out = -1;
  int err = -1;
};

Running Start(const std::vector<std::string>& words) {
  std::array<int, 2> out{};
  std::array<int, 2> err{};
  if (pipe2(out.data(), O_CLOEXEC) != 0) throw Error(ErrorKind::kUnavailable, "no pipe is left for a command");
  if (pipe2(err.data(), O_CLOEXEC) != 0) throw Error(ErrorKind::kUnavailable, "no pipe is left for a command");
  const std::vector<char*> argv = ArgvOf(words);
  const std::string failure = StrCat("cannot start ", Printable(words.at(0)), "\n");
  const pid_t pid = fork();
  if (pid < 0) throw Error(ErrorKind::kUnavailable, "the system starts no more processes");
  if (pid == 0) {
    const int null = open("/dev/null", O_RDONLY);
    dup2(null, STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    Become(argv.data(), failure.c_str());
  }
  close(out[1]);
  close(err[1]);
  return {pid, out[0], err[0]};
}

// Reads what is there. Returns whether more may come.
bool ReadSome(int fd, std::string& text) {
  std::array<char, 4096> part{};
  const ssize_t n = read(fd, part.data(), part.size());
  if (n > 0) text.append(part.data(), static_cast<size_t>(n));
  return n > 0 || (n < 0 && errno == EINTR);
}

// Reads both streams until they are closed or the deadline has come, and takes the exit code.
void FinishChild(Running& child, CommandOutput& output, double deadline_s) {
  while (child.out >= 0 || child.err >= 0) {
    const auto left_ms = static_cast<int>((deadline_s - SecondsSince1970()) * 1000);
    std::array<pollfd, 2> streams = {pollfd{child.out, POLLIN, 0}, pollfd{child.err, POLLIN, 0}};
    if (left_ms <= 0 || poll(streams.data(), streams.size(), left_ms) == 0) {
      kill(child.pid, SIGKILL);
      output.code = kOutOfTime;
      break;
    }
    if (streams[0].revents != 0 && !ReadSome(child.out, output.out)) close(std::exchange(child.out, -1));
    if (streams[1].revents != 0 && !ReadSome(child.err, output.err)) close(std::exchange(child.err, -1));
  }
  for (const int fd : {child.out, child.err}) {
    if (fd >= 0) close(fd);
  }
  int status = 0;
  while (waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (output.code == 0) output.code = CodeOf(status);
  output.end_s = SecondsSince1970();
}

// Takes a signal that asked to stop before the job was started; 0: none.
int TakeStopThatWaits() {
  sigset_t set{};
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaddset(&set, signal);
  const timespec now{0, 0};
  return std::max(0, sigtimedwait(&set, nullptr, &now));
}

// Passes a signal on to the job. `passed` counts those it had.
void PassOn(pid_t job, int signal, bool is_foreign, int& passed) {
  ++passed;
  if (is_foreign) {
    LogInfo("stopping");
    kill(-job, passed == 1 ? SIGTERM : SIGKILL);
  } else if (passed == 1) {
    LogInfo("stopping: the ranks are asked for a checkpoint");
    kill(job, SIGUSR1);
  } else if (signal != SIGUSR1) {
    LogWarning("stopping now, without a checkpoint");
    kill(job, signal);
  }
}

// The caller closes it.
int OpenForOutput(const std::filesystem::path& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) throw Error(ErrorKind::kCantCreate, StrCat("cannot write ", path.string(), ": ", SystemReason()));
  return fd;
}

}  // namespace

std::vector<CommandOutput> RunCommands(const std::vector<std::vector<std::string>>& commands, double timeout_s) {
  std::vector<CommandOutput> outputs(commands.size());
  std::vector<Running> children;
  for (size_t i = 0; i < commands.size(); ++i) {
    outputs[i].begin_s = SecondsSince1970();
    children.push_back(Start(commands[i]));
  }
  for (size_t i = 0; i < commands.size(); ++i) FinishChild(children[i], outputs[i], outputs[i].begin_s + timeout_s);
  return outputs;
}

HeldSignals::HeldSignals() {
  const sigset_t set = HeldSet();
  pthread_sigmask(SIG_BLOCK, &set, &former_);
}

HeldSignals::~HeldSignals() { pthread_sigmask(SIG_SETMASK, &former_, nullptr); }

JobEnd RunJob(const std::vector<std::string>& words, const JobOptions& options) {
  const sigset_t set = HeldSet();
  if (const int signal = TakeStopThatWaits(); signal != 0) return {.code = kSignalled + signal, .was_stopped = true};
  const std::vector<char*> argv = ArgvOf(words);
  const std::string failure = StrCat("error: cannot start ", Printable(words.at(0)), "\n");
  const int out = options.out.empty() ? -1 : OpenForOutput(options.out);
  // A process in the background that reads a terminal would be stopped for ever.
  const int nothing = options.is_foreign ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;
  const pid_t launcher = getpid();
  const pid_t job = fork();
  if (job < 0) throw Error(ErrorKind::kUnavailable, "the system starts no more processes");
  if (job == 0) {
    setpgid(0, 0);
    if (out >= 0) dup2(out, STDOUT_FILENO);
    if (nothing >= 0) dup2(nothing, STDIN_FILENO);
    prctl(PR_SET_PDEATHSIG, SIGTERM);  // a launcher that is killed leaves no ranks behind
    if (getppid() != launcher) _exit(kNotStarted);
    Become(argv.data(), failure.c_str());
  }
  setpgid(job, job);  // whichever of the two comes first
  if (out >= 0) close(out);
  if (nothing >= 0) close(nothing);
  int passed = 0;
  int status = 0;
  rusage used{};
  while (wait4(job, &status, WNOHANG, &used) == 0) {
    const timespec pause{1, 0};  // a SIGCHLD of before is no loss then
    const int signal = sigtimedwait(&set, nullptr, &pause);
    if (signal > 0 && signal != SIGCHLD) PassOn(job, signal, options.is_foreign, passed);
    if (options.each_second) options.each_second();
  }
  if (options.is_foreign) kill(-job, SIGKILL);  // what it has left behind
  const int code = CodeOf(status);
  if (code == kNotStarted && !options.is_foreign)
    throw Error(ErrorKind::kUnavailable, StrCat("cannot start ", Printable(words[0])));
  return {.code = code, .was_stopped = passed > 0, .peak_bytes = int64_t{used.ru_maxrss} * 1024};
}

}  // namespace moka
