// Which of several ways to compute a thing is fastest on a GPU, found by running each, and where such a choice is kept.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "core/device.h"

namespace moka::cuda {

// Zeroed memory of the GPU that ways are tried on, tensors by a number of theirs and scratch, and the stream they are
// tried in. Errors: kUnavailable when the GPU has no room for it.
class Trial {
 public:
  // A tensor's number and its bytes.
  using Size = std::pair<int64_t, int64_t>;
  Trial(const std::vector<Size>& tensors, int64_t scratch_bytes, const Device& device);

  Stream& stream() const { return *stream_; }
  std::byte* scratch() const { return scratch_.data(); }
  std::byte* tensor(int64_t number) const { return tensors_.at(number).data(); }

 private:
  std::unique_ptr<Stream> stream_;
  std::map<int64_t, DeviceBuffer> tensors_;
  DeviceBuffer scratch_;
};

// The index of the fastest of `count` ways, where queue(i) puts way i into the stream; an earlier one where a later
// gains too little to be told from noise. Errors: those of the work.
size_t FastestOf(Stream& stream, size_t count, const std::function<void(size_t)>& queue);

// The file of the user's cache for what a version of a library computes a problem by, on GPUs called as this one; empty
// without a cache. Requires: a GPU of this machine.
std::filesystem::path ChoiceFile(std::string_view library, size_t version, const Device& device,
                                 std::string_view problem);

}  // namespace moka::cuda
