// The one error type. An Error says what happened with the values, where, and what to do; notes are added as it
// travels up ("while building layer 'conv1'"). Its kind is the exit code of the command line.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace moka {

// Each enumerator's value is the process exit code (sysexits where one fits).
enum class ErrorKind : int {
  kDiverged = 20,      // non-finite loss after the configured retries
  kTargetMissed = 21,  // budget spent, target metric not reached
  kVerification = 22,  // checksum, golden or compliance check failed
  kUsage = 64,         // unknown verb, flag or key
  kBadData = 65,       // bad data or model file
  kNoInput = 66,       // input missing
  kUnavailable = 69,   // device, library or service unavailable
  kInternal = 70,      // our bug
  kCantCreate = 73,    // cannot create output
  kIo = 74,            // read or write failed midway
  kInterrupted = 75,   // interrupted, checkpoint complete: rerun to resume
  kPeer = 76,          // a peer rank or remote server failed
  kNotAllowed = 77,    // permission
  kConfig = 78,        // prototxt or solver wrong: syntax, unknown field, shapes, bottoms
};

// A place in a text file. Lines and columns count from 1; line 0 means the place is unknown (file may still be set);
// column counts characters after tabs are expanded to 8; length is how many characters to underline.
struct SourcePlace {
  std::string file;
  int line = 0;
  int column = 0;
  int length = 1;

  // "file:line:column", as much of it as is known.
  std::string ToString() const;
};

class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string text) : Error(kind, SourcePlace{}, std::move(text)) {}
  Error(ErrorKind kind, SourcePlace place, std::string text, std::string hint = {});

  ErrorKind kind() const { return kind_; }
  const SourcePlace& place() const { return place_; }
  const std::string& text() const { return text_; }
  const std::string& hint() const { return hint_; }
  const std::vector<std::string>& notes() const { return notes_; }

  // Adds "while doing X"; the innermost note comes first.
  Error& AddNote(std::string note);
  // Sets the place if none is known yet.
  Error& SetPlace(const SourcePlace& place);

  // One line: "file:line:column: text; hint (note) (note)".
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  void Render();

  ErrorKind kind_;
  SourcePlace place_;
  std::string text_;
  std::string hint_;
  std::vector<std::string> notes_;
  std::string what_;
};

// Several errors of one file reported in one go (at most kMaxErrors are kept; the rest are counted).
class ErrorList : public Error {
 public:
  static constexpr int kMaxErrors = 20;

  // Requires: errors is not empty. The kind and place are those of the first.
  explicit ErrorList(std::vector<Error> errors);
  const std::vector<Error>& errors() const { return errors_; }

 private:
  std::vector<Error> errors_;
};

// A size beyond 63 bits (core/size.h): kBadData, unless whoever made the sizes is somebody else than a file.
class SizeOverflow : public Error {
 public:
  using Error::Error;
};

// Throws Error(kInternal) when a promise between Moka's own parts is broken. Never for a user's input.
[[noreturn]] void ThrowBrokenPromise(std::string_view promise);
inline void Require(bool condition, std::string_view promise) {
  if (!condition) ThrowBrokenPromise(promise);
}

}  // namespace moka
