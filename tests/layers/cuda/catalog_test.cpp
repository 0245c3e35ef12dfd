// Every kernel for GPUs on every case of its op, in each floating type it takes: on the rehearsed GPU, and on a real
// one where there is one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/text.h"
#include "graph/op.h"
#include "layers/net/catalog.h"
#include "tests/layers/kernel_run.h"

namespace moka {
namespace {

constexpr DType kFloats[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16};

// Returns the tolerance as a part of the largest magnitude. Inputs are rounded to the type before, so that only the
// output's rounding and that of intermediate results is left.
double ToleranceOf(const OpCase& op_case, DType dtype) {
  switch (dtype) {
    case DType::kFloat16: return std::max(op_case.tolerance, 4e-3);
    case DType::kBFloat16: return std::max(op_case.tolerance, 3e-2);
    default: return op_case.tolerance;
  }
}

// Numbers that stand for something (labels, indices) stay float32 where the op lets them: half types hold few of them.
OpGraph BuildTyped(const OpDef& op, const OpCase& op_case, DType dtype) {
  try {
    return BuildOp(op, op_case, dtype, WholeInputs::kFloat32);
  } catch (const Error&) {
    return BuildOp(op, op_case, dtype);
  }
}

class CudaOpCases : public testing::TestWithParam<std::tuple<OpSubject, int>> {
 protected:
  void SetUp() override {
    if (device().is_rehearsed()) return;
    const CudaFacts cuda = FindCuda();
    if (!cuda.missing.empty()) GTEST_SKIP() << cuda.missing;
    if (device().index >= static_cast<int>(cuda.gpus.size())) GTEST_SKIP() << "there is no " << NameOf(device());
  }
  static Device device() { return {DeviceKind::kCuda, std::get<1>(GetParam())}; }
  static const OpDef& op() { return *std::get<0>(GetParam()).op; }
  static const OpCase& op_case() { return std::get<0>(GetParam()).op_case; }

