// Walks the message by its descriptor with bounds on depth, fields and the memory that its messages would take, checks
// every length against its parent's end, and only then lets protobuf parse: its own parser allocates as it reads.
#include "proto/wire.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>
#include <google/protobuf/wire_format_lite.h>

#include <map>

#include "core/error.h"
#include "core/text.h"
#include "proto/content.h"
#include "proto/onnx.pb.h"
#include "proto/wire_reader.h"

namespace moka {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

constexpr int64_t kMemoryLimitBytes = int64_t{256} << 20;

// The wire type one value of a field has when it is not packed.
WireType WireTypeOf(const FieldDescriptor& field) {
  using google::protobuf::internal::WireFormatLite;
  const auto type = static_cast<WireFormatLite::FieldType>(field.type());
  return static_cast<WireType>(WireFormatLite::WireTypeForFieldType(type));
}

// Walks the fields of a message without building it.
class Checker {
 public:
  void Check(const Descriptor* type, WireReader message) { Walk(type, message, 0); }
  int64_t unknown() const { return unknown_; }

 private:
  void Walk(const Descriptor* type, WireReader& message, int depth) {
    if (depth > kWireDepthLimit) {
      message.Fail(message.field_at(), StrCat("messages are nested more than ", kWireDepthLimit, " deep"));
    }
    while (message.Next()) WalkField(type, message, depth);
  }

  void WalkField(const Descriptor* type, const WireReader& at, int depth) {
    if (++fields_ > kWireFieldLimit) at.Fail(at.field_at(), StrCat("more than ", kWireFieldLimit, " fields"));
    const FieldDescriptor* field = type == nullptr ? nullptr : type->FindFieldByNumber(static_cast<int>(at.number()));
    const bool packed = field != nullptr && field->is_packable() && at.type() == kBytes;
    if (field == nullptr) {
      ++unknown_;
    } else if (!packed) {
      at.Expect(WireTypeOf(*field), field->name());
    }
    if (at.type() != kBytes) return;
    WireReader inner = at.Message(StrCat(at.path(), ".", field == nullptr ? StrCat("#", at.number()) : field->name()));
    if (!packed && ++messages_ > kWireMessageLimit) {
      inner.Fail(at.value_at(), StrCat("more than ", kWireMessageLimit, " messages and texts"));
    }
    if (field != nullptr && field->message_type() != nullptr) CountMemory(*field->message_type(), inner);
    if (packed) CheckPacked(*field, at.bytes().size(), inner);
    if (field != nullptr && field->message_type() != nullptr) Walk(field->message_type(), inner, depth + 1);
  }

  // An empty message of two bytes takes kilobytes when it is built.
  void CountMemory(const Descriptor& type, const WireReader& at) {
    int64_t& own = own_bytes_[&type];
    if (own == 0) {
      const auto* prototype = google::protobuf::MessageFactory::generated_factory()->GetPrototype(&type);
      own = static_cast<int64_t>(prototype->SpaceUsedLong());
    }
    memory_bytes_ += own;
    if (memory_bytes_ <= kMemoryLimitBytes) return;
    at.Fail(at.value_at(),
            StrCat("its messages take more than ", BytesText(kMemoryLimitBytes), " without their values"));
  }

  static void CheckPacked(const FieldDescriptor& field, size_t bytes, const WireReader& inner) {
    const WireType type = WireTypeOf(field);
    const size_t size = type == kFixed64 ? 8 : 4;
    size_t at = inner.value_at();
    const size_t end = at + bytes;
    if (type != kVarint && bytes % size != 0) {
      inner.Fail(at, StrCat("a list of ", size, "-byte values has ", bytes, " bytes"));
    }
    while (type == kVarint && at < end) inner.ReadVarint(at, end);
  }

  int64_t fields_ = 0;
  int64_t messages_ = 0;
  int64_t unknown_ = 0;
  int64_t memory_bytes_ = 0;  // of all messages, without what they hold
  std::map<const Descriptor*, int64_t> own_bytes_;
};

// Returns the content that files of the message's kind have.
Content ContentOf(const Descriptor* type) {
  if (type == NetParameter::descriptor()) return Content::kNetBinary;
  if (type == BlobProto::descriptor()) return Content::kBlob;
  if (type == SolverState::descriptor()) return Content::kSolverState;
  if (type == onnx::ModelProto::descriptor()) return Content::kOnnx;
  return Content::kUnknownBinary;
}

}  // namespace

int64_t ParseWire(std::string_view bytes, const std::string& file, std::string_view expected,
                  google::protobuf::Message& message) {
  Checker checker;
  ReadAs(ContentOf(message.GetDescriptor()), bytes, file, expected, [&] {
    if (static_cast<int64_t>(bytes.size()) > kWireLimitBytes) {
      throw Error(
          ErrorKind::kBadData, SourcePlace{.file = file},
          StrCat("the file has ", BytesText(static_cast<int64_t>(bytes.size())), ", more than protobuf's 2 GiB"),
          "use safetensors");
    }
    checker.Check(message.GetDescriptor(), WireReader(bytes, file, std::string(message.GetDescriptor()->name())));
  });
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
