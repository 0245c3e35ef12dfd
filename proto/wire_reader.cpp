// Varints are at most ten bytes and lengths end inside the parent; anything else is an error with its offset.
#include "proto/wire_reader.h"

#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

constexpr uint64_t kLargestFieldNumber = (uint64_t{1} << 29U) - 1;  // protobuf's

}  // namespace

void WireReader::Fail(size_t at, std::string_view what) const {
  throw Error(ErrorKind::kBadData, SourcePlace{.file = *file_},
              StrCat("at byte ", at, " of ", whole_.size(), ", in ", path_, ": ", what));
}

uint64_t WireReader::ReadVarint(size_t& at, size_t end) const {
  uint64_t value = 0;
  const size_t begin = at;
  for (unsigned shift = 0; shift < 70; shift += 7) {
    if (at == end) {
      Fail(begin,
           end == whole_.size() ? "the file is cut off in a number" : "a number runs over the end of its message");
    }
    const auto byte = static_cast<unsigned char>(whole_[at++]);
    if (shift < 64) value |= uint64_t{byte & 0x7FU} << shift;
    if ((byte & 0x80U) == 0) return value;
  }
  Fail(begin, "a number is longer than 10 bytes");
}

void WireReader::Skip(uint64_t count) {
  value_at_ = at_;
  if (count > end_ - at_) {
    Fail(at_, StrCat("a value of ", count, " bytes is announced but ", end_ - at_, " are left",
                     end_ == whole_.size() ? " (the file is cut short)" : ""));
  }
  at_ += static_cast<size_t>(count);
}

bool WireReader::Next() {
  if (at_ == end_) return false;
  field_at_ = at_;
  const uint64_t tag = ReadVarint(at_, end_);
  if (tag == 0 && whole_.find_first_not_of('\0', field_at_) == std::string_view::npos) {
    Fail(field_at_, "the rest of the file is zeros (it was cut off when written)");
  }
  number_ = tag >> 3U;
  if (number_ == 0 || number_ > kLargestFieldNumber) Fail(field_at_, "no field begins here");
  type_ = static_cast<WireType>(tag & 7U);
  value_at_ = at_;
  switch (type_) {
    case kVarint: value_ = ReadVarint(at_, end_); return true;
    case kFixed64: Skip(8); return true;
    case kFixed32: Skip(4); return true;
    case kBytes: Skip(ReadVarint(at_, end_)); return true;
  }
  Fail(field_at_, StrCat("wire type ", tag & 7U, " is not used by this format"));
}

WireReader WireReader::Message(std::string path) const {
  WireReader inner = *this;
  inner.at_ = value_at_;
  inner.end_ = at_;
  inner.path_ = std::move(path);
  return inner;
}

void WireReader::Expect(WireType type, std::string_view field) const {
  if (type_ == type) return;
  Fail(field_at_, StrCat("field \"", field, "\" has wire type ", int{type_}, ", expected ", int{type}));
}

}  // namespace moka
