// The SIGBUS handler may call nothing but mmap and sigaction and may take no lock: it finds the map in a fixed list of
// slots with atomic fields. Faults outside of these maps go to the handler that was there before.
#include "core/mapped_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <utility>

#include "core/error.h"
#include "core/system_reason.h"
#include "core/text.h"

namespace moka {

// The facts that the signal handler knows of one map. Slots are used again and never freed, so that the handler may
// walk them at any time without a lock.
struct MappedFile::Slot {
  std::atomic<uintptr_t> begin{0};  // 0: free
  std::atomic<uintptr_t> end{0};
  std::atomic<bool> is_lost{false};
  Slot* next = nullptr;
};

struct MappedFileSlots {
  using Slot = MappedFile::Slot;

  static std::atomic<Slot*> first;
  static uintptr_t page_bytes;
  static struct sigaction former;
  static std::mutex mutex;  // of Take and Free

  static void Install();
  static void OnBusError(int signal, siginfo_t* info, void* context);
  static Slot* Take(const void* data, int64_t bytes);
  static void Free(Slot& slot);
};

std::atomic<MappedFile::Slot*> MappedFileSlots::first{nullptr};
uintptr_t MappedFileSlots::page_bytes = 0;
struct sigaction MappedFileSlots::former {};
std::mutex MappedFileSlots::mutex;

static_assert(std::atomic<uintptr_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

// Calls only mmap and sigaction, which are system calls and no more. Everything from the page on is replaced at once:
// a file that was cut has none of the later pages either.
void MappedFileSlots::OnBusError(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  // A signal that somebody sent is of no address.
  const uintptr_t at = info->si_code > 0 ? reinterpret_cast<uintptr_t>(info->si_addr) : 0;
  for (Slot* slot = first.load(std::memory_order_acquire); slot != nullptr; slot = slot->next) {
    const uintptr_t begin = slot->begin.load(std::memory_order_acquire);
    const uintptr_t end = slot->end.load(std::memory_order_acquire);
    if (begin == 0 || at < begin || at >= end) continue;
    const uintptr_t page = at / page_bytes * page_bytes;
    slot->is_lost.store(true, std::memory_order_release);  // before another thread can read the zeros
    void* zeros =
        mmap(reinterpret_cast<void*>(page), end - page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (zeros == MAP_FAILED) break;
    errno = error;
    return;
  }
  // Nothing of ours: whoever had the signal before gets it.
  if ((former.sa_flags & SA_SIGINFO) != 0 && former.sa_sigaction != nullptr) {
    former.sa_sigaction(signal, info, context);
  } else if (former.sa_handler != SIG_DFL && former.sa_handler != SIG_IGN) {
    former.sa_handler(signal);
  } else {
    sigaction(SIGBUS, &former, nullptr);  // the access is tried again, and ends the program as it would have
    if (info->si_code <= 0) raise(signal);
  }
  errno = error;
}

void MappedFileSlots::Install() {
  page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  struct sigaction action {};
  action.sa_sigaction = OnBusError;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, &former);
}

MappedFile::Slot* MappedFileSlots::Take(const void* data, int64_t bytes) {
  const std::scoped_lock lock(mutex);
  if (page_bytes == 0) Install();
  Slot* slot = first.load();
  while (slot != nullptr && slot->begin.load() != 0) slot = slot->next;
  const bool is_new = slot == nullptr;
  if (is_new) slot = new Slot;  // kept for good, reachable from `first`
  const auto begin = reinterpret_cast<uintptr_t>(data);
  slot->is_lost.store(false);
  slot->end.store((begin + static_cast<uintptr_t>(bytes) + page_bytes - 1) / page_bytes * page_bytes);
  slot->begin.store(begin);
  if (is_new) {
    slot->next = first.load();
    first.store(slot, std::memory_order_release);
  }
  return slot;
}

void MappedFileSlots::Free(Slot& slot) {
  const std::scoped_lock lock(mutex);
  slot.begin.store(0);
}

namespace {

constexpr int64_t kNanosASecond = 1000000000;

int64_t WrittenNanos(const struct stat& status) {
  return int64_t{status.st_mtim.tv_sec} * kNanosASecond + status.st_mtim.tv_nsec;
}

}  // namespace

MappedFile::MappedFile(int fd, int64_t bytes, std::filesystem::path path)
    : path_(std::move(path)), bytes_(bytes), fd_(fd) {
  Require(bytes > 0, "MappedFile: a map has bytes");
  const auto fail = [&] {
    const std::string reason = SystemReason();
    close(std::exchange(fd_, -1));
    throw Error(ErrorKind::kIo, StrCat("cannot map ", path_.string(), ": ", reason));
  };
  struct stat status {};
  if (fstat(fd_, &status) != 0) fail();
  written_ns_ = WrittenNanos(status);
  void* map = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ, MAP_SHARED, fd_, 0);
  if (map == MAP_FAILED) fail();
  data_ = static_cast<const char*>(map);
  slot_ = MappedFileSlots::Take(map, bytes);
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(fd_, other.fd_);
  std::swap(written_ns_, other.written_ns_);
  std::swap(slot_, other.slot_);
  return *this;
}

MappedFile::~MappedFile() {
  if (slot_ != nullptr) MappedFileSlots::Free(*slot_);
  if (data_ != nullptr) munmap(const_cast<char*>(data_), static_cast<size_t>(bytes_));
  if (fd_ >= 0) close(fd_);
}

bool MappedFile::IsLost() const { return slot_->is_lost.load(std::memory_order_acquire); }

void MappedFile::ThrowLost() const {
  throw Error(ErrorKind::kIo, {},
              StrCat(path_.string(), " lost pages while it was read: it was cut, or its disk cannot be read"),
              "bring the file back, and resume from the last checkpoint");
}

void MappedFile::CheckUnchanged() const {
  Check();
  if (fd_ < 0) return;
  struct stat status {};
  if (fstat(fd_, &status) != 0) throw Error(ErrorKind::kIo, StrCat(path_.string(), ": ", SystemReason()));
  if (status.st_size < bytes_) {
    throw Error(ErrorKind::kIo, {},
                StrCat(path_.string(), " was cut from ", BytesText(bytes_), " to ", BytesText(status.st_size),
                       " while it was read"),
                "bring the file back, and resume from the last checkpoint");
  }
  if (WrittenNanos(status) != written_ns_) {
    throw Error(ErrorKind::kIo, {}, StrCat(path_.string(), " was written while it was read"),
                "records of two versions would be mixed; resume from the last checkpoint when the file is at rest");
  }
}

}  // namespace moka
