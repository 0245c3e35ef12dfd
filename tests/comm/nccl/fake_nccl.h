// The counts that a test asks of the library that stands for NCCL; found in it by name.
#pragma once

struct FakeNcclCounts {
  int groups = 0;  // with something in them
  int sums = 0;
  int aborts = 0;
  int finalized = 0;
  int destroyed = 0;
};

extern "C" {
// Since the last time.
FakeNcclCounts FakeNcclTakeCounts();
// The state of all communicators from now on, an ncclResult_t; ncclSuccess: what it is.
void FakeNcclFailWith(int result);
}
