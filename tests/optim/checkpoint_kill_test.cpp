// A writer is killed before each of its system calls in turn (ptrace): what is left must always resume, from the old
// checkpoint or the new one, with every value right, and the next checkpoint must go through.
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "checkpoint_fixture.h"

namespace moka {
namespace {

enum class Ended { kKilled, kFinished, kNotTraced };

class CheckpointKillTest : public CheckpointTest {
 protected:
  // Writes checkpoint 3 in a child and kills it when it is about to make its `calls`-th system call.
  Ended WriteAndKill(int calls) {
    const CheckpointContent content = Content(3);
    const pid_t child = fork();
    if (child == 0) {
      if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(99);
      raise(SIGSTOP);
      try {
        WriteCheckpoint(folder_, content, true, {.keep_last = 2, .keep_best = true});
      } catch (const Error&) {
        _exit(1);
      }
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFSTOPPED(status)) return Ended::kNotTraced;
    ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
    bool is_entry = true;
    for (int seen = 0;;) {
      ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
      waitpid(child, &status, 0);
      if (WIFEXITED(status)) {
        EXPECT_EQ(WEXITSTATUS(status), 0);
        return Ended::kFinished;
      }
      if (!WIFSTOPPED(status) || WSTOPSIG(status) != (SIGTRAP | 0x80)) continue;
      if (is_entry && ++seen == calls) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        return Ended::kKilled;
      }
      is_entry = !is_entry;
    }
  }
};

TEST_F(CheckpointKillTest, EverySystemCallIsASafePlaceToDie) {
  int kills = 0;
  int olds = 0;
  for (int calls = 1;; ++calls) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    Write(1, true);
    Write(2);
    const Ended ended = WriteAndKill(calls);
    if (ended == Ended::kNotTraced) GTEST_SKIP() << "this machine does not allow ptrace";
    const int64_t found = ResumeFrom(folder_);
    ASSERT_TRUE(found == 2 || found == 3) << "after " << calls << " calls: " << found;
    if (ended == Ended::kFinished) {
      EXPECT_EQ(found, 3);
      break;
    }
    ++kills;
    olds += found == 2 ? 1 : 0;
    Write(4);
    ASSERT_EQ(ResumeFrom(folder_), 4) << calls;
    for (const std::string& name : Files()) ASSERT_EQ(name.find(".tmp"), std::string::npos) << name;
  }
  EXPECT_GT(kills, 50);
  EXPECT_GT(olds, 20);
  EXPECT_LT(olds, kills);
  RecordProperty("kills", kills);
}

}  // namespace
}  // namespace moka
