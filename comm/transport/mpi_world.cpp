// Starts MPI under a watchdog, since neither MPI_Init nor MPI_Finalize has a time limit, agrees on one format among the
// ranks, and joins the two transports: rings within a host, MPI between hosts.
#include "comm/transport/mpi_world.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <mutex>
#include <random>
#include <string_view>
#include <thread>
#include <utility>

#include "comm/transport/mpi_library.h"
#include "comm/transport/mpi_transport.h"
#include "comm/transport/rank_values.h"
#include "comm/transport/region_transport.h"
#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "core/threads/cpus.h"

namespace moka {
namespace {

// For the ranks that still write what ends a training; MPI itself waits for them without end.
constexpr std::chrono::minutes kFinalizePatience(2);
// For ranks that a launcher is still starting, or that are no ranks at all; the first is when it is said.
constexpr std::chrono::seconds kStartTold(3);
constexpr std::chrono::minutes kStartPatience(10);
// How long the other ranks leave it to the first to say what is wrong with all.
constexpr std::chrono::seconds kFirstSpeaks(2);
// The version of what ranks of one host share and write to each other (comm/transport/region.h); it grows when that
// changes.
constexpr int kWorldFormat = 2;
constexpr std::string_view kFormatMark = ", world format ";

// While it lives, what MPI itself waits for without end has a time: `late` is called after each of the times, unless it
// has ended before.
class Watchdog {
 public:
  Watchdog(std::vector<std::chrono::seconds> times, std::function<void(std::chrono::seconds)> late)
      : thread_([this, times = std::move(times), late = std::move(late)](const std::stop_token& stop) {
          std::chrono::seconds passed(0);
          for (const std::chrono::seconds time : times) {
            std::unique_lock lock(mutex_);
            ended_.wait_for(lock, stop, time - passed, [] { return false; });
            if (stop.stop_requested()) return;
            late(passed = time);
          }
        }) {}

 private:
  std::mutex mutex_;
  std::condition_variable_any ended_;
  std::jthread thread_;  // last: it uses the others
};

// Errors that cannot be thrown, as the thread that they are for does not return.
[[noreturn]] void EndForPeers(const std::string& text) {
  std::fputs(StrCat("error: ", text, "\n").c_str(), stderr);
  std::fflush(nullptr);
  std::_Exit(static_cast<int>(ErrorKind::kPeer));
}

void Finalize() {
  const Watchdog watchdog({kFinalizePatience}, [](std::chrono::seconds) {
    EndForPeers(StrCat("other ranks have not ended ", kFinalizePatience.count(), " minutes after this one"));
  });
  Mpi().finalize();
}

// Ranks of this host through its memory, the others through MPI.
class WorldTransport : public Transport {
 public:
  WorldTransport(std::unique_ptr<MpiTransport> far, std::unique_ptr<Transport> near, std::vector<int> near_rank)
      : Transport(far->rank(), far->size()),
        far_(std::move(far)),
        near_(std::move(near)),
        near_rank_(std::move(near_rank)) {
    has_far_ = near_ == nullptr || near_->size() < size();
  }
  // After a failure MPI is left as it is: its end would wait for ranks that do not come.
  ~WorldTransport() override {
    const bool is_well = own_words_.empty() && std::uncaught_exceptions() == 0 && !has_failed_;
    near_.reset();
    far_.reset();
    if (is_well) Finalize();
  }

  std::span<std::byte> Reserve(int peer) override {
    return IsNear(peer) ? near_->Reserve(Near(peer)) : far_->Reserve(peer);
  }
  void Commit(int peer, int64_t bytes) override {
    IsNear(peer) ? near_->Commit(Near(peer), bytes) : far_->Commit(peer, bytes);
  }
  std::span<const std::byte> Peek(int peer) override {
    return IsNear(peer) ? near_->Peek(Near(peer)) : far_->Peek(peer);
  }
  void Consume(int peer, int64_t bytes) override {
    IsNear(peer) ? near_->Consume(Near(peer), bytes) : far_->Consume(peer, bytes);
  }
  void Idle(Deadline until, int peers) override {
    if (!has_far_) return near_->Idle(until, peers);
    far_->Idle(until, peers);
  }
  void Fail(const std::string& why) override {
    own_words_ = why;
    if (near_) near_->Fail(why);
    if (has_far_) far_->Fail(why);
  }
  std::string failure() const override {
    std::string why = near_ ? near_->failure() : std::string();
    if (why.empty() && has_far_) why = far_->failure();
    has_failed_ = has_failed_ || !why.empty();
    return why;
  }

 private:
  bool IsNear(int peer) const { return near_rank_[static_cast<size_t>(peer)] >= 0; }
  int Near(int peer) const { return near_rank_[static_cast<size_t>(peer)]; }

