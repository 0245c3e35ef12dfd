// pointwise and reduce_sum by generated code: NVRTC compiles a kernel for the node while the program is prepared.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "core/device.h"
#include "core/error.h"
#include "layers/bound_kernel.h"
#include "layers/cuda/codegen/generate.h"
#include "layers/cuda/kernels.h"
#include "layers/cuda/nvrtc.h"

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
  const std::string code = cuda::CompileCudaCached(source, {.capability = CapabilityOf(device), .wants_ptx = false},
                                                   cuda::NvrtcCacheFolder());
  cudaLibrary_t library = nullptr;
  Check(cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0), "cudaLibraryLoadData");
  cudaKernel_t kernel = nullptr;
  Check(cudaLibraryGetKernel(&kernel, library, text.name.c_str()), "cudaLibraryGetKernel");
  // Asking brings the code to the GPU now: a launch that had to do so could not be recorded.
  cudaFuncAttributes attributes = {};
  Check(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel)), "cudaFuncGetAttributes");
  return loaded.emplace(std::pair(device.index, source), kernel).first->second;
}

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
    const auto is_aligned = [](const Tensor& tensor) { return reinterpret_cast<uintptr_t>(tensor.raw()) % 16 == 0; };
    if (!std::ranges::all_of(args.inputs, is_aligned) || !std::ranges::all_of(args.outputs, is_aligned)) {
      generated_ = unaligned_;  // views into tensors
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
      void* arguments[] = {arguments_[s].data()};
      const dim3 blocks(static_cast<unsigned>(generated_.stages[s].blocks));
      Check(cudaLaunchKernel(reinterpret_cast<const void*>(kernels_[s]), blocks, dim3(cuda::kBlockThreads), arguments,
                             0, static_cast<cudaStream_t>(stream().native())),
            "cudaLaunchKernel");
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

std::string Refuse(const KernelQuery& query) {
  if (query.device.is_rehearsed()) return "generated code runs on GPUs alone, and this one is rehearsed";
  if (std::string missing = cuda::MissingNvrtc(); !missing.empty()) return missing;
  return cuda::RefuseGenerated(query);
}

KernelDef RowOf(std::string op) {
  return {.name = "nvrtc",
          .op = std::move(op),
          .device = DeviceKind::kCuda,
          .refuse = Refuse,
          .propose = cuda::ProposeGenerated,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            return std::make_unique<GeneratedKernel>(query);
          }};
}

}  // namespace

KernelDef NvrtcPointwise() { return RowOf("pointwise"); }
KernelDef NvrtcReduceSum() { return RowOf("reduce_sum"); }

}  // namespace moka
