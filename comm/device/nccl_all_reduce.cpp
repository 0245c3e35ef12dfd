// NCCL through its C interface. The communicator is one that does not block: its calls return at once and may be under
// way (ncclInProgress), so that every wait is ours and has an end.
#include "comm/device/nccl_all_reduce.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "comm/transport/rank_values.h"
#include "core/error.h"
#include "core/log.h"
#include "core/shared_library.h"
#include "core/text.h"

namespace moka {
namespace {

constexpr std::chrono::microseconds kNap(100);
constexpr std::chrono::seconds kEnding(5);           // for ncclCommFinalize, which waits for the other ranks
constexpr int kSharesGpus = NCCL_VERSION(2, 30, 0);  // several ranks on one

struct Nccl {
  SharedLibrary library{{"libnccl.so.2"}, "NCCL (package libnccl2)"};
  decltype(&ncclGetVersion) version = library.Symbol<decltype(&ncclGetVersion)>("ncclGetVersion");
  decltype(&ncclGetUniqueId) id = library.Symbol<decltype(&ncclGetUniqueId)>("ncclGetUniqueId");
  decltype(&ncclCommInitRankConfig) init = library.Symbol<decltype(&ncclCommInitRankConfig)>("ncclCommInitRankConfig");
  decltype(&ncclCommGetAsyncError) state = library.Symbol<decltype(&ncclCommGetAsyncError)>("ncclCommGetAsyncError");
  decltype(&ncclCommAbort) abort = library.Symbol<decltype(&ncclCommAbort)>("ncclCommAbort");
  decltype(&ncclCommFinalize) finalize = library.Symbol<decltype(&ncclCommFinalize)>("ncclCommFinalize");
  decltype(&ncclCommDestroy) destroy = library.Symbol<decltype(&ncclCommDestroy)>("ncclCommDestroy");
  decltype(&ncclGetErrorString) error = library.Symbol<decltype(&ncclGetErrorString)>("ncclGetErrorString");
  decltype(&ncclGetLastError) last_error = library.Symbol<decltype(&ncclGetLastError)>("ncclGetLastError");
  decltype(&ncclGroupStart) begin_group = library.Symbol<decltype(&ncclGroupStart)>("ncclGroupStart");
  decltype(&ncclGroupEnd) end_group = library.Symbol<decltype(&ncclGroupEnd)>("ncclGroupEnd");
  decltype(&ncclAllReduce) all_reduce = library.Symbol<decltype(&ncclAllReduce)>("ncclAllReduce");

  int Version() const {
    int found = 0;
    version(&found);
    return found;
  }
};

// Looked for once. Errors: those of SharedLibrary, each time.
const Nccl& Library() {
  static const Nccl nccl;
  return nccl;
}

// 22809 as "2.28.9".
std::string VersionText(int version) { return StrCat(version / 10000, ".", version / 100 % 100, ".", version % 100); }

bool MayShareGpus() {
  const char* wanted = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  return wanted != nullptr && std::string_view(wanted) == "1" && Library().Version() >= kSharesGpus;
}

std::string_view HintFor(ncclResult_t result) {
  switch (result) {
    case ncclSystemError:
      return "NCCL_DEBUG=WARN says which call of the system failed; a small /dev/shm is a common reason";
    case ncclRemoteError: return "another rank or the network failed: look at the other ranks' logs";
    case ncclInvalidUsage: return "NCCL_DEBUG=WARN says what NCCL does not take; every rank needs a GPU of its own";
    default: return "NCCL_DEBUG=WARN says more";
  }
}

class NcclAllReduce : public DeviceAllReduce {
 public:
  NcclAllReduce(Communicator& communicator, std::string place)
      : communicator_(communicator), place_(std::move(place)) {}
  ~NcclAllReduce() override;

  bool runs_schedules() const override { return false; }
  void Connect(Stream& stream) override;
  void Queue(const Message& message, const Schedule& schedule, Wire wire, Stream& stream) override;
  std::string Failure() override;
  void Abort() noexcept override;

