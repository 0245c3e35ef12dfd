// A steady-state run of a program allocates nothing in Moka's own code; what libraries allocate is counted apart and
// must be the same each time.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "core/threads/parallel.h"
#include "graph/program.h"
#include "proto/nets/net_file.h"
#include "tools/measure/timed_net.h"

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
// The library's own non-throwing forms would call those above, a sanitizer's would not.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return Allocate(bytes, 0, __builtin_return_address(0));
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return Allocate(bytes, 0, __builtin_return_address(0));
}
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
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

// The model with its data layers replaced by zeros of a small batch.
NetParameter WithoutData(const std::string& model, const Shape& data) {
  NetParameter net = ReadNet(std::string(MOKA_SOURCE_DIR) + "/models/" + model);
  for (LayerParameter& layer : *net.mutable_layer()) {
    if (layer.type() != "Data") continue;
    layer.set_type("DummyData");
    layer.clear_data_param();
    layer.clear_transform_param();
    BlobShape* pictures = layer.mutable_dummy_data_param()->add_shape();
    for (const int64_t dim : data.dims()) pictures->add_dim(dim);
    layer.mutable_dummy_data_param()->add_shape()->add_dim(data[0]);
  }
  return net;
}

void ExpectNoAllocation(const NetParameter& param, Phase phase) {
  SetThreadCount(2);
  const auto net = MakeTimedNet(param, phase, {});
  constexpr int kIterations = 100;
  for (int i = 0; i < 3; ++i) net->program->Run();
  g_own = 0;
  g_library = 0;
  g_counting = true;
  for (int i = 0; i < kIterations; ++i) net->program->Run();
  g_counting = false;
  EXPECT_EQ(g_own.load(), 0);
  // oneDNN allocates the same inside execute each time: nothing grows.
  EXPECT_EQ(g_library.load() % kIterations, 0);
  testing::Test::RecordProperty("library_allocations_per_iteration", static_cast<int>(g_library.load() / kIterations));
}

TEST(AllocationTest, TrainingLeNetAllocatesNothingInTheSteadyState) {
  ExpectNoAllocation(WithoutData("lenet/train_val.prototxt", Shape{8, 1, 28, 28}), TRAIN);
}
TEST(AllocationTest, TrainingResNet20AllocatesNothingInTheSteadyState) {
  ExpectNoAllocation(WithoutData("cifar10_resnet20/train_val.prototxt", Shape{4, 3, 32, 32}), TRAIN);
}
TEST(AllocationTest, InferenceAllocatesNothingInTheSteadyState) {
  ExpectNoAllocation(ReadNet(std::string(MOKA_SOURCE_DIR) + "/models/lenet/deploy.prototxt"), TEST);
}

}  // namespace
}  // namespace moka
