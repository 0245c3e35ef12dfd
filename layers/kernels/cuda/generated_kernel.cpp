// pointwise, reduce_sum and their groups by generated code: NVRTC compiles a kernel for the node while the program
// is prepared.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "core/cache.h"
#include "core/device/device.h"
#include "core/error.h"
#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cuda/codegen/group.h"
#include "layers/kernels/cuda/nvrtc.h"
#include "layers/kernels/group_kernel.h"

namespace moka {
namespace {

// Requires: status is that of the call just made.
void Check(cudaError_t status, std::string_view call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // said here: the next call must not report it again
  throw Error(ErrorKind::kUnavailable, StrCat("a generated kernel: ", call, " failed: ", cudaGetErrorString(status)));
}

int CapabilityOf(const Device& device) {
  int major = 0;
  int minor = 0;
  Check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device.index), "cudaDeviceGetAttribute");
  Check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device.index), "cudaDeviceGetAttribute");
  return major * 10 + minor;
}

// The kernel of a text on a GPU. Nodes that differ in counts alone share one; it stays loaded.
cudaKernel_t LoadKernel(const cuda::KernelText& text, const Device& device) {
  static std::mutex mutex;
  static std::map<std::pair<int, std::string>, cudaKernel_t> loaded;
  const std::string source = SourceOf(text, cuda::Target::kDevice);
  const std::lock_guard lock(mutex);
  if (const auto it = loaded.find({device.index, source}); it != loaded.end()) return it->second;
  Check(cudaSetDevice(device.index), "cudaSetDevice");
  const std::string code =
      cuda::CompileCudaCached(source, {.capability = CapabilityOf(device), .wants_ptx = false}, CacheFolder());
  cudaLibrary_t library = nullptr;
  Check(cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0), "cudaLibraryLoadData");
  cudaKernel_t kernel = nullptr;
  Check(cudaLibraryGetKernel(&kernel, library, text.name.c_str()), "cudaLibraryGetKernel");
  // Asking brings the code to the GPU now: a launch that had to do so could not be recorded.
  cudaFuncAttributes attributes = {};
  Check(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel)), "cudaFuncGetAttributes");
  return loaded.emplace(std::pair(device.index, source), kernel).first->second;
}

// Whether vectors of 16 bytes may be read from all of them. Views into tensors may begin anywhere.
bool AreAligned(const KernelArgs& args) {
  const auto is_aligned = [](const Tensor& tensor) { return reinterpret_cast<uintptr_t>(tensor.raw()) % 16 == 0; };
  return std::ranges::all_of(args.inputs, is_aligned) && std::ranges::all_of(args.outputs, is_aligned);
}

void Launch(cudaKernel_t kernel, int64_t blocks, std::vector<uint64_t>& words, const Stream& stream) {
  // The kernel has one parameter, the struct Arguments, whose bytes the words are.
  void* arguments[] = {words.data()};
  Check(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(static_cast<unsigned>(blocks)),
                         dim3(cuda::kBlockThreads), arguments, 0, static_cast<cudaStream_t>(stream.native())),
        "cudaLaunchKernel");
}

// Both texts are generated as addresses are known only when the kernel is bound; the one for unaligned views is
// compiled only if it is needed.
class GeneratedKernel final : public BoundKernel {
 public:
  explicit GeneratedKernel(const KernelQuery& query)
      : device_(query.device),
        generated_(cuda::Generate("generated", query, cuda::Alignment::kVectors)),
        unaligned_(cuda::Generate("generated", query, cuda::Alignment::kElements)) {
    Load();
  }

  void Bind(const KernelArgs& args) override {
    BoundKernel::Bind(args);
    outputs_.assign(args.outputs.begin(), args.outputs.end());
    if (!AreAligned(args)) {
      generated_ = unaligned_;
      Load();
    }
    arguments_.clear();
    for (const cuda::GeneratedStage& stage : generated_.stages) {
      arguments_.push_back(cuda::ArgumentWords(stage, args.inputs, args.outputs, args.scratch));
    }
  }
  int64_t scratch_bytes() const override { return std::max(generated_.scratch_bytes, unaligned_.scratch_bytes); }

  void Run() override {
    if (generated_.stages.empty()) {  // sums of nothing
      for (const Tensor& y : outputs_) stream().Zero(static_cast<std::byte*>(y.raw()), y.type().Bytes());
    }
    for (size_t s = 0; s < generated_.stages.size(); ++s) {
      Launch(kernels_[s], generated_.stages[s].blocks, arguments_[s], stream());
    }
  }

