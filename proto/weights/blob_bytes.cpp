// Reads packed floats and doubles straight from the file's bytes into the tensor, and writes them back the same way: a
// message in between would hold a net's weights twice.
#include "proto/weights/blob_bytes.h"

#include <google/protobuf/io/coded_stream.h>

#include <array>
#include <bit>
#include <cstring>

#include "core/error.h"
#include "core/half.h"
#include "core/text.h"
#include "proto/moka.pb.h"
#include "proto/weights/wide_numbers.h"

namespace moka {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little endian");

constexpr size_t kDimensionLimit = 32;  // Caffe's kMaxBlobAxes; Shape says how many it takes

[[noreturn]] void ThrowBadBlob(std::string_view what, std::string_view problem) {
  throw Error(ErrorKind::kBadData, StrCat(what, ": ", problem));
}

template <class T>
T LoadNumberAt(std::string_view bytes, size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

// Appends the values of type T in `bytes`.
template <class T, class Convert>
void Append(std::string_view bytes, Convert convert, std::vector<float>& values) {
  const size_t count = bytes.size() / sizeof(T);
  values.reserve(values.size() + count);
  for (size_t i = 0; i < count; ++i) values.push_back(convert(LoadNumberAt<T>(bytes, i)));
}

// Values of another type, as a type of 64 bits, which are checked to keep their value.
template <class T, class Wide>
void AppendWide(std::string_view bytes, std::string_view what, std::vector<float>& values) {
  std::vector<Wide> numbers(bytes.size() / sizeof(T));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = LoadNumberAt<T>(bytes, i);
  const size_t before = values.size();
  values.resize(before + numbers.size());
  CopyWide(std::span<const Wide>(numbers), what, static_cast<int64_t>(before), std::span(values).subspan(before));
}

void AppendFloats(std::string_view bytes, std::vector<float>& values) {
  const size_t before = values.size();
  values.resize(before + bytes.size() / sizeof(float));
  if (!bytes.empty()) std::memcpy(values.data() + before, bytes.data(), bytes.size());
}

class BlobReader {
 public:
  BlobReader(WireReader message, std::string_view what) : at_(std::move(message)), what_(what) {}

  NamedBlob Run() {
    while (at_.Next()) ReadField();
    NamedBlob blob;
    blob.values = !doubles_.empty() ? std::move(doubles_) : std::move(floats_);
    if (blob.values.empty() && !raw_.empty()) blob.values = RawValues();
    const auto count = static_cast<int64_t>(blob.values.size());
    int64_t needed = 0;
    try {
      blob.shape = ShapeFor(count);
      needed = blob.shape.Count();
    } catch (const Error& error) {
      ThrowBadBlob(what_, error.text());
    }
    if (needed != count) {
      ThrowBadBlob(what_, StrCat("shape ", blob.shape.ToString(), " needs ", needed, " values but there are ", count));
    }
    return blob;
  }

 private:
  void ReadField() {
    switch (at_.number()) {
      case BlobProto::kNumFieldNumber:
      case BlobProto::kChannelsFieldNumber:
      case BlobProto::kHeightFieldNumber:
      case BlobProto::kWidthFieldNumber:
        at_.Expect(kVarint, "num, channels, height or width");
        old_dims_.at(at_.number() - BlobProto::kNumFieldNumber) = static_cast<int32_t>(at_.value());
        is_old_ = true;
        return;
      case BlobProto::kShapeFieldNumber: at_.Expect(kBytes, "shape"); return ReadShape(at_.Message("BlobShape"));
      case BlobProto::kDataFieldNumber:
        CheckList(kFixed32, sizeof(float), "data");
        return AppendFloats(at_.bytes(), floats_);
      case BlobProto::kDoubleDataFieldNumber:
        CheckList(kFixed64, sizeof(double), "double_data");
        return AppendWide<double, double>(at_.bytes(), what_, doubles_);
      case BlobProto::kRawDataTypeFieldNumber:
        at_.Expect(kVarint, "raw_data_type");
        raw_type_ = at_.value();
        return;
      case BlobProto::kRawDataFieldNumber:
        at_.Expect(kBytes, "raw_data");
        raw_ = at_.bytes();
        return;
      default: return;
    }
  }

  // A list may be packed, or a field a value.
  void CheckList(WireType single, size_t size, std::string_view field) const {
    if (at_.type() != kBytes) return at_.Expect(single, field);
    if (at_.bytes().size() % size != 0) {
      at_.Fail(at_.value_at(), StrCat("a list of ", size, "-byte values has ", at_.bytes().size(), " bytes"));
    }
  }

  void ReadShape(WireReader shape) {
    has_shape_ = true;
    const auto add = [&](uint64_t dim) {
      if (dims_.size() == kDimensionLimit) ThrowBadBlob(what_, StrCat("more than ", kDimensionLimit, " dimensions"));
      dims_.push_back(static_cast<int64_t>(dim));
    };
    while (shape.Next()) {
      if (shape.number() != BlobShape::kDimFieldNumber) continue;
      if (shape.type() == kVarint) {
        add(shape.value());
        continue;
      }
      shape.Expect(kBytes, "dim");
      size_t at = shape.value_at();
      const size_t end = at + shape.bytes().size();
      while (at < end) add(shape.ReadVarint(at, end));
    }
  }

  Shape ShapeFor(int64_t count) const {
    if (is_old_) return Shape(std::vector<int64_t>(old_dims_.begin(), old_dims_.end()));
    return Shape(has_shape_ ? dims_ : std::vector<int64_t>{count});
  }

  std::vector<float> RawValues() const {
    struct Type {
      ElementType type;
      size_t bytes;
      void (*append)(std::string_view, std::string_view what, std::vector<float>&);
    };
    static constexpr std::array<Type, 6> kTypes{{
        {DOUBLE, 8, AppendWide<double, double>},
        {FLOAT, 4,
         [](std::string_view bytes, std::string_view /*what*/, std::vector<float>& values) {
           AppendFloats(bytes, values);
         }},
        {FLOAT16, 2,
         [](std::string_view bytes, std::string_view /*what*/, std::vector<float>& values) {
           Append<uint16_t>(bytes, FloatOfHalf, values);
         }},
        {INT, 4, AppendWide<int32_t, int64_t>},
        {UINT, 4, AppendWide<uint32_t, uint64_t>},
        {BOOL, 1,
         [](std::string_view bytes, std::string_view /*what*/, std::vector<float>& values) {
           Append<char>(
               bytes, [](char c) { return c == 0 ? 0.0F : 1.0F; }, values);
         }},
    }};
    for (const Type& type : kTypes) {
      if (static_cast<uint64_t>(type.type) != raw_type_) continue;
      if (raw_.size() % type.bytes != 0) {
        ThrowBadBlob(what_, StrCat("raw_data of ", ElementType_Name(type.type), " has ", raw_.size(), " bytes"));
      }
      std::vector<float> values;
      type.append(raw_, what_, values);
      return values;
    }
    ThrowBadBlob(what_, raw_type_ == kNoType ? std::string("raw_data without raw_data_type")
                                             : StrCat("raw_data_type ", raw_type_, " is unknown"));
  }

  static constexpr uint64_t kNoType = UINT64_MAX;

  WireReader at_;
  std::string_view what_;
  bool is_old_ = false;
  bool has_shape_ = false;
  std::array<int64_t, 4> old_dims_{};
  std::vector<int64_t> dims_;
  std::vector<float> floats_;
  std::vector<float> doubles_;
  uint64_t raw_type_ = kNoType;
  std::string_view raw_;
};

BlobShape ShapeMessage(const Shape& shape) {
  BlobShape message;
  for (const int64_t dim : shape.dims()) message.add_dim(dim);
  return message;
}

int64_t ValueBytes(const Shape& shape) { return (Size(shape.Count()) * int64_t{sizeof(float)}).value(); }

}  // namespace

NamedBlob BlobFromWire(WireReader message, std::string_view what) { return BlobReader(std::move(message), what).Run(); }

std::string FieldHead(int number, int64_t bytes) {
  using google::protobuf::io::CodedOutputStream;
  std::array<uint8_t, 20> head{};
  uint8_t* end = CodedOutputStream::WriteVarint32ToArray(static_cast<uint32_t>(number) << 3U | kBytes, head.data());
  end = CodedOutputStream::WriteVarint64ToArray(static_cast<uint64_t>(bytes), end);
  return {head.data(), end};
}

int64_t FieldBytes(int number, int64_t bytes) {
  return (Size(bytes) + static_cast<int64_t>(FieldHead(number, bytes).size())).value();
}

int64_t BlobMessageBytes(const Shape& shape) {
  const auto dims = static_cast<int64_t>(ShapeMessage(shape).ByteSizeLong());
  return (Size(FieldBytes(BlobProto::kDataFieldNumber, ValueBytes(shape))) +
          FieldBytes(BlobProto::kShapeFieldNumber, dims))
      .value();
}

void AppendBlob(const Shape& shape, std::span<const float> values, AtomicFile& file) {
  Require(shape.Count() == static_cast<int64_t>(values.size()), "AppendBlob: the values fill the shape");
  const std::string dims = ShapeMessage(shape).SerializeAsString();
  file.Append(StrCat(FieldHead(BlobProto::kShapeFieldNumber, static_cast<int64_t>(dims.size())), dims));
  file.Append(FieldHead(BlobProto::kDataFieldNumber, ValueBytes(shape)));
  file.Append(values.data(), ValueBytes(shape));
}

}  // namespace moka
