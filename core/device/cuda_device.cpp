// NVIDIA GPUs through CUDA's runtime, which is linked in whole and looks for the driver when first used: the same
// binary starts where there is neither a driver nor a toolkit.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <utility>

#include "core/device/device_backend.h"
#include "core/text.h"

namespace moka {
namespace {

std::string_view HintFor(cudaError_t status) {
  switch (status) {
    case cudaErrorInsufficientDriver:
    case cudaErrorCallRequiresNewerDriver:
    case cudaErrorSystemDriverMismatch: return "install a driver for this version of CUDA; `moka device` names both";
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice: return "`moka device` lists the GPUs there are; CUDA_VISIBLE_DEVICES may hide some";
    case cudaErrorDevicesUnavailable: return "another program may hold the GPU for itself; see nvidia-smi";
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorMisalignedAddress:
      return "earlier work failed; with CUDA_LAUNCH_BLOCKING=1 the failing call is named";
    case cudaErrorMemoryAllocation: return "a smaller batch_size needs less";
    default: return {};
  }
}

// Requires: status is that of the call just made.
void Check(cudaError_t status, std::string_view call, int index) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // said here: the next call must not report it again
  throw Error(ErrorKind::kUnavailable, {},
              StrCat(NameOf({DeviceKind::kCuda, index}), ": ", call, " failed: ", cudaGetErrorString(status), " (",
                     cudaGetErrorName(status), ")"),
              std::string(HintFor(status)));
}

// Makes a device the calling thread's: what is created belongs to that one, and kernels and libraries want their
// stream's. The device before is not made the thread's again: that would set up and hold memory on a GPU that the
// program may not use at all.
void Use(int index) { Check(cudaSetDevice(index), "cudaSetDevice", index); }

class CudaEvent : public Event {
 public:
  explicit CudaEvent(int index) : index_(index) {
    Use(index);
    // Who waits sleeps: a spinning thread would take a core from those that make the batches.
    Check(cudaEventCreateWithFlags(&event_, cudaEventBlockingSync), "cudaEventCreate", index);
  }
  ~CudaEvent() override {
    cudaEventDestroy(event_);
    if (shown_ != nullptr) cudaEventDestroy(shown_);
  }

  // An event that is recorded in a graph gives the graph its order and cannot be asked. Beside it the graph records
  // another, which the host asks after each launch. It goes first: what waits for the order has then passed both.
  void RecordIn(cudaStream_t stream) {
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    Check(cudaStreamIsCapturing(stream, &capture), "cudaStreamIsCapturing", index_);
    is_shown_ = capture == cudaStreamCaptureStatusActive;
    if (is_shown_) {
      if (shown_ == nullptr) {
        Check(cudaEventCreateWithFlags(&shown_, cudaEventBlockingSync), "cudaEventCreate", index_);
      }
      Check(cudaEventRecordWithFlags(shown_, stream, cudaEventRecordExternal), "cudaEventRecordWithFlags", index_);
    }
    Check(cudaEventRecord(event_, stream), "cudaEventRecord", index_);
  }

  bool IsDone() const override {
    const cudaError_t status = cudaEventQuery(asked());
    if (status == cudaErrorNotReady) {
      cudaGetLastError();  // it counts as an error, which others would find
      return false;
    }
    Check(status, "cudaEventQuery", index_);
    return true;
  }
  void Wait() const override { Check(cudaEventSynchronize(asked()), "cudaEventSynchronize", index_); }
  double MillisSince(const Event& start) const override {
    float ms = 0;
    Check(cudaEventElapsedTime(&ms, Of(start).asked(), asked()), "cudaEventElapsedTime", index_);
    return static_cast<double>(ms);
  }

  static const CudaEvent& Of(const Event& event) {
    const auto* cuda = dynamic_cast<const CudaEvent*>(&event);
    Require(cuda != nullptr, "Stream: events are of the stream's kind of device");
    return *cuda;
  }
  static CudaEvent& Of(Event& event) { return const_cast<CudaEvent&>(Of(std::as_const(event))); }
  cudaEvent_t order() const { return event_; }

 private:
  cudaEvent_t asked() const { return is_shown_ ? shown_ : event_; }

