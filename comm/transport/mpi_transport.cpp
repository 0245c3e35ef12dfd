// A ring of slots with nonblocking sends and receives for each side of a pair, made when the pair first talks: it takes
// nearly 1 MiB a pair, which most pairs of a large world never need. Slots are tested only when asked for.
#include "comm/transport/mpi_transport.h"

#include <sched.h>

#include <thread>

#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

constexpr int kDataTag = 1;
constexpr int kFailureTag = 2;
constexpr size_t kLastWords = 1024;
constexpr int kYields = 64;
constexpr std::chrono::microseconds kNap(50);

void Checked(int code, std::string_view call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  Mpi().error_string(code, text.data(), &length);
  throw Error(ErrorKind::kPeer, StrCat(call, ": ", std::string_view(text.data(), static_cast<size_t>(length))));
}

int RankIn(MPI_Comm world) {
  int rank = 0;
  Checked(Mpi().comm_rank(world, &rank), "MPI_Comm_rank");
  return rank;
}

int SizeOf(MPI_Comm world) {
  int size = 1;
  Checked(Mpi().comm_size(world, &size), "MPI_Comm_size");
  return size;
}

bool IsDone(MPI_Request& request, MPI_Status* status) {
  int done = 0;
  Checked(Mpi().test(&request, &done, status), "MPI_Test");
  return done != 0;
}

}  // namespace

MpiTransport::MpiTransport(MPI_Comm world)
    : Transport(RankIn(world), SizeOf(world)), world_(world), peers_(static_cast<size_t>(size())) {
  Mpi().comm_set_errhandler(world, Mpi().errors_return);
}

MpiTransport::~MpiTransport() {
  for (const std::unique_ptr<Peer>& peer : peers_) {
    if (!peer) continue;
    for (Slot& slot : peer->receives) {
      if (slot.request == Mpi().request_null) continue;
      Mpi().cancel(&slot.request);
      Mpi().request_free(&slot.request);
    }
  }
}

MpiTransport::Peer& MpiTransport::PeerOf(int peer) {
  std::unique_ptr<Peer>& made = peers_[static_cast<size_t>(peer)];
  if (!made) {
    made = std::make_unique<Peer>();
    for (Slot& slot : made->sends) slot.bytes.resize(kSlotBytes);
    for (Slot& slot : made->receives) {
      slot.bytes.resize(kSlotBytes);
      Post(peer, slot);
    }
  }
  return *made;
}

void MpiTransport::Post(int peer, Slot& slot) {
  slot.filled = slot.read = 0;
  Checked(Mpi().irecv(slot.bytes.data(), static_cast<int>(kSlotBytes), Mpi().byte_type, peer, kDataTag, world_,
                      &slot.request),
          "MPI_Irecv");
}

std::span<std::byte> MpiTransport::Reserve(int peer) {
  Peer& p = PeerOf(peer);
  Slot& slot = p.sends[static_cast<size_t>(p.next_send)];
  if (slot.request != Mpi().request_null && !IsDone(slot.request, MPI_STATUS_IGNORE)) return {};
  idle_ = 0;
  return slot.bytes;
}

void MpiTransport::Commit(int peer, int64_t bytes) {
  Peer& p = PeerOf(peer);
  Slot& slot = p.sends[static_cast<size_t>(p.next_send)];
  Checked(
      Mpi().isend(slot.bytes.data(), static_cast<int>(bytes), Mpi().byte_type, peer, kDataTag, world_, &slot.request),
      "MPI_Isend");
  p.next_send = (p.next_send + 1) % kSlots;
}

std::span<const std::byte> MpiTransport::Peek(int peer) {
  Peer& p = PeerOf(peer);
  Slot& slot = p.receives[static_cast<size_t>(p.next_receive)];
  if (slot.request != Mpi().request_null) {
    MPI_Status status;
    if (!IsDone(slot.request, &status)) return {};
    int count = 0;
    Checked(Mpi().get_count(&status, Mpi().byte_type, &count), "MPI_Get_count");
    slot.filled = count;
  }
  idle_ = 0;
  return std::span<const std::byte>(slot.bytes)
      .subspan(static_cast<size_t>(slot.read), static_cast<size_t>(slot.filled - slot.read));
}

void MpiTransport::Consume(int peer, int64_t bytes) {
  Peer& p = PeerOf(peer);
  Slot& slot = p.receives[static_cast<size_t>(p.next_receive)];
  slot.read += bytes;
  if (slot.read < slot.filled) return;
  Post(peer, slot);
  p.next_receive = (p.next_receive + 1) % kSlots;
}

// MPI moves only while it is asked, so nobody sleeps for long here.
void MpiTransport::Idle(Deadline until, int /*peers*/) {
  if (++idle_ < kYields || std::chrono::steady_clock::now() + kNap >= until) {
    ::sched_yield();
  } else {
    std::this_thread::sleep_for(kNap);
  }
}

void MpiTransport::Fail(const std::string& why) {
  if (!own_failure_.empty()) return;
  own_failure_ = why.substr(0, kLastWords);
  for (int peer = 0; peer < size(); ++peer) {
    MPI_Request request = Mpi().request_null;
    if (peer == rank()) continue;
    // Small enough to leave at once, and own_failure_ stays where it is.
    if (Mpi().isend(own_failure_.data(), static_cast<int>(own_failure_.size()), Mpi().byte_type, peer, kFailureTag,
                    world_, &request) == MPI_SUCCESS) {
      Mpi().request_free(&request);
    }
  }
}

std::string MpiTransport::failure() const {
  if (!own_failure_.empty()) return own_failure_;
  if (!failure_.empty()) return failure_;
  int there = 0;
  MPI_Status status;
  Checked(Mpi().iprobe(MPI_ANY_SOURCE, kFailureTag, world_, &there, &status), "MPI_Iprobe");
  if (there != 0) {
    std::string words(kLastWords, '\0');
    int count = 0;
    Checked(Mpi().recv(words.data(), static_cast<int>(words.size()), Mpi().byte_type, status.MPI_SOURCE, kFailureTag,
                       world_, &status),
            "MPI_Recv");
    Checked(Mpi().get_count(&status, Mpi().byte_type, &count), "MPI_Get_count");
    failure_ = words.substr(0, static_cast<size_t>(count));
  }
  return failure_;
}

}  // namespace moka
