// The numbers of a request are most of its bytes (3 MB of a picture of 224x224), so they go from the text into the
// tensor by simdjson without a tree between.
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>

#include "core/error.h"
#include "core/text.h"
#include "tools/serve/http_message.h"
#include "tools/serve/wire_tensor.h"

namespace moka {
namespace {

namespace od = simdjson::ondemand;

static_assert(std::endian::native == std::endian::little, "tensors are sent little endian");
static_assert(kBodyPadding >= simdjson::SIMDJSON_PADDING);

constexpr size_t kMostTensors = 256;  // inputs, and outputs, of a request
constexpr int64_t kMostAxes = 32;
constexpr int64_t kMostElements = int64_t{1} << 28;  // of a tensor

// A name as an error shows it.
std::string Shown(std::string_view name) { return Printable(name.substr(0, 200)); }

[[noreturn]] void Refuse(const std::string& text, const std::string& hint = {}) {
  throw Error(ErrorKind::kBadData, {}, text, hint);
}

// The value of a step of the parser. Errors: kBadData with its words.
template <class Value>
Value Take(simdjson::simdjson_result<Value>&& result, std::string_view where) {
  Value value;
  const simdjson::error_code error = std::move(result).get(value);
  if (error == simdjson::SUCCESS) return value;
  if (error == simdjson::INCORRECT_TYPE) Refuse(StrCat(where, " is of another type"));
  if (where.ends_with(',')) where.remove_suffix(1);  // "the request, an object,"
  Refuse(StrCat(where, ": ", simdjson::error_message(error)));
}

std::string TextIn(od::value value, const std::string& where) {
  return std::string(Take(value.get_string(), StrCat(where, ", a text,")));
}

int64_t WholeIn(od::value value, const std::string& where) {
  return Take(value.get_int64(), StrCat(where, ", a whole number,"));
}

bool FlagIn(od::value value, const std::string& where) {
  return Take(value.get_bool(), StrCat(where, ", true or false,"));
}

// Calls `field` with each name and value. `field` returns whether it knows the name. Errors: kBadData for one that it
// does not know, with those of `known`, and one that is there twice.
template <class Field>
void ForFields(od::object object, const std::string& where, const std::vector<std::string>& known, const Field& field) {
  std::vector<std::string> seen;
  for (auto each : object) {
    od::field one = Take(std::move(each), where);
    const std::string name(Take(one.unescaped_key(), where));
    if (std::ranges::find(seen, name) != seen.end()) Refuse(StrCat(where, " has \"", Shown(name), "\" twice"));
    seen.push_back(name);
    if (std::ranges::find(known, name) != known.end() && field(name, one.value())) continue;
    const std::string near = DidYouMean(name.substr(0, 200), known);
    Refuse(StrCat(where, " has an unknown field \"", Shown(name), "\""),
           near.empty() ? StrCat("it may have ", Join(known, ", ")) : near);
  }
}

std::vector<int64_t> ShapeIn(od::value value, const std::string& where) {
  std::vector<int64_t> shape;
  int64_t count = 1;
  for (auto each : Take(value.get_array(), StrCat(where, ", a list,"))) {
    const int64_t side = WholeIn(Take(std::move(each), where), where);
    shape.push_back(side);
    if (side < 1) Refuse(StrCat(where, " has a dimension of ", side));
    if (std::ssize(shape) > kMostAxes) Refuse(StrCat(where, " has more than ", kMostAxes, " dimensions"));
    if (__builtin_mul_overflow(count, side, &count) || count > kMostElements)
      Refuse(StrCat(where, " is of more than ", kMostElements, " elements"));
  }
  return shape;
}

int64_t CountOf(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t side : shape) count *= side;
  return count;
}

// Adds the numbers of nested lists or a flat one, row by row.
class NumbersReader {
 public:
  NumbersReader(std::string where, std::vector<float>& values) : where_(std::move(where)), values_(values) {}

  void Read(od::array list, int depth) {
    if (depth > kMostAxes) Refuse(StrCat(where_, " is nested deeper than ", kMostAxes, " lists"));
    for (auto each : list) {
      od::value value = Take(std::move(each), where_);
      if (Take(value.type(), where_) == od::json_type::array) {
        Read(Take(value.get_array(), where_), depth + 1);
        continue;
      }
      double number = 0;
      if (value.get_double().get(number) != simdjson::SUCCESS) RefuseNumber("is no number");
      const auto rounded = static_cast<float>(number);
      if (!std::isfinite(rounded)) RefuseNumber("is beyond FP32");
      if (std::ssize(values_) == kMostElements) Refuse(StrCat(where_, " has more than ", kMostElements, " numbers"));
      values_.push_back(rounded);
    }
  }

 private:
  [[noreturn]] void RefuseNumber(std::string_view why) const {
    Refuse(StrCat(where_, ": value ", values_.size(), " ", why));
  }