  int index_;
  cudaEvent_t event_ = nullptr;
  cudaEvent_t shown_ = nullptr;
  bool is_shown_ = false;  // the last Record was a part of a graph
};

// Memory holds its stream, by which it goes back.
class StreamHandle {
 public:
  explicit StreamHandle(int index) {
    Use(index);
    Check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate", index);
  }
  ~StreamHandle() { cudaStreamDestroy(stream_); }
  StreamHandle(const StreamHandle&) = delete;
  StreamHandle& operator=(const StreamHandle&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// A step as one graph of CUDA: the GPU begins each kernel when those before it are done, without the host.
class CudaRecording : public Recording {
 public:
  CudaRecording(cudaGraph_t graph, int index) : index_(index) {
    const cudaError_t status = cudaGraphInstantiate(&exec_, graph, 0);
    cudaGraphDestroy(graph);
    Check(status, "cudaGraphInstantiate", index);
  }
  ~CudaRecording() override { cudaGraphExecDestroy(exec_); }
  void Launch(Stream& stream) const override {
    Check(cudaGraphLaunch(exec_, static_cast<cudaStream_t>(stream.native())), "cudaGraphLaunch", index_);
  }

 private:
  int index_;
  cudaGraphExec_t exec_ = nullptr;
};

// Whether memory comes from a pool, which keeps what is given back: by default it returns all to the system at every
// synchronisation. Some virtual GPUs have none.
bool KeepPooledMemory(int index) {
  int is_supported = 0;
  Check(cudaDeviceGetAttribute(&is_supported, cudaDevAttrMemoryPoolsSupported, index), "cudaDeviceGetAttribute", index);
  if (is_supported == 0) return false;
  cudaMemPool_t pool = nullptr;
  Check(cudaDeviceGetDefaultMemPool(&pool, index), "cudaDeviceGetDefaultMemPool", index);
  uint64_t threshold = std::numeric_limits<uint64_t>::max();
  Check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold), "cudaMemPoolSetAttribute", index);
  return true;
}

class CudaStream : public Stream {
 public:
  explicit CudaStream(int index)
      : Stream({DeviceKind::kCuda, index}),
        handle_(std::make_shared<StreamHandle>(index)),
        has_pool_(KeepPooledMemory(index)) {}
  // An error comes again from the next call of any stream.
  ~CudaStream() override { cudaStreamSynchronize(handle_->get()); }

  void CopyToDevice(std::byte* to, const std::byte* from, int64_t bytes) override {
    Copy(to, from, bytes, cudaMemcpyHostToDevice);
  }
  void CopyToHost(std::byte* to, const std::byte* from, int64_t bytes) override {
    Copy(to, from, bytes, cudaMemcpyDeviceToHost);
  }
  void CopyOnDevice(std::byte* to, const std::byte* from, int64_t bytes) override {
    Copy(to, from, bytes, cudaMemcpyDeviceToDevice);
  }
  void Call(void (*function)(void*), void* argument) override {
    Check(cudaLaunchHostFunc(stream(), function, argument), "cudaLaunchHostFunc", device().index);
  }
  void Zero(std::byte* to, int64_t bytes) override {
    Check(cudaMemsetAsync(to, 0, static_cast<size_t>(bytes), stream()), "cudaMemsetAsync", device().index);
  }
  void* native() const override { return stream(); }
  void Rehearse(std::function<void()> /*function*/) override { Require(false, "Stream: a GPU rehearses nothing"); }
  void BeginRecording() override {
    // Other threads may allocate meanwhile: those of the input do.
    Check(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture", device().index);
  }
  std::unique_ptr<Recording> EndRecording() override;
  void Record(Event& event) override { CudaEvent::Of(event).RecordIn(stream()); }
  void WaitFor(const Event& event) override {
    Check(cudaStreamWaitEvent(stream(), CudaEvent::Of(event).order(), 0), "cudaStreamWaitEvent", device().index);
  }
  // Looks for a moment, for what is nearly done (an image's inference), then sleeps: cudaStreamSynchronize would take
  // a core for as long as it waits.
  void Synchronize() override {
    constexpr auto kMoment = std::chrono::microseconds(100);
    const auto begin = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begin < kMoment) {
      const cudaError_t status = cudaStreamQuery(stream());
      if (status == cudaSuccess) return;
      if (status != cudaErrorNotReady) Check(status, "cudaStreamQuery", device().index);
      cudaGetLastError();  // it counts as an error, which others would find
    }
    Record(end_);
    end_.Wait();
  }

