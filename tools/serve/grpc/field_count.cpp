// The walk goes down where the message's own description says that a field is a message.
#include "tools/serve/grpc/field_count.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;

class FieldCounter {
 public:
  FieldCounter(const Descriptor& of, google::protobuf::io::ZeroCopyInputStream& bytes) : of_(of), input_(&bytes) {}

  void Count() {
    CountIn(of_);
    if (!input_.ConsumedEntireMessage()) Refuse();
  }

 private:
  void CountIn(const Descriptor& message) {
    while (const uint32_t tag = input_.ReadTag()) {
      const FieldDescriptor* field = message.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
      const auto type = WireFormatLite::GetTagWireType(tag);
      const bool is_delimited = type == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
      const bool is_number = field != nullptr && !is_delimited && type == WireTypeOf(*field);
      if (!is_number && ++count_ > kMostFields) RefuseMany();
      if (type == WireFormatLite::WIRETYPE_START_GROUP) Refuse();  // the protocol has none
      if (is_delimited && field != nullptr && field->message_type() != nullptr) {
        CountWithin(*field->message_type());
      } else if (!WireFormatLite::SkipField(&input_, tag)) {
        Refuse();
      }
    }
  }

  void CountWithin(const Descriptor& message) {
    uint32_t length = 0;
    if (!input_.ReadVarint32(&length) || length > INT32_MAX) Refuse();
    const auto limit = input_.PushLimit(static_cast<int>(length));
    CountIn(message);
    if (input_.BytesUntilLimit() != 0) Refuse();
    input_.PopLimit(limit);
  }

  static WireFormatLite::WireType WireTypeOf(const FieldDescriptor& field) {
    return WireFormatLite::WireTypeForFieldType(static_cast<WireFormatLite::FieldType>(field.type()));
  }

  [[noreturn]] void Refuse() const {
    throw Error(ErrorKind::kBadData, {}, StrCat("the message is no ", of_.name()),
                "its bytes are broken, or one of its texts is no UTF-8");
  }
  [[noreturn]] static void RefuseMany() {
    throw Error(ErrorKind::kBadData, {}, StrCat("the message has more than ", kMostFields, " texts and messages"),
                "a tensor may be one entry of raw_input_contents");
  }

  const Descriptor& of_;
  google::protobuf::io::CodedInputStream input_;
  int64_t count_ = 0;
};

}  // namespace

void CheckFieldCount(const Descriptor& message, google::protobuf::io::ZeroCopyInputStream& bytes) {
  FieldCounter(message, bytes).Count();
}

}  // namespace moka