  std::string where_;
  std::vector<float>& values_;
};

void ReadTexts(od::array list, const std::string& where, int depth, std::vector<std::string>& texts) {
  if (depth > kMostAxes) Refuse(StrCat(where, " is nested deeper than ", kMostAxes, " lists"));
  for (auto each : list) {
    od::value value = Take(std::move(each), where);
    if (Take(value.type(), where) == od::json_type::array) {
      ReadTexts(Take(value.get_array(), where), where, depth + 1, texts);
    } else {
      texts.push_back(TextIn(value, where));
    }
  }
}

constexpr std::array<std::string_view, 13> kDatatypes = {
    "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64", "BYTES"};

// A tensor, of whose bytes behind the JSON only the number is known yet.
struct ReadTensor {
  WireTensor tensor;
  std::optional<int64_t> bytes;
};

void CheckCount(const WireTensor& tensor) {
  const auto found = static_cast<int64_t>(tensor.datatype == "BYTES" ? tensor.texts.size() : tensor.values.size());
  const int64_t wanted = CountOf(tensor.shape);
  if (found == wanted) return;
  Refuse(StrCat("input \"", Shown(tensor.name), "\": data holds ", found, " values, and its shape [",
                Join(
                    [&] {
                      std::vector<std::string> sides;
                      for (const int64_t side : tensor.shape) sides.push_back(StrCat(side));
                      return sides;
                    }(),
                    ","),
                "] is of ", wanted));
}

ReadTensor InputIn(od::object object, size_t index) {
  ReadTensor read;
  WireTensor& tensor = read.tensor;
  std::string where = StrCat("inputs[", index, "]");
  if (index >= kMostTensors) Refuse(StrCat("the request has more than ", kMostTensors, " inputs"));
  // It says how data are read, and fields have no order.
  od::value type;
  if (object.find_field_unordered("datatype").get(type) == simdjson::SUCCESS)
    tensor.datatype = TextIn(type, StrCat(where, ".datatype"));
  (void)Take(object.reset(), where);
  bool has_shape = false;
  bool has_data = false;
  ForFields(object, where, {"name", "shape", "datatype", "parameters", "data"},
            [&](const std::string& name, od::value value) {
              if (name == "name") {
                tensor.name = TextIn(value, StrCat(where, ".name"));
                where = StrCat("input \"", Shown(tensor.name), "\"");
              } else if (name == "shape") {
                tensor.shape = ShapeIn(value, StrCat(where, ".shape"));
                has_shape = true;
              } else if (name == "datatype") {
                return true;  // read before
              } else if (name == "parameters") {
                ForFields(Take(value.get_object(), where), StrCat(where, ".parameters"), {"binary_data_size"},
                          [&](const std::string&, od::value size) {
                            read.bytes = WholeIn(size, StrCat(where, ".parameters.binary_data_size"));
                            return true;
                          });
              } else {
                has_data = true;
                od::array list = Take(value.get_array(), StrCat(where, ".data, a list,"));
                if (tensor.datatype == "BYTES") {
                  ReadTexts(list, StrCat(where, ".data"), 1, tensor.texts);
                } else {
                  if (has_shape)
                    tensor.values.reserve(static_cast<size_t>(std::min(CountOf(tensor.shape), int64_t{1} << 24)));
                  NumbersReader(where, tensor.values).Read(list, 1);
                }
              }
              return true;
            });
  if (tensor.name.empty()) Refuse(StrCat(where, " has no name"));
  if (!has_shape) Refuse(StrCat(where, " has no shape"));
  if (std::ranges::find(kDatatypes, tensor.datatype) == kDatatypes.end())
    Refuse(StrCat(where, " has the datatype \"", Shown(tensor.datatype), "\""),
           StrCat("there are ", Join({kDatatypes.begin(), kDatatypes.end()}, ", ")));
  if (has_data == read.bytes.has_value())
    Refuse(StrCat(where, has_data ? " has data and binary_data_size" : " has neither data nor binary_data_size"));
  if (has_data && tensor.datatype == "FP16")
    Refuse(StrCat(where, ": FP16 has no form in JSON"), "binary_data_size sends bytes");
  if (has_data) CheckCount(tensor);
  return read;
}

WantedOutput OutputIn(od::object object, size_t index) {
  WantedOutput wanted;
  if (index >= kMostTensors) Refuse(StrCat("the request has more than ", kMostTensors, " outputs"));
  const std::string where = StrCat("outputs[", index, "]");
  ForFields(object, where, {"name", "parameters"}, [&](const std::string& name, od::value value) {
    if (name == "name") {
      wanted.name = TextIn(value, StrCat(where, ".name"));
      return true;
    }
    ForFields(Take(value.get_object(), where), StrCat(where, ".parameters"), {"binary_data", "classification"},
              [&](const std::string& parameter, od::value given) {
                if (parameter == "binary_data") {
                  wanted.is_binary = FlagIn(given, StrCat(where, ".parameters.binary_data"));
                } else {
                  wanted.classes = WholeIn(given, StrCat(where, ".parameters.classification"));
                  if (wanted.classes < 0) Refuse(StrCat(where, ".parameters.classification is ", wanted.classes));
                }
                return true;
              });
    return true;
  });
  if (wanted.name.empty()) Refuse(StrCat(where, " has no name"));
  return wanted;
}

void ParametersIn(od::object object, InferRequest& request) {
  ForFields(object, "parameters", {"binary_data_output", "priority", "timeout"},
            [&](const std::string& name, od::value value) {
              const std::string where = StrCat("parameters.", name);
              if (name == "binary_data_output") {
                request.are_outputs_binary = FlagIn(value, where);
                return true;
              }
              int64_t& number = name == "priority" ? request.priority : request.timeout_us;
              number = WholeIn(value, where);
              if (number < 0) Refuse(StrCat(where, " is ", number));
              return true;
            });
}

// Fills a tensor from the bytes that it said.
void ReadBytes(std::string_view bytes, WireTensor& tensor) {
  const std::string where = StrCat("input \"", Shown(tensor.name), "\"");
  if (tensor.datatype == "BYTES") {
    while (!bytes.empty()) {
      uint32_t length = 0;
      if (bytes.size() < sizeof(length)) Refuse(StrCat(where, ": its last element has no length"));
      std::memcpy(&length, bytes.data(), sizeof(length));
      bytes.remove_prefix(sizeof(length));
      if (length > bytes.size())
        Refuse(StrCat(where, ": an element of ", length, " bytes, of which ", bytes.size(), " came"));
      tensor.texts.emplace_back(bytes.substr(0, length));
      bytes.remove_prefix(length);
    }
    return CheckCount(tensor);
  }
  if (tensor.datatype != "FP32") return;  // no input takes it, which is said where inputs are known
  const int64_t wanted = CountOf(tensor.shape) * static_cast<int64_t>(sizeof(float));
  if (std::ssize(bytes) != wanted)
    Refuse(StrCat(where, ": binary_data_size is ", bytes.size(), ", and its shape is of ", wanted, " bytes"));
  tensor.values.resize(static_cast<size_t>(CountOf(tensor.shape)));
  std::memcpy(tensor.values.data(), bytes.data(), bytes.size());
}

}  // namespace

