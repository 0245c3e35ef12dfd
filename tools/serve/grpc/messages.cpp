// Every field of a request either has its effect or is refused by its name.
#include "tools/serve/grpc/messages.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>

#include "core/error.h"
#include "core/text.h"
#include "core/utf8.h"
#include "tools/serve/wire_check.h"

namespace moka {
namespace {

using Parameters = google::protobuf::Map<std::string, inference::InferParameter>;
using inference::InferTensorContents;

[[noreturn]] void RefuseMessage(const std::string& text, const std::string& hint = {}) {
  throw Error(ErrorKind::kBadData, {}, text, hint);
}

// A whole number that is not negative, of whichever type.
int64_t WholeOf(const inference::InferParameter& parameter, const std::string& where) {
  if (parameter.parameter_choice_case() == inference::InferParameter::kUint64Param) {
    constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
    return static_cast<int64_t>(std::min(parameter.uint64_param(), kMost));
  }
  if (parameter.parameter_choice_case() != inference::InferParameter::kInt64Param)
    RefuseMessage(StrCat(where, " is no whole number"), "int64_param and uint64_param hold one");
  if (parameter.int64_param() < 0) RefuseMessage(StrCat(where, " is ", parameter.int64_param()));
  return parameter.int64_param();
}

// A whole number of a sequence: all of 64 bits.
uint64_t NumberOf(const inference::InferParameter& parameter, const std::string& where) {
  if (parameter.parameter_choice_case() == inference::InferParameter::kUint64Param) return parameter.uint64_param();
  return static_cast<uint64_t>(WholeOf(parameter, where));
}

// The whole numbers of parameters, in the order of `names`. Errors: kBadData for another name.
std::vector<std::optional<int64_t>> WholesOf(const Parameters& parameters, const std::string& where,
                                             const std::vector<std::string>& names) {
  std::vector<std::optional<int64_t>> wholes(names.size());
  for (const auto& [name, parameter] : parameters) {
    const auto at = std::ranges::find(names, name) - names.begin();
    if (at == std::ssize(names)) {
      const std::string known = names.empty() ? "it takes none" : StrCat("it may have ", Join(names, ", "));
      const std::string near = DidYouMean(name.substr(0, 200), names);
      RefuseMessage(StrCat(where, " has an unknown parameter \"", ShownName(name), "\""), near.empty() ? known : near);
    }
    wholes[static_cast<size_t>(at)] = WholeOf(parameter, StrCat(where, ".", name));
  }
  return wholes;
}

// Takes the parameters of a sequence out. Errors: kBadData for one of another type.
SequencePart TakeSequence(Parameters& parameters) {
  SequencePart part;
  const auto id = parameters.find("sequence_id");
  if (id != parameters.end()) {
    const bool is_text = id->second.parameter_choice_case() == inference::InferParameter::kStringParam;
    const uint64_t number = is_text ? 0 : NumberOf(id->second, "parameters.sequence_id");
    part.id = is_text ? id->second.string_param() : number == 0 ? std::string() : std::to_string(number);
    CheckSequenceId(part.id, "parameters.sequence_id");
  }
  const auto flag = [&](const char* name) {
    const auto found = parameters.find(name);
    if (found == parameters.end()) return false;
    if (found->second.parameter_choice_case() != inference::InferParameter::kBoolParam)
      RefuseMessage(StrCat("parameters.", name, " is neither true nor false"), "bool_param holds one");
    return found->second.bool_param();
  };
  part.starts = flag("sequence_start");
  part.ends = flag("sequence_end");
  for (const char* name : {"sequence_id", "sequence_start", "sequence_end"}) parameters.erase(name);
  return part;
}

// Takes the parameters of a place in shared memory out. Errors: kBadData for a part without the others.
std::optional<SharedPlace> TakeShared(Parameters& parameters, const std::string& where) {
  const auto region = parameters.find("shared_memory_region");
  const auto bytes = parameters.find("shared_memory_byte_size");
  const auto offset = parameters.find("shared_memory_offset");
  const bool has_region = region != parameters.end();
  if (has_region != (bytes != parameters.end()) || (!has_region && offset != parameters.end()))
    RefuseMessage(StrCat(where, ": shared_memory_region and shared_memory_byte_size belong together"));
  if (!has_region) return std::nullopt;
  if (region->second.parameter_choice_case() != inference::InferParameter::kStringParam)
    RefuseMessage(StrCat(where, ".shared_memory_region is no text"), "string_param holds one");
  SharedPlace place{.region = region->second.string_param()};
  place.bytes = WholeOf(bytes->second, StrCat(where, ".shared_memory_byte_size"));
  if (offset != parameters.end()) place.offset = WholeOf(offset->second, StrCat(where, ".shared_memory_offset"));
  for (const char* name : {"shared_memory_region", "shared_memory_byte_size", "shared_memory_offset"})
    parameters.erase(name);
  return place;
}

bool IsShared(const inference::ModelInferRequest::InferInputTensor& input) {
  return input.parameters().contains("shared_memory_region");
}

// A field of contents and the datatypes whose elements it holds.
struct ContentsField {
  std::string_view name;
  std::string_view datatypes;
  int (InferTensorContents::*size)() const;
};
constexpr std::array kContentsFields = {
    ContentsField{"bool_contents", "BOOL", &InferTensorContents::bool_contents_size},
    ContentsField{"int_contents", "INT8 INT16 INT32", &InferTensorContents::int_contents_size},
    ContentsField{"int64_contents", "INT64", &InferTensorContents::int64_contents_size},
    ContentsField{"uint_contents", "UINT8 UINT16 UINT32", &InferTensorContents::uint_contents_size},
    ContentsField{"uint64_contents", "UINT64", &InferTensorContents::uint64_contents_size},
    ContentsField{"fp32_contents", "FP32", &InferTensorContents::fp32_contents_size},
    ContentsField{"fp64_contents", "FP64", &InferTensorContents::fp64_contents_size},
    ContentsField{"bytes_contents", "BYTES", &InferTensorContents::bytes_contents_size}};

bool IsOf(const ContentsField& field, const std::string& datatype) {
  const std::vector<std::string> held = Split(std::string(field.datatypes), ' ');
  return std::ranges::find(held, datatype) != held.end();
}

void FillFromContents(const InferTensorContents& contents, const std::string& where, WireTensor& tensor) {
  const auto own =
      std::ranges::find_if(kContentsFields, [&](const auto& field) { return IsOf(field, tensor.datatype); });
  if (own == kContentsFields.end())
    RefuseMessage(StrCat(where, ": ", tensor.datatype, " has no form in contents"),
                  "raw_input_contents takes its bytes");
  for (const ContentsField& field : kContentsFields) {
    if (&field != own && (contents.*field.size)() > 0)
      RefuseMessage(StrCat(where, " is of ", tensor.datatype, " and has ", field.name), StrCat("expected ", own->name));
  }
  // No input is of another type, which is said where inputs are known.
  if (tensor.datatype == "FP32") {
    tensor.values.assign(contents.fp32_contents().begin(), contents.fp32_contents().end());
    CheckElements(tensor);
  } else if (tensor.datatype == "BYTES") {
    if (contents.bytes_contents_size() > kMostTexts)
      RefuseMessage(StrCat(where, " has more than ", kMostTexts, " elements"));
    tensor.texts.assign(contents.bytes_contents().begin(), contents.bytes_contents().end());
    CheckElements(tensor);
  }
}

WireTensor InputOf(const inference::ModelInferRequest::InferInputTensor& input, int index, const std::string* raw) {
  WireTensor tensor{
      .name = input.name(), .datatype = input.datatype(), .shape = {input.shape().begin(), input.shape().end()}};
  if (tensor.name.empty()) RefuseMessage(StrCat("inputs[", index, "] has no name"));
  const std::string where = StrCat("input \"", ShownName(tensor.name), "\"");
  CheckDatatype(tensor.datatype, where);
  CheckShape(tensor.shape, StrCat(where, ".shape"));
  Parameters others = input.parameters();
  tensor.shared = TakeShared(others, StrCat(where, ".parameters"));
  (void)WholesOf(others, StrCat(where, ".parameters"), {});
  if (tensor.shared) {
    if (input.has_contents()) RefuseMessage(StrCat(where, " has contents beside its shared memory"));
  } else if (raw == nullptr) {
    FillFromContents(input.contents(), where, tensor);
  } else if (input.has_contents()) {
    RefuseMessage(StrCat(where, " has contents, and the request raw_input_contents"), "one of them is to be left out");
  } else {
    FillFromBytes(*raw, "its entry of raw_input_contents", tensor);
  }
  return tensor;
}

WantedOutput OutputOf(const inference::ModelInferRequest::InferRequestedOutputTensor& output, int index) {
  WantedOutput wanted{.name = output.name()};
  if (wanted.name.empty()) RefuseMessage(StrCat("outputs[", index, "] has no name"));
  const std::string where = StrCat("output \"", ShownName(wanted.name), "\".parameters");
  Parameters others = output.parameters();
  wanted.shared = TakeShared(others, where);
  wanted.classes = WholesOf(others, where, {"classification"})[0].value_or(0);
  return wanted;
}

void CheckMost(int count, std::string_view of) {
  if (count > static_cast<int>(kMostTensors))
    RefuseMessage(StrCat("the request has more than ", kMostTensors, " ", of));
}

// The elements of BYTES, each behind its length.
std::string BytesOf(const std::vector<std::string>& texts) {
  std::string bytes;
  for (const std::string& text : texts) {
    const auto length = static_cast<uint32_t>(text.size());
    std::array<char, sizeof(length)> head{};
    std::memcpy(head.data(), &length, sizeof(length));
    bytes.append(head.data(), head.size());
    bytes += text;
  }
  return bytes;
}

}  // namespace

InferRequest RequestOf(const inference::ModelInferRequest& message) {
  InferRequest request{.id = message.id(), .inputs = {}, .outputs = {}, .are_outputs_binary = true};
  CheckMost(message.inputs_size(), "inputs");
  CheckMost(message.outputs_size(), "outputs");
  Parameters others = message.parameters();
  request.sequence = TakeSequence(others);
  const auto parameters = WholesOf(others, "parameters", {"priority", "timeout"});
  request.priority = parameters[0].value_or(0);
  request.timeout_us = parameters[1].value_or(0);
  if (message.inputs_size() == 0) RefuseMessage("the request has no inputs");
  const int raws = message.raw_input_contents_size();
  const auto sent = std::ranges::count_if(message.inputs(), [](const auto& input) { return !IsShared(input); });
  if (raws != 0 && raws != sent) {
    RefuseMessage(StrCat("raw_input_contents has ", raws, " entries for ", sent, " inputs"),
                  "it has one for each input, in their order");
  }
  int next = 0;
  for (int i = 0; i < message.inputs_size(); ++i) {
    const bool is_raw = raws > 0 && !IsShared(message.inputs(i));
    WireTensor tensor = InputOf(message.inputs(i), i, is_raw ? &message.raw_input_contents(next++) : nullptr);
    if (std::ranges::find(request.inputs, tensor.name, &WireTensor::name) != request.inputs.end())
      RefuseMessage(StrCat("input \"", ShownName(tensor.name), "\" is there twice"));
    request.inputs.push_back(std::move(tensor));
  }
  for (int i = 0; i < message.outputs_size(); ++i) request.outputs.push_back(OutputOf(message.outputs(i), i));
  return request;
}

bool WantsRaw(const inference::ModelInferRequest& message) {
  return std::ranges::none_of(message.inputs(), [](const auto& input) { return input.has_contents(); });
}

void WriteAnswer(const InferAnswer& answer, bool is_raw, inference::ModelInferResponse& message) {
  message.set_model_name(answer.model);
  message.set_model_version(answer.version);
  message.set_id(answer.id);
  for (const AnsweredTensor& tensor : answer.outputs) {
    auto& output = *message.add_outputs();
    output.set_name(tensor.name);
    output.set_datatype(tensor.is_text ? "BYTES" : "FP32");
    for (const int64_t side : tensor.shape) output.add_shape(side);
    if (tensor.shared) {
      auto& parameters = *output.mutable_parameters();
      parameters["shared_memory_region"].set_string_param(tensor.shared->region);
      parameters["shared_memory_offset"].set_int64_param(tensor.shared->offset);
      parameters["shared_memory_byte_size"].set_int64_param(tensor.shared->bytes);
      if (is_raw) message.add_raw_output_contents();
    } else if (is_raw && tensor.is_text) {
      message.add_raw_output_contents(BytesOf(tensor.texts));
    } else if (is_raw) {
      message.add_raw_output_contents(tensor.values.data(), tensor.values.size() * sizeof(float));
    } else if (tensor.is_text) {
      for (const std::string& text : tensor.texts) output.mutable_contents()->add_bytes_contents(text);
    } else {
      output.mutable_contents()->mutable_fp32_contents()->Add(tensor.values.begin(), tensor.values.end());
    }
  }
}

}  // namespace moka
