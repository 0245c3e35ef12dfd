// Where the threads of this process run, and for how long at a time, whoever made them.
#pragma once

#include <cstdint>
#include <system_error>
#include <vector>

#include "core/error.h"

namespace moka {

// Lets a thread (0: the calling one) run on these CPUs only. Where the system refuses, because a CPU went offline or
// the thread has ended, nothing changes. Requires: ascending, not empty.
void RunThreadOn(int thread, const std::vector<int>& cpus);

// Lets all threads that this process has now, and those they will make, run on these CPUs only. Likewise.
void RunProcessOn(const std::vector<int>& cpus);

// Asks the system to let each thread that this process has now run for `slice_ns` at a time, 100,000 to 100,000,000 (0:
// as the system has it). A thread with a shorter slice is let in sooner when it wakes, and gets as much time in all.
// Linux 6.12 and later; others take no notice. Threads with a policy for real time keep theirs.
void SliceProcess(uint64_t slice_ns);

// Returns the error to throw where the system does not give a thread: the `index`-th, from 0 on, of `count`. Kind:
// kUnavailable.
Error NoThread(int index, int count, const std::system_error& reason);

}  // namespace moka
