// Tells the exit code by the error condition and not by the errno value, so that "disk full" has one code wherever it
// is thrown.
#include "core/exit_code.h"

#include <new>
#include <stdexcept>
#include <system_error>

#include "core/error.h"

namespace moka {
namespace {

ErrorKind KindOfReason(const std::error_code& code) {
  const std::error_condition reason = code.default_error_condition();
  if (reason == std::errc::permission_denied || reason == std::errc::operation_not_permitted)
    return ErrorKind::kNotAllowed;
  if (reason == std::errc::no_such_file_or_directory || reason == std::errc::not_a_directory)
    return ErrorKind::kNoInput;
  if (reason == std::errc::read_only_file_system || reason == std::errc::file_exists ||
      reason == std::errc::filename_too_long) {
    return ErrorKind::kCantCreate;
  }
  if (reason == std::errc::not_enough_memory || reason == std::errc::resource_unavailable_try_again)
    return ErrorKind::kUnavailable;  // threads that the system does not give
  return ErrorKind::kIo;
}

}  // namespace

int ExitCodeOf(const std::exception& error) {
  ErrorKind kind = ErrorKind::kInternal;
  if (const auto* own = dynamic_cast<const Error*>(&error)) {
    kind = own->kind();
  } else if (const auto* system = dynamic_cast<const std::system_error*>(&error)) {
    kind = KindOfReason(system->code());
  } else if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
             dynamic_cast<const std::length_error*>(&error) != nullptr) {
    kind = ErrorKind::kUnavailable;
  }
  return static_cast<int>(kind);
}

}  // namespace moka
