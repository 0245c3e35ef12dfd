// Caffe's Blob for nets run layer by layer: the values of one blob and their gradient, float32 row-major. Memory is
// shared and never freed while somebody holds it, so views given out stay valid after the blob has grown or is gone.
// One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "core/types.h"

namespace moka {

// Zeroed floats, aligned for kernels. Errors: kUnavailable when memory runs out.
std::shared_ptr<float> NewFloats(int64_t count);

class Blob {
 public:
  explicit Blob(const Shape& shape = Shape());
  // A parameter: its memory is bound, so its count stays.
  Blob(const Shape& shape, std::shared_ptr<float> data);

  const Shape& shape() const { return shape_; }
  int64_t count() const { return count_; }
  const std::shared_ptr<float>& data() const { return data_; }
  // Made, zeroed, when it is first asked for.
  const std::shared_ptr<float>& diff();
  bool has_diff() const { return diff_ != nullptr; }
  std::span<float> values() const { return {data_.get(), static_cast<size_t>(count_)}; }
  std::span<float> gradient() { return {diff().get(), static_cast<size_t>(count_)}; }

  // Keeps the values while they fit the memory, else takes new, zeroed memory. Errors: kConfig for a blob whose memory
  // somebody else owns (a parameter) when the count changes.
  void Reshape(const Shape& shape);
  // From now on the values lie in `data`, of at least count() floats. A parameter's memory is bound: it cannot grow.
  enum class Memory { kOwn, kBound };
  void SetData(std::shared_ptr<float> data, Memory memory);
  void SetDiff(std::shared_ptr<float> diff) { diff_ = std::move(diff); }

 private:
  Shape shape_;
  int64_t count_ = 0;
  int64_t capacity_ = 0;
  Memory memory_ = Memory::kOwn;
  std::shared_ptr<float> data_;
  std::shared_ptr<float> diff_;
};

}  // namespace moka
