// Finds which of several ways to compute a thing is fastest on a GPU by running each, and where such a choice is kept.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/device/device.h"

namespace moka::cuda {

// Zeroed memory of the GPU that ways are tried on, tensors by a number of theirs and scratch, and the stream they are
// tried in. Errors: kUnavailable when the GPU has no room for it.
class Trial {
 public:
  // A tensor's number and its bytes.
  using Size = std::pair<int64_t, int64_t>;
  Trial(const std::vector<Size>& tensors, int64_t scratch_bytes, const Device& device);
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;
  // Gives the memory back to the GPU.
  ~Trial();

  Stream& stream() const { return *stream_; }
  std::byte* scratch() const { return scratch_.data(); }
  std::byte* tensor(int64_t number) const { return tensors_.at(number).data(); }

 private:
  std::unique_ptr<Stream> stream_;
  std::map<int64_t, DeviceBuffer> tensors_;
  DeviceBuffer scratch_;
};

// The index of the fastest of `count` ways, where queue(i) puts way i into the stream; an earlier one where a later
// gains too little to be told from noise. Ways that fail are passed over; 0 if all do.
size_t FastestOf(Stream& stream, size_t count, const std::function<void(size_t)>& queue);

// The name (core/choices.h) of what a version of a library computes a problem by, on GPUs called as this one. Requires:
// a GPU of this machine.
std::string ChoiceName(std::string_view library, size_t version, const Device& device, std::string_view problem);

}  // namespace moka::cuda
