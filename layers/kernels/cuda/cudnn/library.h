// cuDNN's functions, loaded when first asked for. Private to layers/kernels/cuda.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/device/tensor.h"

namespace moka::cudnn {

// The functions of cuDNN, loaded once for this process.
struct Library {
  std::string file;
  decltype(&::cudnnGetVersion) get_version;
  decltype(&::cudnnGetErrorString) get_error_string;
  decltype(&::cudnnGetLastErrorString) get_last_error_string;
  decltype(&::cudnnCreate) create;
  decltype(&::cudnnDestroy) destroy;
  decltype(&::cudnnSetStream) set_stream;
  decltype(&::cudnnBackendCreateDescriptor) create_descriptor;
  decltype(&::cudnnBackendDestroyDescriptor) destroy_descriptor;
  decltype(&::cudnnBackendFinalize) finalize;
  decltype(&::cudnnBackendSetAttribute) set_attribute;
  decltype(&::cudnnBackendGetAttribute) get_attribute;
  decltype(&::cudnnBackendExecute) execute;
};

// Errors: kUnavailable when it cannot be loaded or is older than 9; the same each time.
const Library& Functions();

// Why cuDNN cannot be used for a device; empty if it can.
std::string Refusal(const Device& device);

// Errors: kUnavailable with cuDNN's words if a call of it failed.
void Check(cudnnStatus_t status, std::string_view call);

// An object of cuDNN's graph interface. Move-only.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type);
  Descriptor(Descriptor&& other) noexcept : handle_(other.handle_) { other.handle_ = nullptr; }
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();

  void Set(cudnnBackendAttributeName_t name, const std::vector<int64_t>& values);
  void Set(cudnnBackendAttributeName_t name, int64_t value) { Set(name, std::vector{value}); }
  void Set(cudnnBackendAttributeName_t name, const Descriptor& descriptor);
  void Set(cudnnBackendAttributeName_t name, const std::vector<const Descriptor*>& descriptors);
  // Values of the types that cuDNN has names for: `type` is that of *value.
  void SetRaw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count, const void* values);
  // Errors: those of Check.
  void Finalize();
  // Whether cuDNN takes it; what it cannot do is no error then.
  bool TryFinalize();

  int64_t GetInt(cudnnBackendAttributeName_t name) const;
  std::vector<int32_t> GetEnums(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t most) const;
  std::string GetText(cudnnBackendAttributeName_t name) const;
  cudnnBackendDescriptor_t handle() const { return handle_; }

 private:
  cudnnBackendDescriptor_t handle_ = nullptr;
};

// Returns the properties of the device that cuDNN plans for: a GPU of this machine, or one that a text describes
// (Describe gives it), where there is none.
Descriptor DeviceProperties(const Device& device);
Descriptor DeviceProperties(const std::string& description);

}  // namespace moka::cudnn