InferRequest ReadInferRequest(std::string& body, std::optional<int64_t> json_bytes) {
  const auto whole = std::ssize(body);
  const int64_t length = json_bytes.value_or(whole);
  if (length < 0 || length > whole)
    Refuse(StrCat(kHeaderLength, " is ", length, ", and the body has ", whole, " bytes"));
  std::string separate;  // the parser looks behind its text, where tensors may lie
  if (length < whole) separate.assign(body, 0, static_cast<size_t>(length));
  std::string& json = length < whole ? separate : body;
  json.reserve(json.size() + simdjson::SIMDJSON_PADDING);

  od::parser parser;
  od::document document = Take(parser.iterate(json.data(), json.size(), json.capacity()), "the request, JSON,");
  InferRequest request;
  std::vector<ReadTensor> inputs;
  bool has_inputs = false;
  ForFields(
      Take(document.get_object(), "the request, an object,"), "the request", {"id", "parameters", "inputs", "outputs"},
      [&](const std::string& name, od::value value) {
        if (name == "id") {
          request.id = TextIn(value, "id");
        } else if (name == "parameters") {
          ParametersIn(Take(value.get_object(), "parameters, an object,"), request);
        } else if (name == "inputs") {
          has_inputs = true;
          for (auto each : Take(value.get_array(), "inputs, a list,"))
            inputs.push_back(InputIn(Take(Take(std::move(each), "inputs").get_object(), "an input"), inputs.size()));
        } else {
          for (auto each : Take(value.get_array(), "outputs, a list,"))
            request.outputs.push_back(
                OutputIn(Take(Take(std::move(each), "outputs").get_object(), "an output"), request.outputs.size()));
        }
        return true;
      });
  if (!has_inputs || inputs.empty()) Refuse("the request has no inputs");
  const char* behind = nullptr;
  if (document.current_location().get(behind) == simdjson::SUCCESS)
    Refuse("something stands behind the request's JSON");
  std::string_view rest = std::string_view(body).substr(static_cast<size_t>(length));
  for (ReadTensor& input : inputs) {
    const auto same = [&](const WireTensor& one) { return one.name == input.tensor.name; };
    if (std::ranges::any_of(request.inputs, same))
      Refuse(StrCat("input \"", Shown(input.tensor.name), "\" is there twice"));
    if (input.bytes) {
      if (*input.bytes < 0 || *input.bytes > std::ssize(rest)) {
        Refuse(StrCat("input \"", Shown(input.tensor.name), "\": binary_data_size is ", *input.bytes, ", and ",
                      rest.size(), " bytes are left"));
      }
      ReadBytes(rest.substr(0, static_cast<size_t>(*input.bytes)), input.tensor);
      rest.remove_prefix(static_cast<size_t>(*input.bytes));
    }
    request.inputs.push_back(std::move(input.tensor));
  }
  if (!rest.empty()) Refuse(StrCat("the body has ", rest.size(), " bytes that belong to no input"));
  return request;
}

}  // namespace moka
