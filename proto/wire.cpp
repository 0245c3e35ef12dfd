#include "proto/wire.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <optional>

#include "core/error.h"
#include "core/text.h"
#include "proto/content.h"

namespace moka {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

enum WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// The wire type one value of a field has when it is not packed.
WireType TypeOf(const FieldDescriptor& field) {
  using google::protobuf::internal::WireFormatLite;
  const auto type = static_cast<WireFormatLite::FieldType>(field.type());
  return static_cast<WireType>(WireFormatLite::WireTypeForFieldType(type));
}

// Walks the fields of a message without building it.
class Checker {
 public:
  Checker(std::string_view bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  void Check(const Descriptor* type) { Walk(type, 0, bytes_.size(), 0, std::string(type->name())); }
  int64_t unknown() const { return unknown_; }

 private:
  [[noreturn]] void Fail(size_t at, std::string_view what, const std::string& path) const {
    throw Error(ErrorKind::kBadData, SourcePlace{.file = file_},
                StrCat("at byte ", at, " of ", bytes_.size(), ", in ", path, ": ", what));
  }

  uint64_t ReadVarint(size_t& at, size_t end, const std::string& path) const {
    uint64_t value = 0;
    const size_t begin = at;
    for (unsigned shift = 0; shift < 70; shift += 7) {
      if (at == end)
        Fail(begin,
             end == bytes_.size() ? "the file is cut off in a number" : "a number runs over the end of its message",
             path);
      const auto byte = static_cast<unsigned char>(bytes_[at++]);
      if (shift < 64) value |= uint64_t{byte & 0x7FU} << shift;
      if ((byte & 0x80U) == 0) return value;
    }
    Fail(begin, "a number is longer than 10 bytes", path);
  }

  // Steps over `count` bytes of a field's value.
  void Skip(size_t& at, size_t end, uint64_t count, const std::string& path) const {
    if (count > end - at) {
      Fail(at,
           StrCat("a value of ", count, " bytes is announced but ", end - at, " are left",
                  end == bytes_.size() ? " (the file is cut short)" : ""),
           path);
    }
    at += static_cast<size_t>(count);
  }

  void Walk(const Descriptor* type, size_t at, size_t end, int depth, const std::string& path) {
    if (depth > kWireDepthLimit) Fail(at, StrCat("messages are nested more than ", kWireDepthLimit, " deep"), path);
    while (at < end) WalkField(type, at, end, depth, path);
  }

  void WalkField(const Descriptor* type, size_t& at, size_t end, int depth, const std::string& path) {
    const size_t begin = at;
    const uint64_t tag = ReadVarint(at, end, path);
    const uint64_t number = tag >> 3U;
    if (tag == 0 && bytes_.find_first_not_of('\0', begin) == std::string_view::npos) {
      Fail(begin, "the rest of the file is zeros (it was cut off when written)", path);
    }
    if (number == 0 || number > FieldDescriptor::kMaxNumber) Fail(begin, "no field begins here", path);
    if (++fields_ > kWireFieldLimit) Fail(begin, StrCat("more than ", kWireFieldLimit, " fields"), path);
    const FieldDescriptor* field = type == nullptr ? nullptr : type->FindFieldByNumber(static_cast<int>(number));
    const auto wire = static_cast<WireType>(tag & 7U);
    const bool packed = field != nullptr && field->is_packable() && wire == kBytes;
    if (field == nullptr) {
      ++unknown_;
    } else if (wire != TypeOf(*field) && !packed) {
      Fail(begin, StrCat("field \"", field->name(), "\" has wire type ", tag & 7U, ", expected ", int{TypeOf(*field)}),
           path);
    }
    switch (wire) {
      case kVarint: ReadVarint(at, end, path); return;
      case kFixed64: return Skip(at, end, 8, path);
      case kFixed32: return Skip(at, end, 4, path);
      case kBytes: break;
      default: Fail(begin, StrCat("wire type ", tag & 7U, " is not used by this format"), path);
    }
    const std::string inner = field == nullptr ? StrCat(path, ".#", number) : StrCat(path, ".", field->name());
    const uint64_t count = ReadVarint(at, end, inner);
    const size_t value = at;
    Skip(at, end, count, inner);
    if (!packed && ++messages_ > kWireMessageLimit)
      Fail(value, StrCat("more than ", kWireMessageLimit, " messages and texts"), inner);
    if (packed) CheckPacked(*field, value, at, inner);
    if (field != nullptr && field->message_type() != nullptr) Walk(field->message_type(), value, at, depth + 1, inner);
  }

  void CheckPacked(const FieldDescriptor& field, size_t begin, size_t end, const std::string& path) const {
    const WireType type = TypeOf(field);
    const size_t size = type == kFixed64 ? 8 : 4;
    if (type != kVarint && (end - begin) % size != 0) {
      Fail(begin, StrCat("a list of ", size, "-byte values has ", end - begin, " bytes"), path);
    }
    while (type == kVarint && begin < end) ReadVarint(begin, end, path);
  }

  std::string_view bytes_;
  const std::string& file_;
  int64_t fields_ = 0;
  int64_t messages_ = 0;
  int64_t unknown_ = 0;
};

// What else the bytes may be, by content, when they are surely not the expected message.
std::optional<Error> OtherKind(std::string_view bytes, const std::string& file, std::string_view expected,
                               const Descriptor* type) {
  constexpr size_t kHeadBytes = 4096;
  const Content content = RecogniseContent(bytes.substr(0, kHeadBytes));
  const bool may_be_it =
      content == Content::kUnknownBinary || (content == Content::kNetBinary && type == NetParameter::descriptor()) ||
      (content == Content::kBlob && type == BlobProto::descriptor()) ||
      (content == Content::kSolverState && type == SolverState::descriptor()) || content == Content::kText;
  if (may_be_it) return std::nullopt;
  return Error(ErrorKind::kBadData, SourcePlace{.file = file},
               StrCat("expected ", expected, ", but this is ", Describe(content)));
}

}  // namespace

int64_t ParseWire(std::string_view bytes, const std::string& file, std::string_view expected,
                  google::protobuf::Message& message) {
  if (std::optional<Error> other = OtherKind(bytes, file, expected, message.GetDescriptor())) throw *other;
  if (static_cast<int64_t>(bytes.size()) > kWireLimitBytes) {
    throw Error(ErrorKind::kBadData, SourcePlace{.file = file},
                StrCat("the file has ", BytesText(static_cast<int64_t>(bytes.size())), ", more than protobuf's 2 GiB"),
                "use safetensors");
  }
  Checker checker(bytes, file);
  try {
    checker.Check(message.GetDescriptor());
  } catch (const Error& error) {
    if (RecogniseContent(bytes.substr(0, 4096)) != Content::kText) throw;
    throw Error(ErrorKind::kBadData, SourcePlace{.file = file},
                StrCat("expected ", expected, ", but this is a text file"));
  }
  google::protobuf::io::ArrayInputStream array(bytes.data(), static_cast<int>(bytes.size()));
  google::protobuf::io::CodedInputStream stream(&array);
  stream.SetRecursionLimit(kWireDepthLimit + 2);
  stream.SetTotalBytesLimit(static_cast<int>(kWireLimitBytes));
  if (!message.ParsePartialFromCodedStream(&stream) || !stream.ConsumedEntireMessage()) {
    throw Error(ErrorKind::kBadData, SourcePlace{.file = file},
                StrCat("expected ", expected, ", but it does not parse"));
  }
  if (!message.IsInitialized()) {
    throw Error(ErrorKind::kBadData, SourcePlace{.file = file},
                StrCat("required fields are missing: ", message.InitializationErrorString()));
  }
  message.DiscardUnknownFields();
  return checker.unknown();
}

std::string WireBytes(const google::protobuf::Message& message) {
  const size_t size = message.ByteSizeLong();
  if (size > static_cast<size_t>(kWireLimitBytes)) {
    throw Error(ErrorKind::kBadData, SourcePlace{},
                StrCat("the message has ", BytesText(static_cast<int64_t>(size)), ", more than protobuf's 2 GiB"),
                "use safetensors");
  }
  std::string bytes;
  bytes.reserve(size);
  google::protobuf::io::StringOutputStream array(&bytes);
  google::protobuf::io::CodedOutputStream stream(&array);
  stream.SetSerializationDeterministic(true);
  message.SerializePartialToCodedStream(&stream);
  stream.Trim();
  return bytes;
}

}  // namespace moka
