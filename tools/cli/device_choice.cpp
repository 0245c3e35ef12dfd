// Parses the device's name, then asks for the device: a GPU that is not there is an error with what is there.
#include "tools/cli/device_choice.h"

#include <charconv>
#include <optional>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "proto/text/places.h"

namespace moka {
namespace {

// A GPU's number; none for other text.
std::optional<int> IndexOf(std::string_view text) {
  int index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (error != std::errc() || end != text.data() + text.size() || index < 0) return std::nullopt;
  return index;
}

// The GPU of a rank's place on its host; the first where there is none.
int IndexOfRank(int local_rank) {
  const auto count = static_cast<int>(FindCuda().gpus.size());
  return count == 0 ? 0 : local_rank % count;
}

// Returns the device that a name means, whether or not the GPU is there.
std::optional<Device> DeviceNamed(std::string_view name, int local_rank) {
  if (name == "cpu") return Device{};
  if (name == "gpu") return Device{DeviceKind::kCuda, IndexOfRank(local_rank)};
  if (name == "rehearsal") return Device{DeviceKind::kCuda, Device::kRehearsed};
  if (!name.starts_with("gpu:")) return std::nullopt;
  const std::optional<int> index = IndexOf(name.substr(4));
  return index ? std::optional(Device{DeviceKind::kCuda, *index}) : std::nullopt;
}

Device Required(const Device& device) {
  const bool is_there = device.is_rehearsed()
                            ? !CudaRuntime().empty()
                            : device.is_cpu() || device.index < static_cast<int>(FindCuda().gpus.size());
  if (is_there) return device;
  throw Error(ErrorKind::kUnavailable, {}, StrCat("there is no ", NameOf(device)),
              "`moka device` lists the GPUs and says what is missing; --device=cpu computes on the CPU");
}

Device OfCommandLine(const Arguments& arguments, int local_rank) {
  if (arguments.Has("device")) {
    const std::string name = arguments.Get("device");
    if (const std::optional<Device> device = DeviceNamed(name, local_rank)) return Required(*device);
    throw Error(ErrorKind::kUsage, {},
                StrCat("--device wants cpu, gpu, gpu:N or rehearsal, found \"", Printable(name), "\""),
                DidYouMean(name, {"cpu", "gpu", "gpu:0", "rehearsal"}));
  }
  const std::string text = arguments.Get("gpu");
  if (const std::optional<int> index = IndexOf(text)) return Required({DeviceKind::kCuda, *index});
  throw Error(ErrorKind::kUsage, {}, StrCat("--gpu wants the number of one GPU, found \"", Printable(text), "\""),
              "moka train alone takes several, --gpu=0,1 or --gpu=all: a rank for each; --device=gpu is the first GPU");
}

}  // namespace

Device DeviceOf(const Arguments& arguments, const SolverParameter* solver, int local_rank) {
  if (arguments.Has("device") || arguments.Has("gpu")) return OfCommandLine(arguments, local_rank);
  // 8-bit kernels are the CPU's.
  if (arguments.Has("int8") || (solver != nullptr && solver->solver_mode() == SolverParameter::CPU)) return {};
  const CudaFacts facts = FindCuda();
  const int named = solver == nullptr ? 0 : solver->device_id_size();
  const int index = named > 0 ? solver->device_id(local_rank % named) : IndexOfRank(local_rank);
  if (index >= 0 && index < static_cast<int>(facts.gpus.size())) return {DeviceKind::kCuda, index};
  if (named > 0 && !facts.gpus.empty()) {
    throw Error(ErrorKind::kUnavailable, PlaceOf(*solver, StrCat("device_id[", local_rank % named, "]")),
                StrCat("device_id ", index, " is not one of the ", facts.gpus.size(), " GPUs here"),
                "`moka device` lists them; --device chooses another, --device=cpu none");
  }
  if (solver != nullptr && (solver->has_solver_mode() || named > 0)) {
    LogWarning(StrCat(PlaceOf(*solver, solver->has_solver_mode() ? "solver_mode" : "device_id[0]").ToString(),
                      ": there is no GPU (", facts.missing, "): the CPU computes"));
  }
  return {};
}

}  // namespace moka
