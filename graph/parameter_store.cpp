#include "graph/parameter_store.h"

#include <malloc.h>

#include "core/text.h"

namespace moka {

void ParameterStore::Add(const std::string& name, const Shape& shape) {
  Require(!Has(name), StrCat("parameter ", name, " is added once"));
  entries_.emplace(name, StoredValue{.tensor = OwnedTensor({DType::kFloat32, shape, {}})});
}

void ParameterStore::AddMirror(const std::string& mirror, const std::string& name, const Layout& layout) {
  StoredValue& original = Entry(name);
  Require(!original.written && !original.is_mirror, StrCat("AddMirror: nothing writes ", name, " yet"));
  Require(!Has(mirror), StrCat("mirror ", mirror, " is added once"));
  StoredValue copy{
      .tensor = OwnedTensor({DType::kFloat32, original.tensor.shape(), layout}), .fixed = true, .is_mirror = true};
  CopyTensor(original.tensor.tensor(), copy.tensor.tensor());
  entries_.emplace(mirror, std::move(copy));
  original.mirrors.push_back(mirror);
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
  const TensorType plain{DType::kFloat32, entry.tensor.shape(), {}};
  Require(static_cast<int64_t>(values.size()) == plain.shape.Count(), StrCat("Set ", name, ": one value an element"));
  const Tensor from(plain, const_cast<float*>(values.data()));
  CopyTensor(from, entry.tensor.tensor());
  for (const std::string& mirror : entry.mirrors) CopyTensor(from, Entry(mirror).tensor.tensor());
}

void ParameterStore::Get(std::string_view name, std::span<float> values) const {
  const Tensor& tensor = Entry(name).tensor.tensor();
  const TensorType plain{DType::kFloat32, tensor.shape(), {}};
  Require(static_cast<int64_t>(values.size()) == plain.shape.Count(), StrCat("Get ", name, ": one value an element"));
  CopyTensor(tensor, Tensor(plain, values.data()));
}

std::vector<float> ParameterStore::Values(std::string_view name) const {
  std::vector<float> values(static_cast<size_t>(type(name).shape.Count()));
  Get(name, values);
  return values;
}

void ParameterStore::SetLayout(std::string_view name, const Layout& layout) {
  StoredValue& entry = Entry(name);
  if (entry.tensor.type().layout == layout) return;
  Require(!entry.fixed, StrCat("the layout of ", name, " is not fixed yet"));
  OwnedTensor moved({DType::kFloat32, entry.tensor.shape(), layout});
  CopyTensor(entry.tensor.tensor(), moved.tensor());
  entry.tensor = std::move(moved);
}

int64_t ParameterStore::Bytes() const {
  Size bytes = 0;
  for (const auto& [name, entry] : entries_) bytes += entry.tensor.type().Bytes();
  return bytes.value();
}

}  // namespace moka
