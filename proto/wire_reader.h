// The fields of one binary message, one after the other, over bytes that stay where they are: no descriptor is asked,
// so a message can be read by the few fields that matter, whatever else a fork has put in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace moka {

enum WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// A cursor; the bytes and the file's name must outlive it.
class WireReader {
 public:
  // `path` names the message in errors: "NetParameter".
  WireReader(std::string_view bytes, const std::string& file, std::string path)
      : whole_(bytes), file_(&file), end_(bytes.size()), path_(std::move(path)) {}

  // Steps to the next field; false at the end. Errors: kBadData naming the file, the byte and what is wrong there: cut
  // short, zero-filled, no field, a wire type no message of ours has.
  bool Next();

  // These tell of the field stepped to.
  uint64_t number() const { return number_; }
  WireType type() const { return type_; }
  uint64_t value() const { return value_; }                                             // kVarint
  std::string_view bytes() const { return whole_.substr(value_at_, at_ - value_at_); }  // the others
  size_t value_at() const { return value_at_; }

  // The field as a message of its own. Requires: type() == kBytes.
  WireReader Message(std::string path) const;
  // Errors: kBadData unless the field has the type.
  void Expect(WireType type, std::string_view field) const;
  // kBadData at a byte of the file.
  [[noreturn]] void Fail(size_t at, std::string_view what) const;
  // A number at `at`, which moves past it, before `end`.
  uint64_t ReadVarint(size_t& at, size_t end) const;

  const std::string& path() const { return path_; }
  size_t field_at() const { return field_at_; }

 private:
  void Skip(uint64_t count);

  std::string_view whole_;
  const std::string* file_;
  size_t at_ = 0;
  size_t end_;
  std::string path_;
  size_t field_at_ = 0;
  size_t value_at_ = 0;
  uint64_t number_ = 0;
  uint64_t value_ = 0;
  WireType type_ = kVarint;
};

}  // namespace moka