 private:
  void CompareRanks() const;
  std::string Text(ncclResult_t result, std::string_view call) const;
  // A call that has returned `result` is over: done, or an error is thrown.
  void Finish(ncclResult_t result, std::string_view call);

  Communicator& communicator_;
  std::string place_;
  ncclComm_t comm_ = nullptr;
  bool is_aborted_ = false;
  std::jthread aborting_;
};

// Whether every rank has NCCL, and a GPU for itself.
void NcclAllReduce::CompareRanks() const {
  std::string mine;
  try {
    mine = StrCat("+", MayShareGpus() ? "shared" : "alone", "\n", place_);
  } catch (const Error& error) {
    mine = StrCat("-", error.text(), "\n", error.hint());
  }
  const std::vector<std::string> all = communicator_.AllGather(mine);
  const auto part = [&](int rank, size_t i) { return Split(all[static_cast<size_t>(rank)].substr(1), '\n').at(i); };
  for (int rank = 0; rank < communicator_.size(); ++rank) {
    const std::string& text = all[static_cast<size_t>(rank)];
    if (text.empty() || text.find('\n') == std::string::npos) RefuseMessage(communicator_, rank, "no word of its GPU");
    if (text.starts_with('-')) {
      throw Error(ErrorKind::kUnavailable, SourcePlace{}, StrCat(communicator_.NameOf(rank), ": ", part(rank, 0)),
                  part(rank, 1));
    }
    for (int other = 0; other < rank; ++other) {
      if (part(other, 1) != part(rank, 1) || part(rank, 0) == "shared") continue;
      throw Error(ErrorKind::kUnavailable, SourcePlace{},
                  StrCat(communicator_.NameOf(other), " and ", communicator_.NameOf(rank), " compute on one GPU (",
                         part(rank, 1), ")"),
                  StrCat("start no more ranks on a host than it has GPUs, with --device=gpu for all of them; or set "
                         "NCCL_MULTI_RANK_GPU_ENABLE=1, which NCCL 2.30 and newer know (this is ",
                         VersionText(Library().Version()), ")"));
    }
  }
}

void NcclAllReduce::Connect(Stream& stream) {
  CompareRanks();
  ncclUniqueId id{};
  std::string text;
  if (communicator_.is_first()) {
    const ncclResult_t result = Library().id(&id);
    text = result == ncclSuccess ? std::string(id.internal, sizeof id.internal)
                                 : StrCat("NCCL: ncclGetUniqueId failed: ", Library().error(result));
  }
  text = communicator_.Broadcast(text);
  if (text.size() != sizeof id.internal) throw Error(ErrorKind::kUnavailable, {}, text, "NCCL_DEBUG=WARN says more");
  std::memcpy(id.internal, text.data(), sizeof id.internal);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  stream.native();  // makes its GPU this thread's, and so the communicator's
  Finish(Library().init(&comm_, communicator_.size(), id, communicator_.rank(), &config), "ncclCommInitRankConfig");
  if (communicator_.is_first()) LogToFile(StrCat("NCCL ", VersionText(Library().Version())));
}

void NcclAllReduce::Queue(const Message& message, const Schedule& /*schedule*/, Wire wire, Stream& stream) {
  Require(comm_ != nullptr, "NCCL sums after Connect");
  Require(wire == Wire::kFloat32, "NCCL's sums travel as float32");
  if (is_aborted_) return;
  auto* const native = static_cast<cudaStream_t>(stream.native());
  Finish(Library().begin_group(), "ncclGroupStart");
  // All are given before the group ends, whatever becomes of one: an open group would take in the next calls.
  ncclResult_t first = ncclSuccess;
  message.ForEach(0, message.size(), [&](float* values, int64_t count) {
    const ncclResult_t result =
        Library().all_reduce(values, values, static_cast<size_t>(count), ncclFloat, ncclSum, comm_, native);
    if (first == ncclSuccess && result != ncclInProgress) first = result;
  });
  const ncclResult_t ended = Library().end_group();
  Finish(first, "ncclAllReduce");
  Finish(ended, "ncclGroupEnd");
}

std::string NcclAllReduce::Text(ncclResult_t result, std::string_view call) const {
  const char* more = comm_ == nullptr ? nullptr : Library().last_error(comm_);
  return StrCat("NCCL: ", call, " failed on ", communicator_.NameOf(communicator_.rank()), ": ",
                Library().error(result), more == nullptr || *more == '\0' ? "" : StrCat(" (", more, ")"));
}

void NcclAllReduce::Finish(ncclResult_t result, std::string_view call) {
  const Deadline deadline = std::chrono::steady_clock::now() + communicator_.patience();
  while (result == ncclInProgress) {
    if (std::string why = communicator_.transport().failure(); !why.empty()) {
      Abort();
      throw Error(ErrorKind::kPeer, std::move(why));
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      Abort();
      throw Error(ErrorKind::kPeer, StrCat(communicator_.NameOf(communicator_.rank()), " has waited ",
                                           std::chrono::duration<double>(communicator_.patience()).count(),
                                           " s for the other ranks in ", call));
    }
    std::this_thread::sleep_for(kNap);
    ncclResult_t now = ncclSuccess;
    const ncclResult_t asked = Library().state(comm_, &now);
    result = asked == ncclSuccess ? now : asked;
  }
  if (result == ncclSuccess) return;
  const std::string text = Text(result, call);
  Abort();
  throw Error(result == ncclRemoteError ? ErrorKind::kPeer : ErrorKind::kUnavailable, SourcePlace{}, text,
              std::string(HintFor(result)));
}

std::string NcclAllReduce::Failure() {
  if (std::string why = communicator_.transport().failure(); !why.empty()) return why;
  if (is_aborted_) return "the sums were given up";
  ncclResult_t now = ncclSuccess;
  const ncclResult_t asked = Library().state(comm_, &now);
  const ncclResult_t result = asked == ncclSuccess ? now : asked;
  return result == ncclSuccess || result == ncclInProgress ? std::string() : Text(result, "a sum of gradients");
}

// In a thread of its own: NCCL first tells the kernels under way to end, then waits until no recorded step holds one of
// its sums any more, and those go with their program.
void NcclAllReduce::Abort() noexcept {
  if (comm_ == nullptr || is_aborted_) return;
  is_aborted_ = true;
  try {
    aborting_ = std::jthread([comm = comm_] { Library().abort(comm); });
  } catch (const std::exception& error) {
    LogWarning(StrCat("NCCL cannot be ended: ", error.what()));
  }
}

NcclAllReduce::~NcclAllReduce() {
  if (comm_ == nullptr || is_aborted_) return;
  ncclResult_t state = Library().finalize(comm_);
  const Deadline deadline = std::chrono::steady_clock::now() + kEnding;
  while (state == ncclInProgress && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kNap);
    if (Library().state(comm_, &state) != ncclSuccess) break;
  }
  state == ncclSuccess ? Library().destroy(comm_) : Library().abort(comm_);
}

}  // namespace

std::string MissingNccl(int ranks) {
  const CudaFacts facts = FindCuda();
  const auto count = static_cast<int>(facts.gpus.size());
  if (count == 0) return StrCat("no GPU: ", facts.missing);
  try {
    const int version = Library().Version();
    if (ranks <= count || MayShareGpus()) return {};
    return StrCat(
        count, count == 1 ? " GPU" : " GPUs", " for ", ranks, " ranks, and NCCL ", VersionText(version),
        version < kSharesGpus ? " is older than 2.30" : " is not told to share by NCCL_MULTI_RANK_GPU_ENABLE=1");
  } catch (const Error& error) {
    return error.text();
  }
}

std::string PlaceOfGpu(const Device& device, const Communicator& communicator) {
  const std::string& host = communicator.hosts()[static_cast<size_t>(communicator.rank())];
  std::array<char, 32> bus{};
  if (cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), device.index) == cudaSuccess) {
    return StrCat(host, " ", bus.data());
  }
  cudaGetLastError();
  return StrCat(host, " ", NameOf(device));
}

std::unique_ptr<DeviceAllReduce> MakeNcclAllReduce(Communicator& communicator, std::string place) {
  return std::make_unique<NcclAllReduce>(communicator, std::move(place));
}

}  // namespace moka
