// Allocation (large buffers are mapped in huge pages, zero without being touched) and the copies between layouts, which
// walk tables of offsets, one an axis, whatever the blocks.
#include "core/device/tensor.h"

#include <sys/mman.h>

#include <array>
#include <cstring>
#include <new>
#include <vector>

#include "core/half.h"
#include "core/size.h"
#include "core/text.h"
#include "core/threads/parallel.h"

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
  madvise(data, size, MADV_HUGEPAGE);  // a request: without huge pages it fails and nothing is lost
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
    case DType::kInt8: return at(int8_t{});
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
    case DType::kInt8: return put(int8_t{});
  }
}

// Where an element lies is a sum of one number an axis, whatever the blocks: tables of them for every index.
class AxisTables {
 public:
  AxisTables(const Shape& shape, const Layout& layout) {
    std::vector<int64_t> index(static_cast<size_t>(shape.rank()), 0);
    for (int axis = 0; axis < shape.rank(); ++axis) {
      std::vector<int64_t>& table = tables_.emplace_back();
      int64_t& i = index[static_cast<size_t>(axis)];
      for (i = 0; i < shape[axis]; ++i) table.push_back(layout.Offset(shape, index));
      i = 0;
    }
  }

  // Returns the offset that an index has in all axes but the last.
  int64_t Row(std::span<const int64_t> index) const {
    int64_t offset = 0;
    for (size_t axis = 0; axis + 1 < tables_.size(); ++axis) offset += tables_[axis][static_cast<size_t>(index[axis])];
    return offset;
  }
  std::span<const int64_t> last() const { return tables_.back(); }

 private:
  std::vector<std::vector<int64_t>> tables_;
};

// Calls copy(offset in from, offset in to, their steps along the last axis) for each row, over the team's threads.
// Requires: rank >= 1, not empty.
template <class Copy>
void VisitRows(const Tensor& from, const Tensor& to, Copy&& copy) {
  constexpr int64_t kGrainElements = 1 << 16;
  const Shape& shape = from.shape();
  const int last = shape.rank() - 1;
  const AxisTables from_tables(shape, from.type().layout);
  const AxisTables to_tables(shape, to.type().layout);
  ParallelFor(shape.Count(0, last), CeilDiv(kGrainElements, shape[last]).value(), [&](int64_t begin, int64_t end, int) {
    std::array<int64_t, Shape::kMaxRank> index{};
    int64_t rest = begin;
    for (int axis = last - 1; axis >= 0; --axis) {
      index[static_cast<size_t>(axis)] = rest % shape[axis];
      rest /= shape[axis];
    }
    for (int64_t row = begin; row < end; ++row) {
      copy(from_tables.Row(index), to_tables.Row(index), from_tables.last(), to_tables.last());
      for (int axis = last - 1; axis >= 0; --axis) {
        if (++index[static_cast<size_t>(axis)] < shape[axis]) break;
        index[static_cast<size_t>(axis)] = 0;
      }
    }
  });
}

}  // namespace

void CopyTensor(const Tensor& from, const Tensor& to) {
  Require(from.shape() == to.shape(), "CopyTensor: equal shapes");
  if (to.type().Bytes() == 0) return;  // an empty tensor may have no memory
  const DType from_dtype = from.type().dtype;
  const DType to_dtype = to.type().dtype;
  if (from.type() == to.type()) {
    std::memcpy(to.raw(), from.raw(), static_cast<size_t>(to.type().Bytes()));
    return;
  }
  if (from.shape().rank() == 0) return Store(to.raw(), to_dtype, 0, Load(from.raw(), from_dtype, 0));
  if (to.type().StoredCount() != to.shape().Count()) {
    std::memset(to.raw(), 0, static_cast<size_t>(to.type().Bytes()));  // the padding
  }
  if (from_dtype == DType::kFloat32 && to_dtype == DType::kFloat32) {
    const auto* x = static_cast<const float*>(from.raw());
    auto* y = static_cast<float*>(to.raw());
    VisitRows(from, to, [&](int64_t at, int64_t into, std::span<const int64_t> f, std::span<const int64_t> t) {
      for (size_t i = 0; i < f.size(); ++i) y[into + t[i]] = x[at + f[i]];
    });
    return;
  }
  VisitRows(from, to, [&](int64_t at, int64_t into, std::span<const int64_t> f, std::span<const int64_t> t) {
    for (size_t i = 0; i < f.size(); ++i) {
      Store(to.raw(), to_dtype, into + t[i], Load(from.raw(), from_dtype, at + f[i]));
    }
  });
}

}  // namespace moka
