// A table of function pointers filled by dlsym, so that the binary starts without cuDNN; descriptors own their backend
// objects and check every status.
#include "layers/kernels/cuda/cudnn/library.h"

#include <array>
#include <optional>

#include "core/error.h"
#include "core/shared_library.h"
#include "core/text.h"

namespace moka::cudnn {
namespace {

constexpr size_t kOldestVersion = 90000;

Library Load() {
  const SharedLibrary file({"libcudnn.so.9"}, "cuDNN 9");
  Library functions{};
  functions.file = file.file();
  const auto load = [&]<class Function>(Function& function, const char* name) {
    function = file.Symbol<Function>(name);
  };
  load(functions.get_version, "cudnnGetVersion");
  load(functions.get_error_string, "cudnnGetErrorString");
  load(functions.get_last_error_string, "cudnnGetLastErrorString");
  load(functions.create, "cudnnCreate");
  load(functions.destroy, "cudnnDestroy");
  load(functions.set_stream, "cudnnSetStream");
  load(functions.create_descriptor, "cudnnBackendCreateDescriptor");
  load(functions.destroy_descriptor, "cudnnBackendDestroyDescriptor");
  load(functions.finalize, "cudnnBackendFinalize");
  load(functions.set_attribute, "cudnnBackendSetAttribute");
  load(functions.get_attribute, "cudnnBackendGetAttribute");
  load(functions.execute, "cudnnBackendExecute");
  if (const size_t version = functions.get_version(); version < kOldestVersion) {
    throw Error(ErrorKind::kUnavailable, {}, StrCat(functions.file, " is version ", version, "; 9.0 is needed"));
  }
  return functions;
}

}  // namespace

// The outcome of the one attempt is kept, also a failure: later callers get the same error without another search of
// the disk.
const Library& Functions() {
  struct Outcome {
    std::optional<Library> functions;
    std::optional<Error> error;
  };
  static const Outcome outcome = []() -> Outcome {
    try {
      return {Load(), {}};
    } catch (const Error& error) {
      return {{}, error};
    }
  }();
  if (outcome.error) throw Error(*outcome.error);
  return *outcome.functions;
}

// The error's text is the refusal, so that --explain says which file was looked for.
std::string Refusal(const Device& device) {
  if (device.is_rehearsed()) return "cuDNN needs a GPU, and this one is rehearsed";
  try {
    Functions();
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

void Check(cudnnStatus_t status, std::string_view call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  std::array<char, 1024> more{};
  Functions().get_last_error_string(more.data(), more.size());
  throw Error(ErrorKind::kUnavailable, {},
              StrCat("cuDNN: ", call, " failed: ", Functions().get_error_string(status),
                     more[0] == '\0' ? "" : StrCat(" (", more.data(), ")")));
}

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
  Check(Functions().create_descriptor(type, &handle_), StrCat("making a descriptor of kind ", static_cast<int>(type)));
}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

Descriptor::~Descriptor() {
  if (handle_ != nullptr) Functions().destroy_descriptor(handle_);
}

void Descriptor::SetRaw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                        const void* values) {
  Check(Functions().set_attribute(handle_, name, type, count, values),
        StrCat("setting attribute ", static_cast<int>(name)));
}

void Descriptor::Set(cudnnBackendAttributeName_t name, const std::vector<int64_t>& values) {
  SetRaw(name, CUDNN_TYPE_INT64, static_cast<int64_t>(values.size()), values.data());
}

void Descriptor::Set(cudnnBackendAttributeName_t name, const Descriptor& descriptor) {
  SetRaw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &descriptor.handle_);
}

void Descriptor::Set(cudnnBackendAttributeName_t name, const std::vector<const Descriptor*>& descriptors) {
  std::vector<cudnnBackendDescriptor_t> handles;
  for (const Descriptor* descriptor : descriptors) handles.push_back(descriptor->handle_);
  SetRaw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(handles.size()), handles.data());
}

void Descriptor::Finalize() { Check(Functions().finalize(handle_), "finishing a descriptor"); }
bool Descriptor::TryFinalize() { return Functions().finalize(handle_) == CUDNN_STATUS_SUCCESS; }

int64_t Descriptor::GetInt(cudnnBackendAttributeName_t name) const {
  int64_t count = 0;
  int64_t value = 0;
  Check(Functions().get_attribute(handle_, name, CUDNN_TYPE_INT64, 1, &count, &value), "reading an attribute");
  return value;
}

// cuDNN's enumerations have the size of an int32_t, so one function reads all of them.
std::vector<int32_t> Descriptor::GetEnums(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                                          int64_t most) const {
  static_assert(sizeof(cudnnBackendNumericalNote_t) == sizeof(int32_t));
  std::vector<int32_t> values(static_cast<size_t>(most));
  int64_t count = 0;
  Check(Functions().get_attribute(handle_, name, type, most, &count, values.data()), "reading an attribute");
  values.resize(static_cast<size_t>(count));
  return values;
}

// Asked twice, for the length and for the text.
std::string Descriptor::GetText(cudnnBackendAttributeName_t name) const {
  int64_t count = 0;
  Check(Functions().get_attribute(handle_, name, CUDNN_TYPE_CHAR, 0, &count, nullptr), "reading a text's length");
  std::string text(static_cast<size_t>(count), '\0');
  Check(Functions().get_attribute(handle_, name, CUDNN_TYPE_CHAR, count, &count, text.data()), "reading a text");
  return text;
}

Descriptor DeviceProperties(const Device& device) {
  Descriptor properties(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  const auto index = static_cast<int32_t>(device.index);
  properties.SetRaw(CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, 1, &index);
  properties.Finalize();
  return properties;
}

Descriptor DeviceProperties(const std::string& description) {
  Descriptor properties(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  properties.SetRaw(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                    static_cast<int64_t>(description.size()), description.data());
  properties.Finalize();
  return properties;
}

}  // namespace moka::cudnn