  std::unique_ptr<MpiTransport> far_;
  std::unique_ptr<Transport> near_;
  std::vector<int> near_rank_;  // by rank; -1: another host's
  bool has_far_ = true;
  std::string own_words_;
  mutable bool has_failed_ = false;
};

void Initialize() {
  Require(!HasOpenedWorld(), "OpenWorld is called once");
  // One thread at a time calls MPI, not always the same.
  int provided = 0;
  // One of the first two speaks, for one of them may be who is late.
  const Watchdog watchdog({kStartTold, kStartPatience}, [](std::chrono::seconds passed) {
    const int own = LaunchedRank();
    const std::string who = StrCat(own >= 0 ? StrCat("rank ", own) : std::string("this rank"), " has waited ",
                                   passed.count(), " s for the others");
    if (passed >= kStartPatience) EndForPeers(StrCat(who, ", which have not started"));
    if (own > 1) return;
    LogWarning(StrCat(who, LaunchedRanks() > 1 ? StrCat(" of ", LaunchedRanks()) : std::string(),
                      " to start: one is late, or is no rank of moka train or moka bench comm"));
  });
  if (Mpi().init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS ||
      provided < MPI_THREAD_SERIALIZED) {
    throw Error(ErrorKind::kUnavailable, "MPI could not be initialised for calls from more than one thread");
  }
}

// Before ranks speak in a way of their own. Errors: kConfig naming the ranks that run something else than the first.
void RequireSameProgram(MPI_Comm world, const std::string& program, int rank, int size) {
  std::array<char, 128> own{};
  const std::string text = StrCat(program, kFormatMark, kWorldFormat);
  text.copy(own.data(), own.size() - 1);
  std::vector<std::array<char, 128>> all(static_cast<size_t>(size));
  Mpi().allgather(own.data(), static_cast<int>(own.size()), Mpi().char_type, all.data(), static_cast<int>(own.size()),
                  Mpi().char_type, world);
  const auto differs = std::ranges::find_if(all, [&](const auto& other) { return other != all[0]; });
  if (differs == all.end()) return;
  if (rank != 0) std::this_thread::sleep_for(kFirstSpeaks);
  const auto other = static_cast<size_t>(differs - all.begin());
  throw Error(ErrorKind::kConfig, SourcePlace{},
              StrCat("the ranks do not run the same: rank ", other, " runs ", Printable(all[other].data()),
                     ", rank 0 runs ", Printable(all[0].data())),
              "start the same moka with the same verb on every rank");
}

// The ranks of this host and the transport between them.
struct NearWorld {
  std::unique_ptr<Transport> transport;
  std::vector<int> near_rank;
};

NearWorld OpenNear(MPI_Comm world, int rank, int size) {
  MPI_Comm host = Mpi().comm_null;
  Mpi().comm_split_type(world, MPI_COMM_TYPE_SHARED, rank, Mpi().info_null, &host);
  int near_rank = 0;
  int near_size = 1;
  Mpi().comm_rank(host, &near_rank);
  Mpi().comm_size(host, &near_size);
  NearWorld near{nullptr, std::vector<int>(static_cast<size_t>(size), -1)};
  std::vector<int> members(static_cast<size_t>(near_size));
  Mpi().allgather(&rank, 1, Mpi().int_type, members.data(), 1, Mpi().int_type, host);
  for (int i = 0; i < near_size; ++i) near.near_rank[static_cast<size_t>(members[static_cast<size_t>(i)])] = i;
  // The name holds the creator's process number, which other containers of the host may have too, and a random one; the
  // region is anonymous again as soon as all have it.
  std::array<unsigned, 2> creator = {static_cast<unsigned>(::getpid()), std::random_device()()};
  Mpi().bcast(creator.data(), 2, Mpi().unsigned_type, 0, host);
  const std::string name = StrCat("/moka-", creator[0], "-", creator[1]);
  std::shared_ptr<Region> region;
  std::string failure;
  const auto attempt = [&](auto make) {
    try {
      region = make(name, near_size);
    } catch (const Error& error) {
      failure = error.what();
    }
    int ok = failure.empty() ? 1 : 0;
    Mpi().allreduce(MPI_IN_PLACE, &ok, 1, Mpi().int_type, Mpi().min, host);
    return ok == 1;
  };
  bool ok = attempt([&](const std::string& n, int ranks) {
    return near_rank == 0 ? CreateSharedRegion(n, ranks) : std::shared_ptr<Region>();
  });
  ok = ok &&
       attempt([&](const std::string& n, int ranks) { return near_rank == 0 ? region : OpenSharedRegion(n, ranks); });
  if (near_rank == 0 && region != nullptr) UnlinkSharedRegion(name);
  Mpi().comm_free(&host);
  if (!ok) {
    throw Error(ErrorKind::kUnavailable,
                failure.empty() ? std::string("another rank of this host could not share memory") : failure);
  }
  near.transport = std::make_unique<RegionTransport>(std::move(region), near_rank);
  return near;
}

}  // namespace

bool HasOpenedWorld() {
  if (!IsMpiLoaded()) return false;
  int is_initialized = 0;
  Mpi().initialized(&is_initialized);
  return is_initialized != 0;
}

std::unique_ptr<Communicator> OpenWorld(const WorldOptions& options) {
  Initialize();
  auto far = std::make_unique<MpiTransport>(Mpi().comm_world);
  const int rank = far->rank();
  const int size = far->size();
  if (size == 1 && LaunchedRanks() > 1) {
    LogWarning(StrCat("a launcher started this as rank ", LaunchedRank(), " of ", LaunchedRanks(),
                      ", and MPI knows no other: this rank works alone (start ranks with the mpirun of the Open MPI ",
                      "whose library the loader finds)"));
  }
  RequireSameProgram(Mpi().comm_world, options.program, rank, size);
  NearWorld near{nullptr, std::vector<int>(static_cast<size_t>(size), -1)};
  if (options.shares_memory) near = OpenNear(Mpi().comm_world, rank, size);
  auto transport =
      std::make_unique<WorldTransport>(std::move(far), std::move(near.transport), std::move(near.near_rank));
  Communicator names(std::move(transport));
  std::vector<std::string> hosts = names.AllGather(HostName());
  const int node = NumaNodeOf(AffinityOf(0), "/").value_or(-1);
  std::vector<int> nodes;
  const std::vector<std::string> texts = names.AllGather(StrCat(node));
  for (int r = 0; r < size; ++r) nodes.push_back(WholeOfRank<int>(names, r, texts[static_cast<size_t>(r)]));
  const std::chrono::nanoseconds patience = names.patience();
  return std::make_unique<Communicator>(names.TakeTransport(), std::move(hosts), patience, std::move(nodes));
}

}  // namespace moka
