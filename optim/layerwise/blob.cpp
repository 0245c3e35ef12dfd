// Memory is the store's or the blob's own, and changes size only when a Reshape needs more.
#include "optim/layerwise/blob.h"

#include <algorithm>
#include <utility>

#include "core/device/tensor.h"
#include "core/error.h"
#include "core/text.h"

namespace moka {

std::shared_ptr<float> NewFloats(int64_t count) {
  const TensorType type{DType::kFloat32, Shape{std::max<int64_t>(count, 1)}, {}};
  const auto buffer = std::make_shared<Buffer>(Buffer::Allocate(type.Bytes()));
  return {buffer, static_cast<float*>(static_cast<void*>(buffer->data()))};
}

Blob::Blob(const Shape& shape) : shape_(shape), count_(shape.Count()), capacity_(count_), data_(NewFloats(count_)) {}

Blob::Blob(const Shape& shape, std::shared_ptr<float> data)
    : shape_(shape), count_(shape.Count()), capacity_(count_), memory_(Memory::kBound), data_(std::move(data)) {}

const std::shared_ptr<float>& Blob::diff() {
  if (diff_ == nullptr) diff_ = NewFloats(capacity_);
  return diff_;
}

void Blob::Reshape(const Shape& shape) {
  const int64_t count = shape.Count();
  if (memory_ == Memory::kBound && count != count_) {
    throw Error(ErrorKind::kConfig, {},
                StrCat("a parameter of shape ", shape_.ToString(), " (", count_, " values) cannot take the shape ",
                       shape.ToString(), " (", count, " values)"),
                "change the layer in the net's file, and cast the values from a net of the old shape");
  }
  if (count > capacity_) {
    data_ = NewFloats(count);
    diff_ = nullptr;
    capacity_ = count;
  }
  shape_ = shape;
  count_ = count;
}

void Blob::SetData(std::shared_ptr<float> data, Memory memory) {
  data_ = std::move(data);
  memory_ = memory;
  // Memory that grows later must not be taken for as large as it once was.
  if (diff_ != nullptr && capacity_ != count_) diff_ = nullptr;
  capacity_ = count_;
}

}  // namespace moka
