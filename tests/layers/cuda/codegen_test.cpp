// The generated kernels of pointwise and reduce_sum without a GPU: their text, compiled by the host's compiler, gives
// the reference's values for every case of the catalogue, and NVRTC takes it.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "core/file.h"
#include "core/text.h"
#include "layers/catalog.h"
#include "layers/cuda/codegen/generate.h"
#include "layers/cuda/nvrtc.h"
#include "tests/layers/cuda/codegen_case.h"
#include "tests/layers/op_run.h"

namespace moka::cuda {
namespace {

namespace fs = std::filesystem;

// One generated program of a case under some types.
struct Job {
  CodegenCase subject;
  Generated generated;
};

std::vector<Job> AllJobs() {
  std::vector<Job> jobs;
  for (CodegenCase& subject : CodegenCases()) {
    const std::string name = StrCat("k", jobs.size());
    const KernelQuery query = subject.query();
    Generated generated = Generate(name, query, Alignment::kVectors);
    jobs.push_back({std::move(subject), std::move(generated)});
  }
  return jobs;
}

// All kernels of the jobs in one source.
std::string SourceOfAll(const std::vector<Job>& jobs, Target target) {
  std::string source(Prelude(target));
  for (const Job& job : jobs) {
    for (const GeneratedStage& stage : job.generated.stages) source += WithEntry(stage.kernel, target);
  }
  return source;
}

class HostKernels {
 public:
  explicit HostKernels(const std::string& source) {
    const fs::path folder = fs::path(testing::TempDir()) / StrCat("moka_codegen_", getpid());
    fs::create_directories(folder);
    WriteFileAtomically(folder / "kernels.cpp", source);
    const std::string command =
        StrCat(MOKA_COMPILER, " -std=c++20 -O1 -fno-strict-aliasing -w -shared -fPIC -I", MOKA_SOURCE_DIR, " -o ",
               (folder / "kernels.so").string(), " ", (folder / "kernels.cpp").string());
    is_compiled_ = std::system(command.c_str()) == 0;  // NOLINT(concurrency-mt-unsafe)
    if (is_compiled_) library_ = dlopen((folder / "kernels.so").c_str(), RTLD_NOW);
    fs::remove_all(folder);
  }
  bool is_compiled() const { return is_compiled_ && library_ != nullptr; }
  void Run(const std::string& name, int64_t blocks, const void* arguments) const {
    using Entry = void (*)(unsigned, const void*);
    const auto entry = reinterpret_cast<Entry>(dlsym(library_, name.c_str()));
    ASSERT_NE(entry, nullptr) << name;
    entry(static_cast<unsigned>(blocks), arguments);
  }

 private:
  bool is_compiled_ = false;
  void* library_ = nullptr;
};

void RunAndCompare(const HostKernels& kernels, const Job& job) {
  const CodegenCase& subject = job.subject;
  SCOPED_TRACE(subject.name());
  std::vector<OwnedTensor> memory;
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
  const std::vector<RefTensor> values = subject.Values();
  for (size_t i = 0; i < values.size(); ++i) {
    inputs.push_back(memory.emplace_back(ToTensor(values[i], subject.inputs[i])).tensor());
  }
  for (const TensorType& type : subject.outputs) outputs.push_back(memory.emplace_back(type).tensor());
  const Buffer scratch = Buffer::Allocate(job.generated.scratch_bytes);
  for (const GeneratedStage& stage : job.generated.stages) {
    const std::vector<uint64_t> words = ArgumentWords(stage, inputs, outputs, scratch.data());
    kernels.Run(stage.kernel.name, stage.blocks, words.data());
  }
  subject.ExpectReference(values, outputs);
}

TEST(CodegenTest, EveryCaseMatchesTheReferenceOnTheHost) {
  const std::vector<Job> jobs = AllJobs();
  ASSERT_GT(jobs.size(), 100U);
  const HostKernels kernels(SourceOfAll(jobs, Target::kHost));
  ASSERT_TRUE(kernels.is_compiled());
  for (const Job& job : jobs) RunAndCompare(kernels, job);
}

// Each case once a chip, under other types: what a type changes is small beside what a compilation takes.
TEST(CodegenTest, NvrtcTakesEveryCase) {
  const std::string missing = MissingNvrtc();
  if (!missing.empty()) GTEST_SKIP() << missing;
  const std::map<int, std::set<std::string>> variants = {{80, {"bfloat16", "float32 to bfloat16"}},
                                                         {90, {"float32", "float16 channels last"}}};
  for (const auto& [capability, wanted] : variants) {
    std::vector<Job> jobs = AllJobs();
    std::erase_if(jobs, [&](const Job& job) { return !wanted.contains(job.subject.variant); });
    const std::string source = SourceOfAll(jobs, Target::kDevice);
    const std::string ptx = CompileCuda(source, {.capability = capability, .wants_ptx = true});
    for (const Job& job : jobs) {
      for (const GeneratedStage& stage : job.generated.stages) {
        EXPECT_THAT(ptx, testing::HasSubstr(StrCat(".entry ", stage.kernel.name, "(")));
      }
    }
  }
}

// Halves are converted by instructions that only the assembler checks.
TEST(CodegenTest, AKernelOfHalvesBecomesMachineCode) {
  const std::string missing = MissingNvrtc();
  if (!missing.empty()) GTEST_SKIP() << missing;
  std::vector<Job> jobs = AllJobs();
  std::erase_if(jobs, [](const Job& job) {
    return job.subject.op_case.name != "noise_in_rows" && job.subject.op_case.name != "channels";
  });
  ASSERT_GE(jobs.size(), 10U);
  const std::string code = CompileCuda(SourceOfAll(jobs, Target::kDevice), {.capability = 90, .wants_ptx = false});
  EXPECT_EQ(code.substr(1, 3), "ELF");
}

}  // namespace
}  // namespace moka::cuda
