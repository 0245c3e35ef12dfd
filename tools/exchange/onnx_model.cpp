// Weights are raw little-endian bytes: inside the message, or behind one another at multiples of 4 KiB in a second file
// that is committed first, so that a model never names weights that are not there.
#include "tools/exchange/onnx_model.h"

#include <bit>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/size.h"
#include "core/text.h"

namespace moka {
namespace {

static_assert(std::endian::native == std::endian::little, "ONNX's raw data are little-endian");

template <class T>
std::string BytesAs(const Ints& values) {
  std::vector<T> narrow;
  narrow.reserve(values.size());
  for (const int64_t value : values) {
    Require(std::in_range<T>(value), "OnnxTensor: `stored` holds all of `ints`");
    narrow.push_back(static_cast<T>(value));
  }
  return {reinterpret_cast<const char*>(narrow.data()), narrow.size() * sizeof(T)};
}

std::string BytesOfTensor(const OnnxTensor& tensor) {
  if (!tensor.is_whole)
    return {reinterpret_cast<const char*>(tensor.floats.data()), tensor.floats.size() * sizeof(float)};
  switch (tensor.stored) {
    case DType::kInt8: return BytesAs<int8_t>(tensor.ints);
    case DType::kUInt8: return BytesAs<uint8_t>(tensor.ints);
    case DType::kInt32: return BytesAs<int32_t>(tensor.ints);
    case DType::kInt64: return BytesAs<int64_t>(tensor.ints);
    default: ThrowBrokenPromise("an OnnxTensor is stored as whole numbers of one of four types");
  }
}

onnx::TensorProto& AddInitializer(onnx::GraphProto& graph, const OnnxTensor& tensor) {
  onnx::TensorProto& proto = *graph.add_initializer();
  proto.set_name(tensor.name);
  proto.set_data_type(OnnxTypeOf(tensor.is_whole ? tensor.stored : DType::kFloat32));
  for (const int64_t dim : tensor.dims) proto.add_dims(dim);
  return proto;
}

void AddEntry(onnx::TensorProto& tensor, const char* key, std::string value) {
  onnx::StringStringEntryProto& entry = *tensor.add_external_data();
  entry.set_key(key);
  entry.set_value(std::move(value));
}

// Appends a tensor at the next multiple of the alignment and says in the message where it lies.
void AppendApart(const OnnxTensor& tensor, const std::string& location, onnx::GraphProto& graph, AtomicFile& out) {
  const int64_t gap = (kOnnxAlignment - out.bytes() % kOnnxAlignment) % kOnnxAlignment;
  out.Append(std::string(static_cast<size_t>(gap), '\0'));
  onnx::TensorProto& proto = AddInitializer(graph, tensor);
  proto.set_data_location(onnx::TensorProto::EXTERNAL);
  AddEntry(proto, "location", location);
  AddEntry(proto, "offset", std::to_string(out.bytes()));
  AddEntry(proto, "length", std::to_string(tensor.Bytes()));
  out.Append(BytesOfTensor(tensor));
}

}  // namespace

int64_t OnnxTensor::Bytes() const {
  return is_whole ? std::ssize(ints) * BytesOf(stored) : std::ssize(floats) * static_cast<int64_t>(sizeof(float));
}

int64_t OnnxModel::TensorBytes() const {
  Size bytes = 0;
  for (const OnnxTensor& tensor : tensors) bytes = bytes + tensor.Bytes();
  return bytes.value();
}

int OnnxTypeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return onnx::TensorProto::FLOAT;
    case DType::kFloat64: return onnx::TensorProto::DOUBLE;
    case DType::kFloat16: return onnx::TensorProto::FLOAT16;
    case DType::kBFloat16: return onnx::TensorProto::BFLOAT16;
    case DType::kInt64: return onnx::TensorProto::INT64;
    case DType::kInt32: return onnx::TensorProto::INT32;
    case DType::kUInt8: return onnx::TensorProto::UINT8;
    case DType::kInt8: return onnx::TensorProto::INT8;
  }
  ThrowBrokenPromise("every element type has a number in ONNX");
}

std::vector<std::filesystem::path> WriteOnnxModel(const std::filesystem::path& file, OnnxModel model, bool apart) {
  onnx::GraphProto& graph = *model.proto.mutable_graph();
  std::vector<std::filesystem::path> written = {file};
  if (apart || model.TensorBytes() > kOnnxInlineBytes) {
    std::filesystem::path data = file;
    data += ".data";
    AtomicFile out(data);
    // Integers of 64 bits are shapes and axes, which readers want before they look at another file.
    for (const OnnxTensor& tensor : model.tensors) {
      const bool is_inside = tensor.is_whole && tensor.stored == DType::kInt64;
      if (!is_inside) AppendApart(tensor, data.filename().string(), graph, out);
      if (is_inside) AddInitializer(graph, tensor).set_raw_data(BytesOfTensor(tensor));
    }
    out.Commit();
    written.push_back(data);
  } else {
    for (OnnxTensor& tensor : model.tensors) {
      AddInitializer(graph, tensor).set_raw_data(BytesOfTensor(tensor));
      tensor.floats = {};
      tensor.ints = {};
    }
  }
  std::string bytes;
  if (!model.proto.SerializeToString(&bytes)) {
    throw Error(ErrorKind::kBadData, StrCat("the model does not fit into one message of 2 GiB: ", file.string()));
  }
  WriteFileAtomically(file, bytes);
  return written;
}

}  // namespace moka
