// Dispatches by the kind of device to the functions of device_backend.h.
#include "core/device/device.h"

#include "core/device/device_backend.h"
#include "core/text.h"

namespace moka {
namespace {

// Whether the CPU does the device's work.
bool IsHost(const Device& device) { return device.is_cpu() || device.is_rehearsed(); }

}  // namespace

std::string NameOf(const Device& device) {
  if (device.is_cpu()) return "CPU";
  return device.is_rehearsed() ? "rehearsed GPU" : StrCat("GPU ", device.index);
}

DeviceBuffer AllocatePinned(const Device& device, int64_t bytes) {
  Require(bytes >= 0, "AllocatePinned: bytes not negative");
  return IsHost(device) ? AllocateHostPinned(bytes) : AllocateCudaPinned(device.index, bytes);
}

std::unique_ptr<Event> MakeEvent(const Device& device) {
  return IsHost(device) ? MakeHostEvent() : MakeCudaEvent(device.index);
}

std::unique_ptr<Stream> MakeStream(const Device& device) {
  return IsHost(device) ? MakeHostStream(device) : MakeCudaStream(device.index);
}

Error OutOfDeviceMemory(const Device& device, int64_t asked, int64_t free, int64_t total) {
  return {ErrorKind::kUnavailable,
          {},
          StrCat(NameOf(device), ": out of memory allocating ", BytesText(asked), ": ", BytesText(free), " of ",
                 BytesText(total), " are free"),
          "a smaller batch_size needs less; nvidia-smi lists programs that use the device"};
}

}  // namespace moka
