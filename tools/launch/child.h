// Other programs as children: commands whose output is read, and the launcher (mpirun, srun) that a job runs under.
#pragma once

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace moka {

// The output of a command that was waited for.
struct CommandOutput {
  int code = 0;  // exit code, or 128 + the signal it ended by; 127: it could not be started; 124: out of time
  std::string out;
  std::string err;
  double begin_s = 0;  // seconds since 1970
  double end_s = 0;
};

// Runs the commands at the same time, without input, and reads what they print. A command that has not ended after
// `timeout_s` is killed.
std::vector<CommandOutput> RunCommands(const std::vector<std::vector<std::string>>& commands, double timeout_s);

// While it lives, SIGINT, SIGTERM, SIGUSR1 and SIGCHLD wait for RunJob instead of acting. To be made before any thread
// is started, since threads take over what is blocked.
class HeldSignals {
 public:
  HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  ~HeldSignals();

 private:
  sigset_t former_{};
};

struct JobOptions {
  std::filesystem::path out{};          // takes its standard output, written anew; empty: that of this process
  std::function<void()> each_second{};  // called about once a second while it runs
  // It knows no SIGUSR1: it and what it started get SIGTERM instead, and SIGKILL when it has ended. It has no input.
  bool is_foreign = false;
};

struct JobEnd {
  int code = 0;              // exit code, or 128 + signal
  bool was_stopped = false;  // a signal was passed on
  int64_t peak_bytes = 0;    // the most that it, or one of those that it waited for, had resident
};

// Runs a launcher with this process's streams and waits for it. The first SIGINT, SIGTERM or SIGUSR1 is passed on as
// SIGUSR1, which mpirun and srun hand to every rank: it asks for a checkpoint. (Open MPI's mpirun answers SIGINT and
// SIGTERM with SIGKILL for its ranks after one second.) A second SIGINT or SIGTERM is passed on as it is and ends the
// job. The job has a process group of its own, so that a terminal's ^C reaches it once, by this way.
// A signal that came before starts nothing. Requires: HeldSignals. Errors: kUnavailable when the program cannot be
// started, kCantCreate for the file of its output.
JobEnd RunJob(const std::vector<std::string>& words, const JobOptions& options = {});

}  // namespace moka
