#include "core/device.h"

#include "core/device_backend.h"
#include "core/text.h"

namespace moka {

std::string NameOf(const Device& device) {
  return device.kind == DeviceKind::kCpu ? "CPU" : StrCat("GPU ", device.index);
}

DeviceBuffer AllocatePinned(const Device& device, int64_t bytes) {
  Require(bytes >= 0, "AllocatePinned: bytes not negative");
  return device.kind == DeviceKind::kCpu ? AllocateHostPinned(bytes) : AllocateCudaPinned(device.index, bytes);
}

std::unique_ptr<Event> MakeEvent(const Device& device) {
  return device.kind == DeviceKind::kCpu ? MakeHostEvent() : MakeCudaEvent(device.index);
}

std::unique_ptr<Stream> MakeStream(const Device& device) {
  return device.kind == DeviceKind::kCpu ? MakeHostStream() : MakeCudaStream(device.index);
}

Error OutOfDeviceMemory(const Device& device, int64_t asked, int64_t free, int64_t total) {
  return {ErrorKind::kUnavailable,
          {},
          StrCat(NameOf(device), ": out of memory allocating ", BytesText(asked), ": ", BytesText(free), " of ",
                 BytesText(total), " are free"),
          "a smaller batch_size needs less; nvidia-smi lists programs that use the device"};
}

}  // namespace moka
