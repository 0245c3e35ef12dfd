// Values are float32 on the store's device, plain until a program fixes another layout (FixLayout); further layouts and
// half types are mirrors, which follow every Set. On a GPU all copies are staged through pinned memory.
#include "graph/parameter_store.h"

#include <malloc.h>

#include <utility>

#include "core/text.h"

namespace moka {
namespace {

Tensor PlainView(std::span<const float> values, const Shape& shape) {
  return {TensorType{DType::kFloat32, shape, {}}, const_cast<float*>(values.data())};
}

}  // namespace

ParameterStore::ParameterStore(const Device& device)
    : device_(device), stream_(device.is_cpu() ? nullptr : MakeStream(device)) {}

ParameterStore::StoredValue ParameterStore::NewValue(const TensorType& type) const {
  StoredValue value;
  if (stream_) {
    value.memory = stream_->Allocate(type.Bytes());
    stream_->Zero(value.memory.data(), type.Bytes());
    stream_->Synchronize();
  } else {
    value.memory = AllocatePinned(device_, type.Bytes());
  }
  value.tensor = Tensor(type, value.memory.data());
  return value;
}

void ParameterStore::CopyIn(const Tensor& from, const Tensor& to) const {
  if (!stream_) return CopyTensor(from, to);
  const DeviceBuffer staged = AllocatePinned(device_, to.type().Bytes());
  CopyTensor(from, Tensor(to.type(), staged.data()));
  stream_->CopyToDevice(static_cast<std::byte*>(to.raw()), staged.data(), staged.bytes());
  stream_->Synchronize();
}

void ParameterStore::CopyOut(const Tensor& from, const Tensor& to) const {
  if (!stream_) return CopyTensor(from, to);
  const DeviceBuffer staged = AllocatePinned(device_, from.type().Bytes());
  stream_->CopyToHost(staged.data(), static_cast<const std::byte*>(from.raw()), staged.bytes());
  stream_->Synchronize();
  CopyTensor(Tensor(from.type(), staged.data()), to);
}

void ParameterStore::Add(const std::string& name, const Shape& shape) {
  Require(!Has(name), StrCat("parameter ", name, " is added once"));
  entries_.emplace(name, NewValue({DType::kFloat32, shape, {}}));
}

void ParameterStore::AddMirror(const std::string& mirror, const std::string& name, const TensorType& type) {
  Require(!Entry(name).claims.is_written && !Entry(name).is_mirror, StrCat("AddMirror: nothing writes ", name, " yet"));
  Require(!Has(mirror), StrCat("mirror ", mirror, " is added once"));
  StoredValue copy = NewValue(type);
  copy.claims.is_layout_fixed = true;
  copy.is_mirror = true;
  const std::vector<float> values = Values(name);
  CopyIn(PlainView(values, type.shape), copy.tensor);
  entries_.emplace(mirror, std::move(copy));
  Entry(name).claims.mirrors.push_back(mirror);
}

void ParameterStore::Remove(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    Require(Has(name), StrCat("parameter ", name, " is in the store"));
    entries_.erase(entries_.find(name));
  }
  malloc_trim(0);  // the values are small enough to stay with the allocator otherwise
}

std::vector<std::string> ParameterStore::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) {
    if (!entry.is_mirror) names.push_back(name);
  }
  return names;
}

ParameterStore::StoredValue& ParameterStore::Entry(std::string_view name) {
  const auto it = entries_.find(name);
  Require(it != entries_.end(), StrCat("parameter ", name, " is in the store"));
  return it->second;
}

const ParameterStore::StoredValue& ParameterStore::Entry(std::string_view name) const {
  const auto it = entries_.find(name);
  Require(it != entries_.end(), StrCat("parameter ", name, " is in the store"));
  return it->second;
}

void ParameterStore::Set(std::string_view name, std::span<const float> values) {
  const StoredValue& entry = Entry(name);
  Require(static_cast<int64_t>(values.size()) == entry.tensor.shape().Count(),
          StrCat("Set ", name, ": one value an element"));
  const Tensor from = PlainView(values, entry.tensor.shape());
  CopyIn(from, entry.tensor);
  for (const std::string& mirror : entry.claims.mirrors) CopyIn(from, Entry(mirror).tensor);
}

void ParameterStore::Get(std::string_view name, std::span<float> values) const {
  const Tensor& tensor = Entry(name).tensor;
  Require(static_cast<int64_t>(values.size()) == tensor.shape().Count(),
          StrCat("Get ", name, ": one value an element"));
  CopyOut(tensor, PlainView(values, tensor.shape()));
}

std::vector<float> ParameterStore::Values(std::string_view name) const {
  std::vector<float> values(static_cast<size_t>(type(name).shape.Count()));
  Get(name, values);
  return values;
}

void ParameterStore::FixLayout(std::string_view name, const Layout& layout) {
  StoredValue& entry = Entry(name);
  const bool was_fixed = std::exchange(entry.claims.is_layout_fixed, true);
  if (entry.tensor.type().layout == layout) return;
  Require(!was_fixed, StrCat("the layout of ", name, " is not fixed yet"));
  const std::vector<float> values = Values(name);
  StoredValue moved = NewValue({DType::kFloat32, entry.tensor.shape(), layout});
  CopyIn(PlainView(values, entry.tensor.shape()), moved.tensor);
  entry.memory = std::move(moved.memory);
  entry.tensor = moved.tensor;
}

int64_t ParameterStore::Bytes() const {
  Size bytes = 0;
  for (const auto& [name, entry] : entries_) bytes += entry.tensor.type().Bytes();
  return bytes.value();
}

}  // namespace moka
