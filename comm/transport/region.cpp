// Lays the bells, the last words, the ring counters and the rings' bytes one behind the other in one block of memory,
// all multiples of cache lines. Shared memory is reserved (posix_fallocate) and populated when it is mapped: a full
// /dev/shm is an error then and no SIGBUS later.
#include "comm/transport/region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <new>

#include "core/error.h"
#include "core/system_reason.h"
#include "core/text.h"

namespace moka {
namespace {

// 256 KiB hide the wake-ups between two ranks and stay in a core's second cache.
int64_t RingBytes(int ranks) {
  const int64_t share = (int64_t{16} << 20U) / (int64_t{ranks} * ranks);
  return std::clamp(static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(share))), int64_t{4} << 10U,
                    int64_t{256} << 10U);
}

class HeapRegion : public Region {
 public:
  HeapRegion(std::byte* memory, int ranks) : Region(memory, ranks, true), memory_(memory) {}
  ~HeapRegion() override { ::operator delete (memory_, std::align_val_t{64}); }

 private:
  std::byte* memory_;
};

class MappedRegion : public Region {
 public:
  MappedRegion(std::byte* memory, int ranks, bool fresh) : Region(memory, ranks, fresh), memory_(memory) {}
  ~MappedRegion() override { ::munmap(memory_, static_cast<size_t>(BytesFor(ranks()))); }

 private:
  std::byte* memory_;
};

[[noreturn]] void Fail(std::string_view what, const std::string& name, int error, int64_t bytes) {
  throw Error(ErrorKind::kUnavailable, SourcePlace{},
              StrCat("the ranks of this host cannot share memory: ", what, " ", name, ": ", SystemReason(error)),
              error == ENOSPC || error == ENOMEM
                  ? StrCat("/dev/shm needs ", bytes >> 20U, " MiB; in a container start it with --shm-size=256m")
                  : std::string());
}

std::shared_ptr<Region> Map(const std::string& name, int ranks, bool creates) {
  const int64_t bytes = Region::BytesFor(ranks);
  const int flags = creates ? O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC : O_RDWR | O_CLOEXEC;
  const int file = ::shm_open(name.c_str(), flags, 0600);
  if (file < 0) Fail(creates ? "creating" : "opening", name, errno, bytes);
  // Reserved now: a page that is not there later would be SIGBUS.
  int error = creates ? ::posix_fallocate(file, 0, bytes) : 0;
  struct stat status {};
  if (error == 0 && ::fstat(file, &status) != 0) error = errno;
  if (error == 0 && status.st_size < bytes) error = ENOSPC;  // made for fewer ranks, or cut
  void* memory = MAP_FAILED;
  if (error == 0) {
    // Populated now: faults while the rings go round for the first time would cost more than a short message.
    memory = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
    if (memory == MAP_FAILED) error = errno;
  }
  ::close(file);
  if (error != 0) {
    if (creates) ::shm_unlink(name.c_str());
    Fail("mapping", name, error, bytes);
  }
  return std::make_shared<MappedRegion>(static_cast<std::byte*>(memory), ranks, creates);
}

}  // namespace

int64_t Region::BytesFor(int ranks) {
  const int64_t pairs = int64_t{ranks} * ranks;
  return ranks * static_cast<int64_t>(sizeof(Bell) + sizeof(LastWords)) +
         pairs * (static_cast<int64_t>(sizeof(Ring)) + RingBytes(ranks));
}

Region::Region(std::byte* memory, int ranks, bool fresh) : ranks_(ranks), ring_bytes_(RingBytes(ranks)) {
  Require(ranks >= 1 && ranks <= 1024, "a host's region has 1 to 1024 ranks");
  std::byte* at = memory;
  const auto take = [&]<class T>(T*& array, int64_t count) {
    array = reinterpret_cast<T*>(at);
    if (fresh) {
      for (int64_t i = 0; i < count; ++i) new (array + i) T;
    }
    at += count * static_cast<int64_t>(sizeof(T));
  };
  take(bells_, ranks);
  take(words_, ranks);
  take(rings_, int64_t{ranks} * ranks);
  bytes_ = at;
}

std::shared_ptr<Region> MakeHeapRegion(int ranks) {
  auto* memory =
      static_cast<std::byte*>(::operator new (static_cast<size_t>(Region::BytesFor(ranks)), std::align_val_t{64}));
  return std::make_shared<HeapRegion>(memory, ranks);
}

std::shared_ptr<Region> CreateSharedRegion(const std::string& name, int ranks) { return Map(name, ranks, true); }
std::shared_ptr<Region> OpenSharedRegion(const std::string& name, int ranks) { return Map(name, ranks, false); }
void UnlinkSharedRegion(const std::string& name) { ::shm_unlink(name.c_str()); }

}  // namespace moka
