// The generated kernels of pointwise and reduce_sum without a GPU: their text, compiled by the host's compiler, gives
// the reference's values for every case of the catalogue, and NVRTC takes it.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "core/file.h"
#include "core/text.h"
#include "layers/kernels/cuda/codegen/group.h"
#include "layers/kernels/cuda/codegen/pointwise_text.h"
#include "layers/kernels/cuda/nvrtc.h"
#include "layers/net/catalog.h"
#include "layers/ops/maths/group.h"
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

// An environment's variable, else what the build knew: tests also run where they were not built.
std::string Known(const char* variable, const char* built) {
  const char* given = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe)
  return given != nullptr && *given != '\0' ? given : built;
}

std::string SourceFolder() { return Known("MOKA_SOURCE_DIR", MOKA_SOURCE_DIR); }
std::string Compiler() { return Known("CXX", MOKA_COMPILER); }
bool HasCompiler() {
  const std::string command = StrCat("command -v '", Compiler(), "' > /dev/null");
  return std::system(command.c_str()) == 0;  // NOLINT(concurrency-mt-unsafe)
}

// Requires: HasCompiler().
class HostKernels {
 public:
  explicit HostKernels(const std::string& source) {
    const fs::path folder = fs::path(testing::TempDir()) / StrCat("moka_codegen_", getpid());
    fs::create_directories(folder);
    WriteFileAtomically(folder / "kernels.cpp", source);
    const std::string command =
        StrCat("'", Compiler(), "' -std=c++20 -O0 -fno-strict-aliasing -w -shared -fPIC -I'", SourceFolder(), "' -o ",
               (folder / "kernels.so").string(), " ", (folder / "kernels.cpp").string());
    is_compiled_ = std::system(command.c_str()) == 0;  // NOLINT(concurrency-mt-unsafe)
    if (is_compiled_) library_ = dlopen((folder / "kernels.so").c_str(), RTLD_NOW);
    fs::remove_all(folder);
  }
  HostKernels(const HostKernels&) = delete;
  HostKernels& operator=(const HostKernels&) = delete;
  ~HostKernels() {
    if (library_ != nullptr) dlclose(library_);  // the next has the same name
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
  const Memory memory(subject);
  const Buffer scratch = Buffer::Allocate(job.generated.scratch_bytes);
  for (const GeneratedStage& stage : job.generated.stages) {
    const std::vector<uint64_t> words = ArgumentWords(stage, memory.inputs, memory.outputs, scratch.data());
    kernels.Run(stage.kernel.name, stage.blocks, words.data());
  }
  subject.ExpectReference(memory.values, memory.outputs);
}

TEST(CodegenTest, EveryCaseMatchesTheReferenceOnTheHost) {
  if (!HasCompiler()) GTEST_SKIP() << "no compiler " << Compiler();
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
    return job.subject.variant != "float32 to bfloat16" && job.subject.variant != "float16 to float32";
  });
  std::erase_if(
      jobs, [](const Job& job) { return job.subject.op_case.name != "vectors" && job.subject.op_case.name != "tall"; });
  ASSERT_EQ(jobs.size(), 4U);
  const std::string code = CompileCuda(SourceOfAll(jobs, Target::kDevice), {.capability = 90, .wants_ptx = false});
  EXPECT_EQ(code.substr(1, 3), "ELF");
}

TEST(CodegenTest, GroupsMatchTheReferenceOnTheHost) {
  if (!HasCompiler()) GTEST_SKIP() << "no compiler " << Compiler();
  const std::vector<CodegenCase> cases = GroupCases();
  std::vector<GeneratedGroup> groups;
  std::string source(Prelude(Target::kHost));
  std::string device_source(Prelude(Target::kDevice));
  for (const CodegenCase& subject : cases) {
    ASSERT_EQ(RefuseGroup(subject.query()), "");
    groups.push_back(GenerateGroup(StrCat("g", groups.size()), subject.query(), Alignment::kVectors));
    for (const std::optional<KernelText>& kernel : {std::optional(groups.back().kernel), groups.back().joiner}) {
      if (!kernel) continue;
      source += WithEntry(*kernel, Target::kHost);
      device_source += WithEntry(*kernel, Target::kDevice);
    }
  }
  const HostKernels kernels(source);
  ASSERT_TRUE(kernels.is_compiled());
  for (size_t c = 0; c < cases.size(); ++c) {
    const Memory memory(cases[c]);
    const Attributes& attributes = cases[c].query().node.attributes;
    const GroupTables tables = TablesOf(attributes, groups[c].width, memory.inputs, memory.outputs);
    const Buffer scratch = Buffer::Allocate(groups[c].scratch_bytes);
    const void* const arguments[] = {tables.members.data(), tables.chunks.data(), scratch.data()};
    kernels.Run(groups[c].kernel.name, tables.blocks(), arguments);
    ASSERT_EQ(groups[c].joiner.has_value(), cases[c].op->name == "reduce_group");
    if (groups[c].joiner) kernels.Run(groups[c].joiner->name, GroupSizes(attributes).members, arguments);
    cases[c].ExpectReference(memory.values, memory.outputs);
  }
  if (MissingNvrtc().empty()) CompileCuda(device_source, {.capability = 90, .wants_ptx = true});
}

