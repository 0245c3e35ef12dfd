// Files are opened without blocking, and the descriptor is checked, not the name, so that nothing can be exchanged
// between check and use. In folders that Moka writes O_NOFOLLOW is given and the owner is checked.
#include "core/open_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "core/error.h"
#include "core/system_reason.h"
#include "core/text.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

std::string Shown(const fs::path& path) { return Printable(path.string()); }

// The owner of a file that this user makes in the folder; -1 where none can be made.
int64_t OwnerOfNewFiles(const fs::path& folder) {
  std::string name = (folder / ".owner.XXXXXX").string();
  const int fd = mkostemp(name.data(), O_CLOEXEC);
  if (fd < 0) return -1;
  unlink(name.c_str());
  struct stat status {};
  const bool is_known = fstat(fd, &status) == 0;
  close(fd);
  return is_known ? int64_t{status.st_uid} : -1;
}

// Neither this user's nor root's, while files that this user makes in the folder have another owner (some network file
// systems give all files to one user).
bool IsForeign(const struct stat& status, const fs::path& folder) {
  if (status.st_uid == 0 || status.st_uid == geteuid()) return false;
  return int64_t{status.st_uid} != OwnerOfNewFiles(folder.empty() ? "." : folder);
}

// Files of procfs and sysfs are what the kernel says of itself: they have no size, and reading some of them waits for
// ever. A link there to what a process has open (/dev/stdin) leads to that file's own file system.
bool IsOfKernel(const fs::path& path) {
  struct statfs system {};
  if (statfs(path.c_str(), &system) != 0) return false;
  return system.f_type == PROC_SUPER_MAGIC || system.f_type == SYSFS_MAGIC;
}

Error NotOurs(const fs::path& path, const std::string& what) {
  return {ErrorKind::kNotAllowed, {}, StrCat(Shown(path), " ", what), "remove it, or give another folder"};
}

Error OfAnotherUser(const fs::path& path, const struct stat& status) {
  return {ErrorKind::kNotAllowed,
          {},
          StrCat(Shown(path), " belongs to another user (", status.st_uid, ")"),
          "a copy of the folder (cp -r) is yours"};
}

}  // namespace

std::string_view KindOfFile(unsigned mode) {
  if (S_ISREG(mode)) return "a regular file";
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  if (S_ISSOCK(mode)) return "a socket";
  return "a symbolic link";
}

OpenFile OpenFile::ForReading(const fs::path& path) {
  const auto fail = [&] {
    const ErrorKind kind = errno == EACCES || errno == EPERM ? ErrorKind::kNotAllowed : ErrorKind::kNoInput;
    const std::string reason = SystemReason();
    std::error_code code;
    const fs::path target = fs::read_symlink(path, code);
    return Error(kind, StrCat("cannot open ", Shown(path), ": ",
                              code ? "" : StrCat("it is a link to ", Shown(target), ": "), reason));
  };
  const auto refuse = [&](unsigned mode) {
    return Error(ErrorKind::kNoInput, StrCat(Shown(path), " is not a regular file: it is ", KindOfFile(mode)));
  };
  struct stat status {};
  // Asked first, since opening a device can have an effect; and again of what was opened.
  if (stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) throw refuse(status.st_mode);
  if (IsOfKernel(path))
    throw Error(ErrorKind::kNoInput, StrCat(Shown(path), " is not a regular file: the kernel makes it"));
  OpenFile file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), 0);
  if (file.fd() < 0 || fstat(file.fd(), &status) != 0) throw fail();
  if (!S_ISREG(status.st_mode)) throw refuse(status.st_mode);
  file.bytes_ = status.st_size;
  return file;
}

OpenFile OpenFile::OpenOwn(const fs::path& path, int flags) {
  constexpr mode_t kMode = 0644;
  struct stat status {};
  if (lstat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    throw NotOurs(path, StrCat("is not a regular file: it is ", KindOfFile(status.st_mode)));
  }
  OpenFile file(open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, kMode), 0);
  if (file.fd() < 0 || fstat(file.fd(), &status) != 0) {
    throw Error(ErrorKind::kCantCreate, StrCat("cannot open ", Shown(path), ": ", SystemReason()));
  }
  if (!S_ISREG(status.st_mode)) {
    throw NotOurs(path, StrCat("is not a regular file: it is ", KindOfFile(status.st_mode)));
  }
  if (IsForeign(status, path.parent_path())) throw OfAnotherUser(path, status);
  file.bytes_ = status.st_size;
  return file;
}