  // Calls f(kernel, variant, node, inputs, expected, dtype) for each kernel, type and layout that fit together.
  template <class F>
  static void VisitRuns(F&& f) {
    for (const DType dtype : kFloats) {
      const OpGraph built = BuildTyped(op(), op_case(), dtype);
      const Node& node = built.graph.node(built.node);
      const auto inputs = MakeInputs(op_case(), built.graph.InputTypes(node));
      const auto expected = RunReference(op(), node.attributes, inputs, built.graph.OutputTypes(node));
      for (const KernelDef* kernel : StandardCatalog().KernelsOf(op().name, DeviceKind::kCuda)) {
        for (const Variant& variant : VariantsOf(*kernel, built, device())) {
          SCOPED_TRACE(StrCat("kernel ", kernel->name, ", ", NameOf(dtype), ", ", variant.name));
          f(*kernel, variant, node, inputs, expected, ToleranceOf(op_case(), dtype));
        }
      }
      // Nothing follows the type where no input does.
      if (std::ranges::none_of(op_case().inputs, [](const TensorType& x) { return x.dtype == DType::kFloat32; })) break;
    }
  }
};

// The rehearsed GPU, and the first real one: a box's GPUs are alike.
INSTANTIATE_TEST_SUITE_P(Catalog, CudaOpCases,
                         testing::Combine(testing::ValuesIn(AllOpSubjects()), testing::Values(Device::kRehearsed, 0)),
                         [](const auto& subject) {
                           const bool is_rehearsed = std::get<1>(subject.param) == Device::kRehearsed;
                           return StrCat(std::get<0>(subject.param).Name(), is_rehearsed ? "__rehearsed" : "__gpu");
                         });

TEST_P(CudaOpCases, KernelsMatchTheReference) {
  VisitRuns([&](const KernelDef& kernel, const Variant& variant, const Node& node, const auto& inputs,
                const auto& expected, double tolerance) {
    KernelRun run(kernel, node, variant, inputs, device());
    const auto found = run.Run();
    ExpectClose(found, expected, tolerance);
    const auto again = run.RunAgain();
    for (size_t o = 0; o < found.size(); ++o) {
      EXPECT_EQ(again[o].values, found[o].values) << "a second run differs, output " << o;
    }
    const auto recorded = KernelRun(kernel, node, variant, inputs, device()).RunRecorded();
    for (size_t o = 0; o < found.size(); ++o) {
      EXPECT_EQ(recorded[o].values, found[o].values) << "a recorded run differs, output " << o;
    }
  });
}

TEST_P(CudaOpCases, KernelsMayOverwriteWhatTheOpAllows) {
  if (op().may_overwrite == nullptr) return;
  VisitRuns([&](const KernelDef& kernel, const Variant& variant, const Node& node, const auto& inputs,
                const auto& expected, double tolerance) {
    for (size_t pair = 0; pair < variant.inputs.size() * variant.outputs.size(); ++pair) {
      const size_t i = pair / variant.outputs.size();
      const size_t o = pair % variant.outputs.size();
      if (variant.inputs[i] != variant.outputs[o]) continue;
      if (!op().may_overwrite(node.attributes, static_cast<int>(i), static_cast<int>(o))) continue;
      SCOPED_TRACE(StrCat("output ", o, " over input ", i));
      KernelRun run(kernel, node, variant, inputs, device());
      run.Overwrite(i, o);
      ExpectClose(run.Run(), expected, tolerance);
    }
  });
}

TEST(CudaLabels, OutsideTheClassesAreFaults) {
  const Device device{DeviceKind::kCuda, Device::kRehearsed};
  const Attributes ignoring{{"has_ignore", true}, {"ignore_label", int64_t{255}}};
  for (const char* op : {"softmax_loss", "accuracy", "softmax_losses"}) {
    SCOPED_TRACE(op);
    EXPECT_EQ(FaultOf(op, {}, {0, 1, 2, 2}, device), "");
    EXPECT_EQ(FaultOf(op, {}, {0, 1, 77, -1}, device), "label 77 at index 2 is not a class from 0 to 2");
    EXPECT_EQ(FaultOf(op, {}, {0.5}, device), "label 0.5 at index 0 is not a class from 0 to 2");
    EXPECT_EQ(FaultOf(op, {}, {std::nan("")}, device), "label nan at index 0 is not a class from 0 to 2");
    EXPECT_EQ(FaultOf(op, ignoring, {0, 255, 1}, device), "");
    EXPECT_EQ(FaultOf(op, ignoring, {0, 254}, device),
              "label 254 at index 1 is not a class from 0 to 2 nor the ignored label 255");
  }
  EXPECT_EQ(FaultOf("class_counts", {}, {3, 0}, device), "label 3 at index 0 is not a class from 0 to 2");
  EXPECT_EQ(FaultOf("reindex", {}, {1, 2}, device), "row 2 at index 1 is not from 0 to 1");
}

// Whether a row takes a case in a type, in some layout.
bool IsTaken(const OpDef& op, const OpGraph& built) {
  const Device device{DeviceKind::kCuda, Device::kRehearsed};
  const auto kernels = StandardCatalog().KernelsOf(op.name, DeviceKind::kCuda);
  return std::ranges::any_of(kernels,
                             [&](const KernelDef* kernel) { return !VariantsOf(*kernel, built, device).empty(); });
}

TEST(CudaCatalog, WhatTakesFloat32TakesTheHalfTypes) {
  for (const OpSubject& subject : AllOpSubjects()) {
    SCOPED_TRACE(subject.Name());
    // Gradients are summed, and their norms taken, in float32.
    if (subject.op->name.starts_with("all_reduce_") || subject.op->name == "square_sum") continue;
    if (!IsTaken(*subject.op, BuildTyped(*subject.op, subject.op_case, DType::kFloat32))) continue;
    for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
      EXPECT_TRUE(IsTaken(*subject.op, BuildTyped(*subject.op, subject.op_case, dtype))) << NameOf(dtype);
    }
  }
}

// A proposal of channels last comes to the plain layout for planes of one element.
TEST(CudaCatalog, GlobalPoolingKeepsChannelsLast) {
  const OpDef& op = StandardCatalog().Op("pool_average");
  const Device device{DeviceKind::kCuda, Device::kRehearsed};
  for (const OpCase& op_case : op.cases()) {
    if (op_case.name != "global") continue;
    const auto variants = VariantsOf(*StandardCatalog().KernelsOf("pool_average", DeviceKind::kCuda).front(),
                                     BuildOp(op, op_case, DType::kFloat32), device);
    const bool found = std::ranges::any_of(variants, [](const Variant& v) { return v.name == "proposed from acdb"; });
    EXPECT_TRUE(found);
    return;
  }
  FAIL() << "there is no case of global pooling";
}

bool IsExempt(const OpDef& op) { return op.is_alias || op.cases == nullptr; }

// A row takes some float32 case of its op, or says why the CPU does it.
TEST(CudaCatalog, EveryOpHasARowForFloat32OrSaysWhyNot) {
  const Device device{DeviceKind::kCuda, Device::kRehearsed};
  for (const OpDef& op : StandardCatalog().ops()) {
    if (IsExempt(op)) continue;
    SCOPED_TRACE(op.name);
    const auto kernels = StandardCatalog().KernelsOf(op.name, DeviceKind::kCuda);
    EXPECT_FALSE(kernels.empty()) << "no kernel for GPUs and no reason";
    for (const OpCase& op_case : op.cases()) {
      const OpGraph built = BuildOp(op, op_case, DType::kFloat32);
      const Node& node = built.graph.node(built.node);
      const auto inputs = built.graph.InputTypes(node);
      const auto outputs = built.graph.OutputTypes(node);
      bool is_told = kernels.empty();
      for (const KernelDef* kernel : kernels) {
        const std::string reason = kernel->refuse({node, inputs, outputs, true, device});
        is_told = is_told || reason.empty() || reason.ends_with("the CPU does it");
      }
      EXPECT_TRUE(is_told) << op_case.name << ": its rows refuse plain float32";
    }
  }
}

}  // namespace
}  // namespace moka
