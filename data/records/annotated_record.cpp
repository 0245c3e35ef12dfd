// Walks SSD's message by field numbers and keeps views into the record, so that an image of a megabyte is not copied to
// read its boxes.
#include "data/records/annotated_record.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>

#include "core/error.h"
#include "core/exact_float.h"
#include "core/text.h"
#include "proto/moka.pb.h"

namespace moka {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

NormalBox Shared(const NormalBox& a, const NormalBox& b) {
  const NormalBox shared{std::max(a.xmin, b.xmin), std::max(a.ymin, b.ymin), std::min(a.xmax, b.xmax),
                         std::min(a.ymax, b.ymax)};
  return shared.xmin < shared.xmax && shared.ymin < shared.ymax ? shared : NormalBox{};
}

[[noreturn]] void BadAnnotatedRecord(std::string_view reason) {
  throw Error(ErrorKind::kBadData, StrCat("not an AnnotatedDatum: ", reason));
}

// A length-delimited field's bytes, in place.
std::string_view TakeBytes(CodedInputStream& in, std::string_view wire) {
  uint32_t length = 0;
  if (!in.ReadVarint32(&length)) BadAnnotatedRecord("the record ends inside a number");
  const auto begin = static_cast<size_t>(in.CurrentPosition());
  if (length > wire.size() - begin || !in.Skip(static_cast<int>(length)))
    BadAnnotatedRecord("the record ends inside a field");
  return wire.substr(begin, length);
}

void AddGroup(std::string_view wire, std::vector<Annotated>& annotations) {
  AnnotationGroup group;
  if (!group.ParseFromArray(wire.data(), static_cast<int>(wire.size()))) BadAnnotatedRecord("a bad annotation_group");
  if (!IsExactFloat(group.group_label())) {
    BadAnnotatedRecord(StrCat("label ", group.group_label(), ", which a net's floats cannot hold"));
  }
  for (const Annotation& a : group.annotation()) {
    const NormalizedBBox& b = a.bbox();
    annotations.push_back(
        {{b.xmin(), b.ymin(), b.xmax(), b.ymax()}, group.group_label(), a.instance_id(), b.difficult()});
  }
}

}  // namespace

float Overlap(const NormalBox& a, const NormalBox& b) {
  const float shared = Shared(a, b).Area();
  return shared > 0 ? shared / (a.Area() + b.Area() - shared) : 0;
}

float Coverage(const NormalBox& of, const NormalBox& in) {
  const float shared = Shared(of, in).Area();
  return shared > 0 ? shared / of.Area() : 0;
}

void ParseAnnotated(std::string_view wire, AnnotatedRecord& record) {
  record.datum = {};
  record.annotations.clear();
  if (wire.size() > INT32_MAX) BadAnnotatedRecord("more than 2 GiB");
  CodedInputStream in(reinterpret_cast<const uint8_t*>(wire.data()), static_cast<int>(wire.size()));
  in.SetTotalBytesLimit(INT32_MAX);
  constexpr auto kBytes = WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
  const uint32_t datum = WireFormatLite::MakeTag(AnnotatedDatum::kDatumFieldNumber, kBytes);
  const uint32_t group = WireFormatLite::MakeTag(AnnotatedDatum::kAnnotationGroupFieldNumber, kBytes);
  while (static_cast<size_t>(in.CurrentPosition()) < wire.size()) {
    const uint32_t tag = in.ReadTag();
    if (tag == datum) {
      record.datum = TakeBytes(in, wire);
    } else if (tag == group) {
      AddGroup(TakeBytes(in, wire), record.annotations);
    } else if (tag == 0 || !WireFormatLite::SkipField(&in, tag)) {
      BadAnnotatedRecord(StrCat("a bad field before byte ", in.CurrentPosition()));
    }
  }
  if (record.datum.empty()) BadAnnotatedRecord("it has no datum");
}

std::string_view SegLabelOf(std::string_view datum) {
  CodedInputStream in(reinterpret_cast<const uint8_t*>(datum.data()), static_cast<int>(datum.size()));
  in.SetTotalBytesLimit(INT32_MAX);
  const uint32_t wanted =
      WireFormatLite::MakeTag(Datum::kSegLabelFieldNumber, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
  std::string_view found;
  while (static_cast<size_t>(in.CurrentPosition()) < datum.size()) {
    const uint32_t tag = in.ReadTag();
    if (tag == wanted) {
      found = TakeBytes(in, datum);
    } else if (tag == 0 || !WireFormatLite::SkipField(&in, tag)) {
      BadAnnotatedRecord(StrCat("a bad field before byte ", in.CurrentPosition(), " of its datum"));
    }
  }
  return found;
}

}  // namespace moka