  DeviceBuffer Allocate(int64_t bytes) override {
    Require(bytes >= 0, "Stream::Allocate: bytes not negative");
    void* data = nullptr;
    const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
    cudaStream_t mine = stream();
    const cudaError_t status = has_pool_ ? cudaMallocAsync(&data, size, mine) : cudaMalloc(&data, size);
    if (status == cudaErrorMemoryAllocation) throw OutOfMemory(bytes);
    Check(status, has_pool_ ? "cudaMallocAsync" : "cudaMalloc", device().index);
    // An error here is that of earlier work, which the next call reports.
    const auto give_back = [handle = handle_, has_pool = has_pool_](std::byte* memory) {
      if (has_pool) {
        cudaFreeAsync(memory, handle->get());
      } else {
        cudaStreamSynchronize(handle->get());
        cudaFree(memory);
      }
    };
    return {std::shared_ptr<std::byte>(static_cast<std::byte*>(data), give_back), bytes};
  }

 private:
  // Any thread may come, each with a device of its own.
  cudaStream_t stream() const {
    Use(device().index);
    return handle_->get();
  }
  void Copy(std::byte* to, const std::byte* from, int64_t bytes, cudaMemcpyKind kind) {
    Check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), kind, stream()), "cudaMemcpyAsync", device().index);
  }
  Error OutOfMemory(int64_t asked) const {
    cudaGetLastError();
    Use(device().index);
    size_t free = 0;
    size_t total = 0;
    Check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo", device().index);
    return OutOfDeviceMemory(device(), asked, static_cast<int64_t>(free), static_cast<int64_t>(total));
  }

  std::shared_ptr<StreamHandle> handle_;
  bool has_pool_;
  CudaEvent end_{device().index};
};

std::unique_ptr<Recording> CudaStream::EndRecording() {
  cudaGraph_t graph = nullptr;
  Check(cudaStreamEndCapture(stream(), &graph), "cudaStreamEndCapture", device().index);
  return std::make_unique<CudaRecording>(graph, device().index);
}

// 13000 as "13.0".
std::string VersionOf(int version) { return StrCat(version / 1000, ".", version % 1000 / 10); }

std::string ReasonFor(cudaError_t status, const CudaFacts& facts) {
  if (status == cudaErrorInsufficientDriver) {
    if (facts.driver.empty()) return "CUDA driver not found";
    return StrCat("the driver runs CUDA up to ", facts.driver, ", older than ", CudaRuntime());
  }
  return cudaGetErrorString(status);
}

}  // namespace

std::string CudaRuntime() { return VersionOf(CUDART_VERSION); }

CudaFacts FindCuda() {
  CudaFacts facts;
  int driver = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0) facts.driver = VersionOf(driver);
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    cudaGetLastError();
    facts.missing = ReasonFor(status, facts);
    return facts;
  }
  if (count == 0) facts.missing = "none found";
  for (int i = 0; i < count; ++i) {
    GpuFacts& gpu = facts.gpus.emplace_back();
    cudaDeviceProp properties{};
    const cudaError_t asked = cudaGetDeviceProperties(&properties, i);
    if (asked != cudaSuccess) {
      gpu.name = cudaGetErrorString(asked);
      continue;
    }
    gpu = {properties.name, static_cast<int64_t>(properties.totalGlobalMem), properties.major * 10 + properties.minor};
  }
  return facts;
}

std::unique_ptr<Event> MakeCudaEvent(int index) { return std::make_unique<CudaEvent>(index); }
std::unique_ptr<Stream> MakeCudaStream(int index) { return std::make_unique<CudaStream>(index); }

DeviceBuffer AllocateCudaPinned(int index, int64_t bytes) {
  Use(index);
  const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  void* data = nullptr;
  // Portable: every GPU may copy from it.
  const cudaError_t status = cudaHostAlloc(&data, size, cudaHostAllocPortable);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw Error(ErrorKind::kUnavailable, {}, StrCat("out of memory pinning ", BytesText(bytes), " of the host"),
                "pinned memory cannot be swapped out: a smaller batch_size or `prefetch` needs less");
  }
  Check(status, "cudaHostAlloc", index);
  std::memset(data, 0, size);
  return {std::shared_ptr<std::byte>(static_cast<std::byte*>(data), [](std::byte* memory) { cudaFreeHost(memory); }),
          bytes};
}

}  // namespace moka
