// NVRTC compiles without a GPU; where it is not installed, only its absence is tested.
#include "layers/kernels/cuda/nvrtc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/error.h"
#include "core/file.h"
#include "core/shared_library.h"

namespace moka::cuda {
namespace {

namespace fs = std::filesystem;

constexpr char kSource[] = "extern \"C\" __global__ void twice(float* x) { x[threadIdx.x] *= 2.0f; }\n";

class NvrtcTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string missing = MissingNvrtc();
    if (!missing.empty()) GTEST_SKIP() << missing;
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::vector<fs::path> Files() const { return fs::exists(folder_) ? ListFiles(folder_, "") : std::vector<fs::path>(); }

  fs::path folder_ = fs::path(testing::TempDir()) / "moka_nvrtc_test";
};

TEST_F(NvrtcTest, CompilesToPtxAndToMachineCode) {
  const std::string ptx = CompileCuda(kSource, {.capability = 90, .wants_ptx = true});
  EXPECT_THAT(ptx, testing::HasSubstr(".target sm_90"));
  EXPECT_THAT(ptx, testing::HasSubstr("twice"));
  EXPECT_EQ(CompileCuda(kSource, {.capability = 80, .wants_ptx = false}).substr(1, 3), "ELF");
}

TEST_F(NvrtcTest, AnErrorCarriesTheLog) {
  try {
    CompileCuda("__global__ void broken() { nothing_of_this_name(); }", {});
    FAIL() << "it compiled";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInternal);
    EXPECT_THAT(error.what(), testing::HasSubstr("nothing_of_this_name"));
  }
}

TEST_F(NvrtcTest, WhatWasCompiledIsRead) {
  const std::string code = CompileCudaCached(kSource, {}, folder_);
  ASSERT_EQ(Files().size(), 1U);
  const auto written = fs::last_write_time(Files()[0]);
  EXPECT_EQ(CompileCudaCached(kSource, {}, folder_), code);
  EXPECT_EQ(fs::last_write_time(Files()[0]), written);
  CompileCudaCached(kSource, {.capability = 90, .wants_ptx = false}, folder_);
  EXPECT_EQ(Files().size(), 2U) << "another chip's code is another file";
}

TEST_F(NvrtcTest, DamageIsCompiledAgain) {
  const std::string code = CompileCudaCached(kSource, {}, folder_);
  ASSERT_EQ(Files().size(), 1U);
  const std::string whole = ReadFile(Files()[0]);
  std::string damaged = whole;
  damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 1);
  for (const std::string& bad : {damaged, whole.substr(0, whole.size() / 2), std::string()}) {
    WriteFileAtomically(Files()[0], bad);
    EXPECT_EQ(CompileCudaCached(kSource, {}, folder_), code);
    EXPECT_EQ(ReadFile(Files()[0]), whole);
  }
}

TEST(SharedLibraryTest, SaysWhatWasLookedForAndWhatToDo) {
  try {
    const SharedLibrary library({"libmoka_is_not_a_library.so.1"}, "the package that has it");
    FAIL() << "it was found";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
    EXPECT_THAT(error.what(), testing::HasSubstr("libmoka_is_not_a_library.so.1"));
    EXPECT_THAT(error.hint(), testing::HasSubstr("the package that has it"));
    EXPECT_THAT(error.hint(), testing::HasSubstr("MOKA_CUDA_LIBRARIES"));
  }
}

TEST(SharedLibraryTest, FindsFunctions) {
  const SharedLibrary library({"libm.so.6"}, "the C library");
  EXPECT_EQ(library.Symbol<double (*)(double)>("sqrt")(9.0), 3.0);
  EXPECT_THROW(library.Symbol<void (*)()>("no_function_of_this_name"), Error);
}

}  // namespace
}  // namespace moka::cuda
