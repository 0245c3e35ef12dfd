// The few fields of TensorFlow's Event message are encoded by hand; its library would be a large dependency for twenty
// bytes.
#include "optim/run/events.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "core/checksum.h"
#include "core/error.h"
#include "core/system_reason.h"
#include "core/text.h"
#include "core/wall_clock.h"

namespace moka {
namespace {

// Wire types and field numbers of the protocol-buffer encoding.
enum class WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void AppendVarint(std::string& out, uint64_t value) {
  constexpr uint64_t kMore = 0x80;
  for (; value >= kMore; value >>= 7U) out += static_cast<char>((value & 0x7FU) | kMore);
  out += static_cast<char>(value);
}

void AppendKey(std::string& out, uint32_t field, WireType wire) {
  AppendVarint(out, field << 3U | static_cast<uint32_t>(wire));
}

template <class T>
void AppendFixed(std::string& out, T value) {
  std::array<char, sizeof(T)> raw{};
  std::memcpy(raw.data(), &value, sizeof(T));
  out.append(raw.data(), raw.size());
}

void AppendBytes(std::string& out, uint32_t field, std::string_view bytes) {
  AppendKey(out, field, WireType::kBytes);
  AppendVarint(out, bytes.size());
  out += bytes;
}

// Event { double wall_time = 1; int64 step = 2; ... }.
std::string EventHead(double wall_time, int64_t step) {
  std::string event;
  AppendKey(event, 1, WireType::kFixed64);
  AppendFixed(event, wall_time);
  AppendKey(event, 2, WireType::kVarint);
  AppendVarint(event, static_cast<uint64_t>(step));
  return event;
}

// The CRC of data that itself holds CRCs is rotated and offset, as TensorFlow does.
uint32_t MaskedCrc(std::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  return ((crc >> 15U) | (crc << 17U)) + 0xA282EAD8U;
}

}  // namespace

std::string EventRecord(std::string_view data) {
  std::string length;
  AppendFixed(length, static_cast<uint64_t>(data.size()));
  std::string record = length;
  AppendFixed(record, MaskedCrc(length));
  record += data;
  AppendFixed(record, MaskedCrc(data));
  return record;
}

std::string ScalarEvent(double wall_time, int64_t step, std::string_view tag, float value) {
  std::string entry;  // Summary.Value { string tag = 1; float simple_value = 2; }
  AppendBytes(entry, 1, tag);
  AppendKey(entry, 2, WireType::kFixed32);
  AppendFixed(entry, value);
  std::string summary;  // Summary { repeated Value value = 1; }
  AppendBytes(summary, 1, entry);
  std::string event = EventHead(wall_time, step);
  AppendBytes(event, 5, summary);  // Event.summary
  return event;
}

EventWriter::EventWriter(const std::filesystem::path& folder, int64_t resumed_at) {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  const double now = SecondsSince1970();
  const std::string stem = StrCat("events.out.tfevents.", static_cast<int64_t>(now), ".",
                                  host[0] == '\0' ? "host" : host.data(), ".", getpid());
  // A second writer of one process and second gets the next number.
  for (int number = 0; fd_ < 0; ++number) {
    path_ = folder / StrCat(stem, ".", number);
    fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd_ < 0 && errno != EEXIST) {
      throw Error(ErrorKind::kCantCreate, StrCat("cannot create ", path_.string(), ": ", SystemReason()));
    }
  }
  std::string version = EventHead(now, 0);
  AppendBytes(version, 3, "brain.Event:2");  // Event.file_version
  WriteRecord(version);
  if (resumed_at < 0) return;
  std::string session;  // SessionLog { SessionStatus status = 1; } with START = 1
  AppendKey(session, 1, WireType::kVarint);
  AppendVarint(session, 1);
  std::string event = EventHead(now, resumed_at);
  AppendBytes(event, 7, session);  // Event.session_log
  WriteRecord(event);
}

EventWriter::~EventWriter() {
  if (fd_ >= 0) close(fd_);
}

void EventWriter::AddScalar(std::string_view tag, int64_t step, double value) {
  WriteRecord(ScalarEvent(SecondsSince1970(), step, tag, static_cast<float>(value)));
}

void EventWriter::WriteRecord(std::string_view event) {
  const std::string record = EventRecord(event);
  struct stat before {};
  const bool is_known = fstat(fd_, &before) == 0;
  errno = ENOSPC;  // what a write that was cut short does not say
  if (write(fd_, record.data(), record.size()) != static_cast<ssize_t>(record.size())) {
    const int reason = errno;
    // Readers give up at half a record; without it they find those that follow once there is room again.
    if (is_known && ftruncate(fd_, before.st_size) == 0) (void)lseek(fd_, before.st_size, SEEK_SET);
    throw Error(ErrorKind::kIo, StrCat("cannot write ", path_.string(), ": ", SystemReason(reason)));
  }
}

}  // namespace moka
