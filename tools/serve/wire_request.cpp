// The numbers of a request are most of its bytes (3 MB of a picture of 224x224), so they go from the text into the
// tensor by simdjson without a tree between.
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/error.h"
#include "core/text.h"
#include "tools/serve/http_message.h"
#include "tools/serve/wire_check.h"
#include "tools/serve/wire_tensor.h"

namespace moka {
namespace {

namespace od = simdjson::ondemand;

static_assert(kBodyPadding >= simdjson::SIMDJSON_PADDING);

std::string Shown(std::string_view name) { return ShownName(name); }

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
  for (auto each : Take(value.get_array(), StrCat(where, ", a list,"))) {
    shape.push_back(WholeIn(Take(std::move(each), where), where));
    CheckShape(shape, where);
  }
  return shape;
}

// How long the lists of each depth are in which a tensor's elements lie.
class Nesting {
 public:
  // Calls `element` with each value that is no list. Errors: kBadData for lists of one depth that have several lengths,
  // and for elements of several depths.
  template <class Element>
  void Read(od::array list, const std::string& where, const Element& element, size_t depth = 0) {
    if (depth == kMostAxes) Refuse(StrCat(where, " is nested deeper than ", kMostAxes, " lists"));
    int64_t count = 0;
    for (auto each : list) {
      od::value value = Take(std::move(each), where);
      ++count;
      if (Take(value.type(), where) == od::json_type::array) {
        Read(Take(value.get_array(), where), where, element, depth + 1);
        continue;
      }
      if (depth_ == 0) depth_ = depth + 1;
      if (depth_ != depth + 1) Refuse(StrCat(where, " has elements and lists of them beside each other"));
      element(value);
    }
    if (lengths_.size() <= depth) lengths_.resize(depth + 1, -1);
    if (lengths_[depth] == -1) lengths_[depth] = count;
    if (lengths_[depth] != count)
      Refuse(StrCat(where, " has lists of ", lengths_[depth], " and of ", count, " beside each other"));
  }

  // Errors: kBadData for lists in lists that are not the shape's axes, of which neighbours may be one and those of
  // length 1 left out.
  void CheckIsOf(const std::vector<int64_t>& shape, const std::string& where) const {
    if (lengths_.size() < 2) return;
    size_t axis = 0;
    for (const int64_t length : lengths_) {
      int64_t product = 1;
      while (axis < shape.size() && (product < length || (product == length && shape[axis] == 1)))
        product *= shape[axis++];
      if (product != length) return RefuseShape(shape, where);
    }
    if (axis != shape.size()) RefuseShape(shape, where);
  }

 private:
  void RefuseShape(const std::vector<int64_t>& shape, const std::string& where) const {
    const auto text = [](const std::vector<int64_t>& sides) {
      std::vector<std::string> words;
      for (const int64_t side : sides) words.push_back(std::to_string(side));
      return StrCat("[", Join(words, ","), "]");
    };
    Refuse(StrCat(where, ".data has lists of ", text(lengths_), ", and its shape is ", text(shape)),
           "nest them as the shape's axes are, or send one flat list, row by row");
  }

  std::vector<int64_t> lengths_;  // by depth; -1: not known yet
  size_t depth_ = 0;              // of the elements, from 1
};

// Adds the numbers of nested lists or a flat one, row by row.
class NumbersReader {
 public:
  NumbersReader(std::string where, std::vector<float>& values) : where_(std::move(where)), values_(values) {}

  void Read(od::array list, Nesting& nesting) {
    nesting.Read(list, where_, [&](od::value value) {
      double number = 0;
      if (value.get_double().get(number) != simdjson::SUCCESS) RefuseNumber("is no number");
      const auto rounded = static_cast<float>(number);
      if (!std::isfinite(rounded)) RefuseNumber("is beyond FP32");
      if (std::ssize(values_) == kMostElements) Refuse(StrCat(where_, " has more than ", kMostElements, " numbers"));
      values_.push_back(rounded);
    });
  }

 private:
  [[noreturn]] void RefuseNumber(std::string_view why) const {
    Refuse(StrCat(where_, ": value ", values_.size(), " ", why));
  }

  std::string where_;
  std::vector<float>& values_;
};

void ReadTexts(od::array list, const std::string& where, std::vector<std::string>& texts, Nesting& nesting) {
  nesting.Read(list, where, [&](od::value value) {
    if (std::ssize(texts) == kMostTexts) Refuse(StrCat(where, " has more than ", kMostTexts, " elements"));
    texts.push_back(TextIn(value, where));
  });
}

// The parameters by which a tensor lies in shared memory, in any order.
class SharedFields {
 public:
  static std::vector<std::string> WithNames(std::vector<std::string> others) {
    others.insert(others.end(), {kRegion, kOffset, kBytes});
    return others;
  }
  // Returns whether the field is one of these. Errors: kBadData for one of another type.
  bool TakeField(const std::string& name, od::value value, const std::string& where) {
    if (name == kRegion) {
      place_.region = TextIn(value, where);
      has_region_ = true;
    } else if (name == kOffset) {
      place_.offset = WholeIn(value, where);
      has_offset_ = true;
    } else if (name == kBytes) {
      place_.bytes = WholeIn(value, where);
      has_bytes_ = true;
    } else {
      return false;
    }
    return true;
  }
  // Errors: kBadData for a part without the others.
  std::optional<SharedPlace> Place(const std::string& where) const {
    if (has_region_ != has_bytes_ || (has_offset_ && !has_region_))
      Refuse(StrCat(where, ": ", kRegion, " and ", kBytes, " belong together"));
    return has_region_ ? std::optional(place_) : std::nullopt;
  }

