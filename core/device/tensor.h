// Where memory lies (Device) and memory itself: a Buffer owns bytes of the host (a device's: DeviceBuffer,
// core/device/device.h), a Tensor borrows a pointer with its TensorType, an OwnedTensor has its own.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "core/error.h"
#include "core/types.h"

namespace moka {

enum class DeviceKind : uint8_t { kCpu, kCuda };

// Where memory lives and kernels run.
struct Device {
  // The index of a rehearsed GPU: programs for GPUs run on it as they do on a real one, with the same kernels' loops
  // called by a thread of the CPU, so that they can be tested where there is no GPU.
  static constexpr int kRehearsed = -1;

  DeviceKind kind = DeviceKind::kCpu;
  int index = 0;
  bool is_cpu() const { return kind == DeviceKind::kCpu; }
  bool is_rehearsed() const { return kind == DeviceKind::kCuda && index == kRehearsed; }
  friend bool operator==(const Device&, const Device&) = default;
};

class Buffer {
 public:
  static constexpr size_t kAlignment = 64;  // a cache line, and the widest vector

  Buffer() = default;
  // Zeroed, aligned bytes on the CPU. Errors: kUnavailable naming the bytes when memory runs out.
  static Buffer Allocate(int64_t bytes);
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

class Tensor {
 public:
  Tensor() = default;
  Tensor(const TensorType& type, void* data) : type_(type), data_(data) {}

  const TensorType& type() const { return type_; }
  const Shape& shape() const { return type_.shape; }
  void* raw() const { return data_; }
  // The stored elements (padding included). Requires: T is the dtype's C++ type.
  template <class T>
  std::span<T> as() const {
    Require(DTypeOf<std::remove_const_t<T>>::value == type_.dtype, "Tensor::as: T is the tensor's dtype");
    return {static_cast<T*>(data_), static_cast<size_t>(type_.StoredCount())};
  }

 private:
  TensorType type_;
  void* data_ = nullptr;
};

// A Tensor with its own memory.
class OwnedTensor {
 public:
  OwnedTensor() = default;
  explicit OwnedTensor(const TensorType& type)
      : buffer_(Buffer::Allocate(type.Bytes())), tensor_(type, buffer_.data()) {}
  const Tensor& tensor() const { return tensor_; }
  const TensorType& type() const { return tensor_.type(); }
  const Shape& shape() const { return tensor_.shape(); }
  template <class T>
  std::span<T> as() const {
    return tensor_.as<T>();
  }

 private:
  Buffer buffer_;
  Tensor tensor_;
};

// Copies between any two tensors of one shape: dtype is converted, layout is changed. Slow and exact: for load, save,
// tests and the reference kernels. Padding of the destination is zeroed.
void CopyTensor(const Tensor& from, const Tensor& to);

}  // namespace moka