 private:
  void Load() {
    kernels_.clear();
    for (const cuda::GeneratedStage& stage : generated_.stages) kernels_.push_back(LoadKernel(stage.kernel, device_));
  }

  Device device_;
  cuda::Generated generated_;
  cuda::Generated unaligned_;
  std::vector<cudaKernel_t> kernels_;
  std::vector<std::vector<uint64_t>> arguments_;
  std::vector<Tensor> outputs_;
};

// The tables live on the GPU from binding on, as addresses do not change from run to run; with CUDA graphs the launch
// is recorded with them.
class GeneratedGroupKernel final : public BoundKernel {
 public:
  explicit GeneratedGroupKernel(const KernelQuery& query)
      : device_(query.device),
        attributes_(query.node.attributes),
        generated_(cuda::GenerateGroup("generated", query, cuda::Alignment::kVectors)),
        unaligned_(cuda::GenerateGroup("generated", query, cuda::Alignment::kElements)),
        member_count_(static_cast<int64_t>(GroupSizes(attributes_).members)) {
    Load();
  }

  void Bind(const KernelArgs& args) override {
    BoundKernel::Bind(args);
    if (!AreAligned(args)) {
      generated_ = unaligned_;
      Load();
    }
    tables_ = cuda::TablesOf(attributes_, generated_.width, args.inputs, args.outputs);
    members_ = OnDevice(tables_.members);
    chunks_ = OnDevice(tables_.chunks);
    stream().Synchronize();
    words_ = {reinterpret_cast<uintptr_t>(members_.data()), reinterpret_cast<uintptr_t>(chunks_.data()),
              reinterpret_cast<uintptr_t>(args.scratch)};
  }
  int64_t scratch_bytes() const override { return std::max(generated_.scratch_bytes, unaligned_.scratch_bytes); }
  void Run() override {
    if (tables_.blocks() > 0) Launch(kernel_, tables_.blocks(), words_, stream());
    if (generated_.joiner) Launch(joiner_, member_count_, words_, stream());
  }

 private:
  void Load() {
    kernel_ = LoadKernel(generated_.kernel, device_);
    if (generated_.joiner) joiner_ = LoadKernel(*generated_.joiner, device_);
  }
  DeviceBuffer OnDevice(const std::vector<uint64_t>& words) {
    const auto bytes = static_cast<int64_t>(words.size() * sizeof(uint64_t));
    DeviceBuffer buffer = stream().Allocate(bytes);
    stream().CopyToDevice(buffer.data(), reinterpret_cast<const std::byte*>(words.data()), bytes);
    return buffer;
  }

  Device device_;
  Attributes attributes_;
  cuda::GeneratedGroup generated_;
  cuda::GeneratedGroup unaligned_;
  int64_t member_count_;
  cudaKernel_t kernel_ = nullptr;
  cudaKernel_t joiner_ = nullptr;
  cuda::GroupTables tables_;
  DeviceBuffer members_;
  DeviceBuffer chunks_;
  std::vector<uint64_t> words_;
};

// Empty, or why no code can be generated and compiled here.
std::string RefuseHere(const KernelQuery& query) {
  if (query.device.is_rehearsed()) return "generated code runs on GPUs alone, and this one is rehearsed";
  return cuda::MissingNvrtc();
}

std::string RefusePointwise(const KernelQuery& query) {
  std::string refusal = RefuseHere(query);
  return refusal.empty() ? cuda::RefuseGenerated(query) : refusal;
}

std::string RefuseGroup(const KernelQuery& query) {
  std::string refusal = RefuseHere(query);
  return refusal.empty() ? cuda::RefuseGroup(query) : refusal;
}

KernelDef RowOf(std::string op) {
  return {.name = "nvrtc",
          .op = std::move(op),
          .device = DeviceKind::kCuda,
          .refuse = RefusePointwise,
          .propose = cuda::ProposeGenerated,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            return std::make_unique<GeneratedKernel>(query);
          }};
}

template <KernelDef (*kRow)()>
KernelDef GeneratedGroupRow(std::string op) {
  KernelDef row = GroupRow<kRow>(std::move(op));
  row.refuse = RefuseGroup;
  row.make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
    return std::make_unique<GeneratedGroupKernel>(query);
  };
  return row;
}

}  // namespace

KernelDef NvrtcPointwise() { return RowOf("pointwise"); }
KernelDef NvrtcPointwiseGroup() { return GeneratedGroupRow<NvrtcPointwise>("pointwise_group"); }
KernelDef NvrtcReduceSum() { return RowOf("reduce_sum"); }
KernelDef NvrtcReduceGroup() { return GeneratedGroupRow<NvrtcReduceSum>("reduce_group"); }

}  // namespace moka