 private:
  static constexpr const char* kRegion = "shared_memory_region";
  static constexpr const char* kOffset = "shared_memory_offset";
  static constexpr const char* kBytes = "shared_memory_byte_size";

  SharedPlace place_;
  bool has_region_ = false;
  bool has_offset_ = false;
  bool has_bytes_ = false;
};

// A tensor, of whose bytes behind the JSON only the number is known yet.
struct ReadTensor {
  WireTensor tensor;
  std::optional<int64_t> bytes;
};

// Errors: kBadData where its elements are nowhere, or in two places.
void CheckInput(const ReadTensor& read, bool has_data, const std::string& where) {
  const WireTensor& tensor = read.tensor;
  CheckDatatype(tensor.datatype, where);
  if (tensor.shared && (has_data || read.bytes)) Refuse(StrCat(where, " has data beside its shared memory"));
  if (!tensor.shared && has_data == read.bytes.has_value())
    Refuse(StrCat(where, has_data ? " has data and binary_data_size" : " has neither data nor binary_data_size"));
  if (has_data && (tensor.datatype == "FP16" || tensor.datatype == "BF16"))
    Refuse(StrCat(where, ": ", tensor.datatype, " has no form in JSON"), "binary_data_size sends bytes");
  if (has_data) CheckElements(tensor);
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
  Nesting nesting;
  SharedFields shared;
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
                ForFields(Take(value.get_object(), where), StrCat(where, ".parameters"),
                          SharedFields::WithNames({"binary_data_size"}),
                          [&](const std::string& parameter, od::value given) {
                            const std::string at = StrCat(where, ".parameters.", parameter);
                            if (!shared.TakeField(parameter, given, at)) read.bytes = WholeIn(given, at);
                            return true;
                          });
              } else {
                has_data = true;
                od::array list = Take(value.get_array(), StrCat(where, ".data, a list,"));
                if (tensor.datatype == "BYTES") {
                  ReadTexts(list, StrCat(where, ".data"), tensor.texts, nesting);
                } else {
                  // A shape is believed so far: of many inputs none may come.
                  if (has_shape)
                    tensor.values.reserve(static_cast<size_t>(std::min(ElementsOf(tensor.shape), int64_t{1} << 18)));
                  NumbersReader(where, tensor.values).Read(list, nesting);
                }
              }
              return true;
            });
  if (tensor.name.empty()) Refuse(StrCat(where, " has no name"));
  if (!has_shape) Refuse(StrCat(where, " has no shape"));
  tensor.shared = shared.Place(where);
  CheckInput(read, has_data, where);
  if (has_data) nesting.CheckIsOf(tensor.shape, where);
  return read;
}

WantedOutput OutputIn(od::object object, size_t index) {
  WantedOutput wanted;
  SharedFields shared;
  if (index >= kMostTensors) Refuse(StrCat("the request has more than ", kMostTensors, " outputs"));
  const std::string where = StrCat("outputs[", index, "]");
  ForFields(object, where, {"name", "parameters"}, [&](const std::string& name, od::value value) {
    if (name == "name") {
      wanted.name = TextIn(value, StrCat(where, ".name"));
      return true;
    }
    ForFields(Take(value.get_object(), where), StrCat(where, ".parameters"),
              SharedFields::WithNames({"binary_data", "classification"}),
              [&](const std::string& parameter, od::value given) {
                const std::string at = StrCat(where, ".parameters.", parameter);
                if (parameter == "binary_data") {
                  wanted.is_binary = FlagIn(given, at);
                } else if (!shared.TakeField(parameter, given, at)) {
                  wanted.classes = WholeIn(given, at);
                  if (wanted.classes < 0) Refuse(StrCat(at, " is ", wanted.classes));
                }
                return true;
              });
    return true;
  });
  if (wanted.name.empty()) Refuse(StrCat(where, " has no name"));
  wanted.shared = shared.Place(where);
  return wanted;
}

// A whole number from 1, or a text.
std::string SequenceIdIn(od::value value, const std::string& where) {
  std::string id;
  if (Take(value.type(), where) == od::json_type::string) {
    id = std::string(Take(value.get_string(), where));
  } else {
    const uint64_t number = Take(value.get_uint64(), StrCat(where, ", a whole number or a text,"));
    if (number != 0) id = StrCat(number);
  }
  CheckSequenceId(id, where);
  return id;
}

void ParametersIn(od::object object, InferRequest& request) {
  const std::vector<std::string> known = {"binary_data_output", "priority",       "timeout",
                                          "sequence_id",        "sequence_start", "sequence_end"};
  ForFields(object, "parameters", known, [&](const std::string& name, od::value value) {
    const std::string where = StrCat("parameters.", name);
    if (name == "binary_data_output") {
      request.are_outputs_binary = FlagIn(value, where);
    } else if (name == "sequence_id") {
      request.sequence.id = SequenceIdIn(value, where);
    } else if (name == "sequence_start") {
      request.sequence.starts = FlagIn(value, where);
    } else if (name == "sequence_end") {
      request.sequence.ends = FlagIn(value, where);
    } else {
      int64_t& number = name == "priority" ? request.priority : request.timeout_us;
      number = WholeIn(value, where);
      if (number < 0) Refuse(StrCat(where, " is ", number));
    }
    return true;
  });
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
      FillFromBytes(rest.substr(0, static_cast<size_t>(*input.bytes)), "binary_data_size", input.tensor);
      rest.remove_prefix(static_cast<size_t>(*input.bytes));
    }
    request.inputs.push_back(std::move(input.tensor));
  }
  if (!rest.empty()) Refuse(StrCat("the body has ", rest.size(), " bytes that belong to no input"));
  return request;
}

}  // namespace moka
