// Sets up the library once: its own printing of errors and its plugins are off, files are not locked, and the error
// stack is walked for the innermost reason.
#include "proto/weights/hdf5_library.h"

#include "core/text.h"

namespace moka {

std::mutex& LibraryMutex() {
  static std::mutex mutex;
  return mutex;
}

void PrepareLibrary() {
  static const bool is_done = [] {
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    H5PLset_loading_state(0);
    return true;
  }();
  static_cast<void>(is_done);
}

std::string LibraryReason() {
  std::string reason;
  const auto take = [](unsigned n, const H5E_error2_t* error, void* text) -> herr_t {
    if (n == 0 && error->desc != nullptr) *static_cast<std::string*>(text) = error->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take, &reason);
  return reason.empty() ? std::string("no reason given") : Printable(reason);
}

Hdf5Handle FileAccess() {
  Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_fclose_degree(access.get(), H5F_CLOSE_STRONG);
  H5Pset_file_locking(access.get(), false, true);
  return access;
}

}  // namespace moka