TEST(CodegenTest, MembersThatLieDifferentlyAreNoGroup) {
  CodegenCase subject = GroupCases().front();
  subject.inputs[1].layout = Layout::Parse("acdb");
  EXPECT_THAT(RefuseGroup(subject.query()), testing::HasSubstr("lie differently"));
}

// Values that the reference's cases leave out: NaN and infinities in comparisons, memory that is not aligned.
TEST(CodegenTest, SpecialValuesMeanWhatExpressionsSay) {
  if (!HasCompiler()) GTEST_SKIP() << "no compiler " << Compiler();
  const double nan = std::nan("");
  CodegenCase subject;
  for (CodegenCase& c : CodegenCases()) {
    if (c.op_case.name == "maximum" && c.variant == "float32") subject = std::move(c);
  }
  ASSERT_NE(subject.op, nullptr);
  const Strings exprs = {"max(x0,x1)", "min(x0,x1)", "lt(x0,x1)+2*eq(x0,x0)", "select(x0,x1,7)", "sign(x0)", "1e39"};
  subject.op_case.attributes = {{"exprs", exprs}};
  subject.built = std::make_shared<OpGraph>(BuildOp(*subject.op, subject.op_case, DType::kFloat32));
  subject.outputs.assign(exprs.size(), subject.outputs[0]);
  const Generated generated = Generate("special", subject.query(), Alignment::kElements);
  ASSERT_EQ(generated.stages.size(), 1U);
  const HostKernels kernels(SourceOf(generated.stages[0].kernel, Target::kHost));
  ASSERT_TRUE(kernels.is_compiled());
  const Memory memory(subject);
  auto* x0 = static_cast<float*>(memory.inputs[0].raw());
  auto* x1 = static_cast<float*>(memory.inputs[1].raw());
  const std::vector<std::pair<double, double>> operands = {{nan, 1}, {1, nan}, {INFINITY, 2}, {-INFINITY, 2}, {0, 3}};
  for (size_t i = 0; i < operands.size(); ++i) {
    x0[i] = static_cast<float>(operands[i].first);
    x1[i] = static_cast<float>(operands[i].second);
  }
  const auto words = ArgumentWords(generated.stages[0], memory.inputs, memory.outputs, nullptr);
  kernels.Run("special", generated.stages[0].blocks, words.data());
  const Expression expression = Expression::Parse(exprs);
  for (size_t i = 0; i < operands.size(); ++i) {
    std::vector<double> expected(exprs.size());
    expression.Evaluate(std::vector{operands[i].first, operands[i].second}, i, expected);
    for (size_t y = 0; y < exprs.size(); ++y) {
      const float found = static_cast<const float*>(memory.outputs[y].raw())[i];
      EXPECT_THAT(found, testing::NanSensitiveFloatEq(static_cast<float>(expected[y]))) << exprs[y] << " at " << i;
    }
  }
}

// The text of a case of the list.
std::string TextOf(const std::string& op_case, const std::string& variant) {
  for (const Job& job : AllJobs()) {
    if (job.subject.op_case.name != op_case || job.subject.variant != variant) continue;
    return job.generated.stages.front().kernel.text;
  }
  return "no such case";
}

// The text found lies in the test's folder: it is copied over the old text when a change is meant.
void ExpectText(const std::string& name, const std::string& text) {
  const fs::path found = fs::path(testing::TempDir()) / (name + ".txt");
  if (ReadFile(fs::path(SourceFolder()) / "tests/layers/cuda/texts" / (name + ".txt")) == text) return;
  WriteFileAtomically(found, text);
  ADD_FAILURE() << "the text has changed; see " << found;
}

TEST(CodegenTest, TextsAreAsTheyWere) {
  ExpectText("pointwise", TextOf("vectors", "float16"));
  ExpectText("column_sums", TextOf("tall", "float16"));
  ExpectText("row_sums", TextOf("bias_gradient", "float32"));
}

TEST(CodegenTest, CountsBeyond31BitsAreCountedIn64) {
  const NestOperand dense{DType::kFloat32, {1}};
  Nest nest{.extents = {int64_t{1} << 20U}, .inputs = {dense}, .outputs = {dense}, .index = {0}};
  const Expression expression = Expression::Parse("x0+1");
  EXPECT_THAT(PointwiseText("small", expression, nest, 4).text, testing::HasSubstr("using Index = unsigned;"));
  nest.extents = {int64_t{3} << 31U};
  const KernelText text = PointwiseText("large", expression, nest, 4);
  EXPECT_THAT(text.text, testing::HasSubstr("using Index = unsigned long long;"));
  EXPECT_EQ(PointwiseBlocks(nest, 4), int64_t{3} << 21U);
  if (MissingNvrtc().empty()) CompileCuda(SourceOf(text, Target::kDevice), {.capability = 90, .wants_ptx = true});
}

// Dense elements of 16 bits move 128 bits at a time.
TEST(CodegenTest, VectorsAreReadAndWrittenAtOnce) {
  const std::string missing = MissingNvrtc();
  if (!missing.empty()) GTEST_SKIP() << missing;
  const KernelText text{"vectors", TextOf("vectors", "float16")};
  const std::string ptx = CompileCuda(SourceOf(text, Target::kDevice), {.capability = 90, .wants_ptx = true});
  EXPECT_THAT(ptx, testing::HasSubstr("ld.global.v4"));
  EXPECT_THAT(ptx, testing::HasSubstr("st.global.v4"));
}

}  // namespace
}  // namespace moka::cuda
