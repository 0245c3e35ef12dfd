// The values that live between runs: weights, statistics and optimiser slots by name, shared by every program of a run
// (train, test). A value may lie in a kernel's blocked layout; Get and Set always speak plain row-major float32.
// Programs keep pointers into the store: it must outlive them, and a layout is fixed once a program is bound to it.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/device/device.h"

namespace moka {

// The promises that a value keeps to programs compiled over it.
struct ValueClaims {
  bool is_layout_fixed = false;
  bool is_written = false;                // by a program, so that it gets no more mirrors
  std::vector<std::string> mirrors = {};  // its copies in other layouts
};

class ParameterStore {
 public:
  // Values lie in the memory of a device. Errors: kUnavailable when there is no such device.
  explicit ParameterStore(const Device& device = {});

  const Device& device() const { return device_; }
  // Adds a zeroed float32 tensor. Requires: the name is new.
  void Add(const std::string& name, const Shape& shape);
  // Adds a copy of a value in a layout and an element type of its own, fixed. Set keeps it up to date; a program that
  // assigns the value assigns its mirrors too. Requires: the mirror's name is new, no program that is compiled already
  // writes the value.
  void AddMirror(const std::string& mirror, const std::string& name, const TensorType& type);
  bool Has(std::string_view name) const { return entries_.find(name) != entries_.end(); }
  // Frees the values' memory. Requires: no program that will run reads or writes them.
  void Remove(const std::vector<std::string>& names);
  // Sorted; without mirrors.
  std::vector<std::string> Names() const;

  // Requires: the name is there (for all below).
  const TensorType& type(std::string_view name) const { return Entry(name).tensor.type(); }
  // In the device's memory.
  Tensor tensor(std::string_view name) const { return Entry(name).tensor; }
  // Copies plain row-major values in or out. Requires: values.size() == shape count.
  void Set(std::string_view name, std::span<const float> values);
  void Get(std::string_view name, std::span<float> values) const;
  std::vector<float> Values(std::string_view name) const;

  // Fixes how the values lie from now on. Requires: another layout was not fixed before.
  void FixLayout(std::string_view name, const Layout& layout);
  // A compiled program assigns the value.
  void MarkWritten(std::string_view name) { Entry(name).claims.is_written = true; }
  const ValueClaims& claims(std::string_view name) const { return Entry(name).claims; }

  // Mirrors included.
  int64_t Bytes() const;

 private:
  struct StoredValue {
    DeviceBuffer memory;
    Tensor tensor;  // in it
    ValueClaims claims;
    bool is_mirror = false;
  };
  StoredValue& Entry(std::string_view name);
  const StoredValue& Entry(std::string_view name) const;
  // Zeroed.
  StoredValue NewValue(const TensorType& type) const;
  // Between a tensor of the host and one of the device: types and layouts may differ.
  void CopyIn(const Tensor& from, const Tensor& to) const;
  void CopyOut(const Tensor& from, const Tensor& to) const;

  Device device_;
  std::unique_ptr<Stream> stream_;  // null on the CPU
  std::map<std::string, StoredValue, std::less<>> entries_;
};

}  // namespace moka