OpenFile OpenFile::ForAppending(const fs::path& path) { return OpenOwn(path, O_WRONLY | O_CREAT | O_APPEND); }

OpenFile OpenFile::ForUpdating(const fs::path& path) { return OpenOwn(path, O_RDWR | O_CREAT); }

OpenFile OpenFile::ForReadingOwn(const fs::path& path) { return OpenOwn(path, O_RDONLY); }

OpenFile& OpenFile::operator=(OpenFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

OpenFile::~OpenFile() {
  if (fd_ >= 0) close(fd_);
}

int64_t OpenFile::ReadAt(int64_t offset, char* data, int64_t bytes, const fs::path& path) const {
  return moka::ReadAt(fd_, offset, data, bytes, path);
}

int64_t ReadAt(int fd, int64_t offset, char* data, int64_t bytes, const fs::path& path) {
  int64_t done = 0;
  while (done < bytes) {
    const ssize_t n = pread(fd, data + done, static_cast<size_t>(bytes - done), offset + done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw Error(ErrorKind::kIo, StrCat(Shown(path), ": read failed: ", SystemReason()));
    if (n == 0) break;
    done += n;
  }
  return done;
}

void CheckReplaceable(const fs::path& path) {
  const auto refuse = [&](std::string_view what) {
    return Error(ErrorKind::kCantCreate, StrCat("cannot create ", Shown(path), ": ", what));
  };
  struct stat status {};
  // Anything else that stands there (planted or not) is replaced by the rename and not written to; a folder stays.
  if (stat(path.c_str(), &status) == 0 && (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode))) {
    throw refuse(StrCat("it is ", KindOfFile(status.st_mode), ", not a regular file"));
  }
  // Links there lead to what a process has open: /dev/stdout to the file that a shell made.
  const std::string text = path.lexically_normal().string();
  const bool is_system = text.starts_with("/dev/") || text.starts_with("/proc/");
  if (is_system && !text.starts_with("/dev/shm/")) throw refuse("that is no place for files");
}

bool IsBelow(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

fs::path TargetInFolder(const fs::path& link) {
  std::error_code code;
  const fs::path target = fs::read_symlink(link, code);
  if (!code && target == target.filename() && target != ".." && target != ".") return link.parent_path() / target;
  throw Error(ErrorKind::kNotAllowed,
              StrCat(Shown(link), " is a symbolic link to ", Shown(target), ", outside of its folder"));
}

void CheckOwnFolder(const fs::path& folder) {
  std::error_code code;
  const fs::path root = fs::canonical(folder, code);
  if (code) throw Error(ErrorKind::kNoInput, StrCat("cannot open folder ", Shown(folder), ": ", code.message()));
  const auto check = [&](const fs::path& path, const fs::path& shown) {
    struct stat status {};
    if (lstat(path.c_str(), &status) != 0) return;  // gone by now
    if (IsForeign(status, S_ISDIR(status.st_mode) ? path : path.parent_path())) throw OfAnotherUser(shown, status);
    if (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)) return;
    if (!S_ISLNK(status.st_mode)) throw NotOurs(shown, StrCat("is ", KindOfFile(status.st_mode)));
    const fs::path target = fs::weakly_canonical(path, code);
    if (code || !IsBelow(target, root)) {
      const std::string to = fs::read_symlink(path, code).string();
      throw NotOurs(shown, StrCat("is a symbolic link to ", Printable(to), ", outside of ", Shown(folder)));
    }
  };
  check(root, folder);
  fs::recursive_directory_iterator at(root, code);
  for (; !code && at != fs::recursive_directory_iterator(); at.increment(code)) {
    check(at->path(), folder / at->path().lexically_relative(root));
  }
  if (code) throw Error(ErrorKind::kIo, StrCat("cannot read folder ", Shown(folder), ": ", code.message()));
}

}  // namespace moka
