// The part that the reader and the writer of HDF5 files share: the library and its handles. Private to this room.
#pragma once

#include <hdf5.h>

#include <mutex>
#include <string>
#include <utility>

namespace moka {

// The library is not thread-safe: every call takes it.
std::mutex& LibraryMutex();

// An open object of the library.
class Hdf5Handle {
 public:
  Hdf5Handle() = default;
  Hdf5Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  Hdf5Handle(Hdf5Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Hdf5Handle& operator=(Hdf5Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Hdf5Handle() { Close(); }
  herr_t Close() { return id_ < 0 ? 0 : close_(std::exchange(id_, -1)); }
  hid_t get() const { return id_; }
  bool is_open() const { return id_ >= 0; }

 private:
  hid_t id_ = -1;
  herr_t (*close_)(hid_t) = nullptr;
};

// Errors are read from the library's stack, not printed by it; plug-ins are not looked for. Requires: the lock is held.
void PrepareLibrary();
// Returns the library's words for what went wrong at the innermost place.
std::string LibraryReason();
// How files are opened: no lock files, and everything the library opened is closed with the file.
Hdf5Handle FileAccess();

}  // namespace moka
