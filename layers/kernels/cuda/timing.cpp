// Each way runs once to warm up and then several times between two events; the least time counts, as everything else on
// the GPU only adds to it.
#include "layers/kernels/cuda/timing.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <limits>

#include "core/checksum.h"
#include "core/error.h"
#include "core/text.h"

namespace moka::cuda {

// Tensors are zeroed, so that a time does not depend on what the memory held before.
Trial::Trial(const std::vector<Size>& tensors, int64_t scratch_bytes, const Device& device)
    : stream_(MakeStream(device)) {
  for (const auto& [number, bytes] : tensors) {
    DeviceBuffer& buffer = tensors_[number] = stream_->Allocate(bytes);
    stream_->Zero(buffer.data(), bytes);
  }
  scratch_ = stream_->Allocate(scratch_bytes);
}

Trial::~Trial() {
  tensors_.clear();
  scratch_ = {};
  try {
    stream_->Synchronize();
  } catch (const Error&) {
    return;  // the next call reports it
  }
  cudaMemPool_t pool = nullptr;
  const bool has_pool =
      stream_->native() != nullptr && cudaDeviceGetDefaultMemPool(&pool, stream_->device().index) == cudaSuccess;
  if (has_pool) cudaMemPoolTrimTo(pool, 0);  // a program's arena may not fit into these pieces
}

size_t FastestOf(Stream& stream, size_t count, const std::function<void(size_t)>& queue) {
  constexpr int kRuns = 5;
  // A later way must be clearly faster: noise would otherwise choose, and differently each time.
  constexpr double kGain = 0.97;  // of the best so far
  const std::unique_ptr<Event> begin = MakeEvent(stream.device());
  const std::unique_ptr<Event> end = MakeEvent(stream.device());
  size_t best = 0;
  double best_ms = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < count; ++i) {
    double ms = std::numeric_limits<double>::infinity();
    try {
      for (int run = 0; run <= kRuns; ++run) {
        stream.Record(*begin);
        queue(i);
        stream.Record(*end);
        end->Wait();
        if (run > 0) ms = std::min(ms, end->MillisSince(*begin));  // the first loads the engine
      }
    } catch (const Error&) {
      continue;  // a way that does not work is not the fastest
    }
    if (ms >= best_ms * kGain) continue;
    best = i;
    best_ms = ms;
  }
  return best;
}

std::string ChoiceName(std::string_view library, size_t version, const Device& device, std::string_view problem) {
  const CudaFacts facts = FindCuda();
  const std::string& gpu = facts.gpus.at(static_cast<size_t>(device.index)).name;
  return StrCat(library, "-", Sha256(StrCat(version, " ", gpu, " ", problem)), ".plan");
}

}  // namespace moka::cuda
