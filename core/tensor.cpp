#include "core/tensor.h"

#include <sys/mman.h>

#include <cstring>
#include <new>
#include <vector>

#include "core/half.h"
#include "core/text.h"

namespace moka {

namespace {

// From this size on pages come straight from the system: zero without being touched, so memory that is planned but not
// reached costs nothing, in huge pages where the system has them.
constexpr int64_t kMappedBytes = int64_t{32} << 20;

void* AllocateSmall(int64_t bytes) {
  const auto padded = static_cast<size_t>(RoundUp(bytes == 0 ? 1 : bytes, int64_t{Buffer::kAlignment}).value());
  void* data = ::operator new (padded, std::align_val_t{Buffer::kAlignment}, std::nothrow);
  if (data != nullptr) std::memset(data, 0, padded);
  return data;
}

void* AllocateMapped(int64_t bytes) {
  const auto size = static_cast<size_t>(bytes);
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  madvise(data, size, MADV_HUGEPAGE);  // a wish: without huge pages it fails and nothing is lost
  return data;
}

}  // namespace

Buffer Buffer::Allocate(int64_t bytes) {
  Require(bytes >= 0, "Buffer::Allocate: bytes not negative");
  Buffer buffer;
  void* data = bytes < kMappedBytes ? AllocateSmall(bytes) : AllocateMapped(bytes);
  if (data == nullptr) throw Error(ErrorKind::kUnavailable, StrCat("out of memory allocating ", BytesText(bytes)));
  buffer.data_ = static_cast<std::byte*>(data);
  buffer.bytes_ = bytes;
  return buffer;
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Buffer::~Buffer() {
  if (bytes_ < kMappedBytes) {
    ::operator delete (data_, std::align_val_t{kAlignment});
  } else {
    munmap(data_, static_cast<size_t>(bytes_));
  }
}

namespace {

// One stored element as double and back; 64-bit integers above 2^53 lose their low bits, which labels never reach.
double Load(const void* data, DType dtype, int64_t i) {
  const auto at = [&]<class T>(T) { return static_cast<double>(static_cast<const T*>(data)[i]); };
  switch (dtype) {
    case DType::kFloat32: return at(float{});
    case DType::kFloat64: return at(double{});
    case DType::kFloat16: return static_cast<double>(FloatOfHalf(static_cast<const uint16_t*>(data)[i]));
    case DType::kBFloat16: return static_cast<double>(FloatOfBFloat16(static_cast<const uint16_t*>(data)[i]));
    case DType::kInt64: return at(int64_t{});
    case DType::kInt32: return at(int32_t{});
    case DType::kUInt8: return at(uint8_t{});
  }
  return 0;
}

void Store(void* data, DType dtype, int64_t i, double value) {
  const auto put = [&]<class T>(T) { static_cast<T*>(data)[i] = static_cast<T>(value); };
  switch (dtype) {
    case DType::kFloat32: return put(float{});
    case DType::kFloat64: return put(double{});
    case DType::kFloat16: static_cast<uint16_t*>(data)[i] = HalfOfFloat(static_cast<float>(value)); return;
    case DType::kBFloat16: static_cast<uint16_t*>(data)[i] = BFloat16OfFloat(static_cast<float>(value)); return;
    case DType::kInt64: return put(int64_t{});
    case DType::kInt32: return put(int32_t{});
    case DType::kUInt8: return put(uint8_t{});
  }
}

}  // namespace

void CopyTensor(const Tensor& from, const Tensor& to) {
  Require(from.shape() == to.shape(), "CopyTensor: equal shapes");
  if (to.type().Bytes() == 0) return;  // an empty tensor may have no memory
  if (from.type() == to.type()) {
    std::memcpy(to.raw(), from.raw(), static_cast<size_t>(to.type().Bytes()));
    return;
  }
  std::memset(to.raw(), 0, static_cast<size_t>(to.type().Bytes()));
  const Shape& shape = from.shape();
  const int64_t count = shape.Count();
  std::vector<int64_t> index(static_cast<size_t>(shape.rank()), 0);
  for (int64_t i = 0; i < count; ++i) {
    const double value = Load(from.raw(), from.type().dtype, from.type().layout.Offset(shape, index));
    Store(to.raw(), to.type().dtype, to.type().layout.Offset(shape, index), value);
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      if (++index[static_cast<size_t>(axis)] < shape[axis]) break;
      index[static_cast<size_t>(axis)] = 0;
    }
  }
}

}  // namespace moka
