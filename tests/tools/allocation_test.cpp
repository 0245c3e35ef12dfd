// A steady-state iteration allocates nothing: every operator new of the process is counted, apart by who called.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "core/parallel.h"
#include "graph/program.h"
#include "proto/net_file.h"
#include "tools/timed_net.h"

extern char __executable_start;  // NOLINT: the linker's names for this program's code
extern char etext;               // NOLINT

namespace {

std::atomic<bool> g_counting = false;
std::atomic<int64_t> g_own = 0;      // allocations with a frame of this program right above operator new
std::atomic<int64_t> g_library = 0;  // made inside a shared library

// oneDNN's execute builds a small map of arguments each time; it lives in libdnnl, so the caller's address tells.
bool CalledFromLibrary(void* caller) {
  return caller < static_cast<void*>(&__executable_start) || caller >= static_cast<void*>(&etext);
}

void* Allocate(std::size_t bytes, std::size_t alignment, void* caller) {
  if (g_counting) ++(CalledFromLibrary(caller) ? g_library : g_own);
  void* memory = alignment > alignof(std::max_align_t)
                     ? std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment)
                     : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return Allocate(bytes, 0, __builtin_return_address(0)); }
void* operator new[](std::size_t bytes) { return Allocate(bytes, 0, __builtin_return_address(0)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return Allocate(bytes, static_cast<std::size_t>(alignment), __builtin_return_address(0));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace moka {
namespace {

void ExpectNoAllocation(const std::string& model, Phase phase) {
  SetThreadCount(2);
  const auto net = MakeTimedNet(ReadNet(std::string(MOKA_SOURCE_DIR) + "/models/" + model), phase, {});
  constexpr int kIterations = 100;
  for (int i = 0; i < 3; ++i) net->program->Run();
  g_own = 0;
  g_library = 0;
  g_counting = true;
  for (int i = 0; i < kIterations; ++i) net->program->Run();
  g_counting = false;
  EXPECT_EQ(g_own.load(), 0) << model;
  // What oneDNN makes inside execute is the same each time: nothing grows.
  EXPECT_EQ(g_library.load() % kIterations, 0) << model;
  testing::Test::RecordProperty("library_allocations_per_iteration", static_cast<int>(g_library.load() / kIterations));
}

TEST(AllocationTest, TrainingLeNetAllocatesNothingInTheSteadyState) {
  ExpectNoAllocation("lenet/train_val.prototxt", TRAIN);
}
TEST(AllocationTest, TrainingResNet20AllocatesNothingInTheSteadyState) {
  ExpectNoAllocation("cifar10_resnet20/train_val.prototxt", TRAIN);
}
TEST(AllocationTest, InferenceAllocatesNothingInTheSteadyState) { ExpectNoAllocation("lenet/deploy.prototxt", TEST); }

}  // namespace
}  // namespace moka
