// Faults in a GPU's step: work that cannot be recorded, a kernel of the CPU that fails between two copies. On a
// rehearsed GPU, with an op of the test's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "core/device/device.h"
#include "graph/program.h"
#include "layers/kernels/bound_kernel.h"

namespace moka {
namespace {

const Device kGpu{DeviceKind::kCuda, Device::kRehearsed};
constexpr int kNever = -1;

// The run at which a kernel fails.
int fails_at = kNever;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): rows are made of functions

// y = x; a GPU's row that does not let itself be recorded, or one of the CPU that fails.
class FailingCopy final : public BoundKernel {
 public:
  explicit FailingCopy(const KernelQuery& query) : bytes_(query.inputs[0].Bytes()) {}
  void Run() override {
    if (runs_++ == fails_at) {
      if (!is_on_gpu_) throw std::runtime_error("a library complains");
      throw Error(ErrorKind::kUnavailable, "not to be recorded");
    }
    if (is_on_gpu_) {
      stream().CopyOnDevice(out<std::byte>(0), in<std::byte>(0), bytes_);
    } else {
      std::copy_n(in<float>(0), bytes_ / int64_t{sizeof(float)}, out<float>(0));
    }
  }
  void Bind(const KernelArgs& args) override {
    BoundKernel::Bind(args);
    is_on_gpu_ = args.stream != nullptr;
  }

 private:
  int64_t bytes_;
  bool is_on_gpu_ = false;
  int runs_ = 0;
};

Catalog CatalogWith(DeviceKind device) {
  OpDef op;
  op.name = "same";
  op.infer = [](const Attributes&, std::span<const TensorType> inputs) { return std::vector<TensorType>{inputs[0]}; };
  op.reference = [](const Attributes&, std::span<const RefTensor> inputs, std::span<RefTensor> outputs) {
    outputs[0].values = inputs[0].values;
  };
  KernelDef row{.name = "failing", .op = "same", .device = device};
  row.refuse = [](const KernelQuery&) { return std::string(); };
  row.make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> { return std::make_unique<FailingCopy>(query); };
  return {{op}, {row}};
}

struct Copying {
  explicit Copying(DeviceKind device) : catalog(CatalogWith(device)), store(kGpu) {
    Graph graph(catalog);
    const ValueId x = graph.AddInput("x", {DType::kFloat32, Shape{3}, {}});
    graph.AddOutput("y", graph.AddNode("same", {x}, {}, {"copy", {}, "", kNoId}).outputs[0]);
    CompileOptions options;
    options.device = kGpu;
    program = Compile(std::move(graph), store, options);
  }
  float Run(float x) const {
    program->input("x").as<float>()[1] = x;
    program->Run();
    return program->output("y").as<float>()[1];
  }

  Catalog catalog;
  ParameterStore store;
  std::unique_ptr<Program> program;
};

TEST(DeviceFaults, AStepThatCannotBeRecordedIsQueuedEveryTime) {
  fails_at = 1;  // the second run, which would be recorded
  const Copying copying(DeviceKind::kCuda);
  testing::internal::CaptureStderr();
  for (const float x : {1.0F, 2.0F, 3.0F, 4.0F}) EXPECT_EQ(copying.Run(x), x);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, testing::HasSubstr("without a recorded step"));
  EXPECT_THAT(said, testing::HasSubstr("not to be recorded"));
  EXPECT_EQ(said.find("recorded step"), said.rfind("recorded step")) << "once";
}

TEST(DeviceFaults, AKernelOfTheCpuThatFailsNamesItsLayer) {
  fails_at = 2;
  const Copying copying(DeviceKind::kCpu);
  EXPECT_EQ(copying.Run(1), 1);
  EXPECT_EQ(copying.Run(2), 2);
  try {
    copying.Run(3);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(std::string(error.what()), testing::HasSubstr("layer \"copy\": a library complains"));
  }
  EXPECT_EQ(copying.Run(4), 4);
}

}  // namespace
}  // namespace moka
