// The rows of pointwise and reduce_sum for GPUs on a rehearsed one: generated code refuses, the interpreter computes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "core/device/device.h"
#include "core/text.h"
#include "layers/net/catalog.h"
#include "tests/layers/cuda/codegen_case.h"

namespace moka {
namespace {

constexpr Device kRehearsal{DeviceKind::kCuda, Device::kRehearsed};

const KernelDef& RowNamed(std::string_view name, std::string_view op) {
  for (const KernelDef* row : StandardCatalog().KernelsOf(op, DeviceKind::kCuda)) {
    if (row->name == name) return *row;
  }
  throw Error(ErrorKind::kInternal, StrCat("no row ", name, " of ", op));
}

TEST(InterpreterTest, EveryCaseMatchesTheReference) {
  const auto stream = MakeStream(kRehearsal);
  std::vector<CodegenCase> cases = CodegenCases();
  std::ranges::move(GroupCases(), std::back_inserter(cases));
  for (const CodegenCase& subject : cases) {
    SCOPED_TRACE(subject.name());
    const KernelDef& row = RowNamed("interpreter", subject.op->name);
    KernelQuery query = subject.query();
    query.device = kRehearsal;
    ASSERT_EQ(row.refuse(query), "");
    const Memory memory(subject);
    const auto kernel = row.make(query);
    kernel->Bind({.inputs = memory.inputs, .outputs = memory.outputs, .scratch = nullptr, .stream = stream.get()});
    kernel->Run();
    stream->Synchronize();
    subject.ExpectReference(memory.values, memory.outputs);
  }
}

TEST(InterpreterTest, GeneratedCodeRefusesARehearsedGpu) {
  const CodegenCase subject = CodegenCases().front();
  KernelQuery query = subject.query();
  query.device = kRehearsal;
  EXPECT_THAT(RowNamed("nvrtc", "pointwise").refuse(query), testing::HasSubstr("rehearsed"));
}

TEST(InterpreterTest, BlocksAreRefused) {
  CodegenCase subject = CodegenCases().front();
  subject.inputs[0].layout = Layout::Parse("aBcd16b");
  EXPECT_THAT(RowNamed("interpreter", "pointwise").refuse(subject.query()), testing::HasSubstr("without blocks"));
}

TEST(InterpreterTest, ProposalsFollowTheFirstInput) {
  for (CodegenCase& subject : CodegenCases()) {
    if (subject.op_case.name != "channels" || subject.variant != "float32 channels last") continue;
    const auto proposal = RowNamed("interpreter", "reduce_sum").propose(subject.query());
    ASSERT_TRUE(proposal);
    EXPECT_EQ(proposal->inputs[1], Layout::Parse("acdb"));
    EXPECT_TRUE(proposal->inputs[2].is_plain());
    EXPECT_TRUE(proposal->outputs[0].is_plain());
    return;
  }
  FAIL() << "no such case";
}

}  // namespace
}  // namespace moka
