// Walks /proc/self/task and sets affinity and time slice of every thread, those of libraries too, which have no other
// handle on them.
#include "core/threads/process_threads.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <string>
#include <system_error>

#include "core/text.h"

namespace moka {
namespace {

// The argument of sched_setattr(2): the C library of Debian 12 has no wrapper, and its header and the kernel's exclude
// each other.
struct SchedulingAttributes {
  uint32_t bytes = sizeof(SchedulingAttributes);
  uint32_t policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t slice_ns = 0;  // sched_runtime
  uint64_t deadline_ns = 0;
  uint64_t period_ns = 0;
};

template <class Action>
void ForEachThread(Action&& action) {
  std::error_code code;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", code)) {
    const std::string name = task.path().filename();
    int thread = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), thread).ec == std::errc()) action(thread);
  }
}

}  // namespace

void RunThreadOn(int thread, const std::vector<int>& cpus) {
  cpu_set_t* set = CPU_ALLOC(cpus.back() + 1);
  const size_t bytes = CPU_ALLOC_SIZE(cpus.back() + 1);
  CPU_ZERO_S(bytes, set);
  for (const int cpu : cpus) CPU_SET_S(static_cast<size_t>(cpu), bytes, set);
  sched_setaffinity(thread, bytes, set);
  CPU_FREE(set);
}

void RunProcessOn(const std::vector<int>& cpus) {
  ForEachThread([&](int thread) { RunThreadOn(thread, cpus); });
}

void SliceProcess(uint64_t slice_ns) {
  ForEachThread([&](int thread) {
    SchedulingAttributes attributes;
    if (syscall(SYS_sched_getattr, thread, &attributes, sizeof attributes, 0) != 0) return;
    if (attributes.policy != SCHED_OTHER && attributes.policy != SCHED_BATCH) return;
    attributes.slice_ns = slice_ns;
    syscall(SYS_sched_setattr, thread, &attributes, 0);
  });
}

Error NoThread(int index, int count, const std::system_error& reason) {
  return {ErrorKind::kUnavailable,
          {},
          StrCat("cannot start thread ", index + 1, " of ", count, ": ", reason.what()),
          "a limit of processes or memory is reached: ulimit -u, ulimit -v, or the container's"};
}

}  // namespace moka
