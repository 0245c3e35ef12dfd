// Tensors as the Open Inference Protocol (version 2) carries them: in JSON, or as bytes behind it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/serve/model/sequences.h"
#include "tools/serve/served_times.h"

namespace moka {

// A part of a region of shared memory that a client has registered.
struct SharedPlace {
  std::string region;
  int64_t offset = 0;  // from the region's begin
  int64_t bytes = 0;
};

// A tensor of a request. Of FP32 `values` holds the numbers, row-major; of BYTES `texts` the elements.
struct WireTensor {
  std::string name;
  std::string datatype;
  std::vector<int64_t> shape;
  std::vector<float> values = {};
  std::vector<std::string> texts = {};
  std::optional<SharedPlace> shared = {};  // where its elements lie until they are copied
};

// An output that a request asks for.
struct WantedOutput {
  std::string name;
  std::optional<bool> is_binary = {};
  int64_t classes = 0;  // 0: the numbers themselves, else so many of the best, as "value:index:label"
  std::optional<SharedPlace> shared = {};  // where its elements are to go
};

struct InferRequest {
  std::string id;
  std::vector<WireTensor> inputs;
  std::vector<WantedOutput> outputs;  // none: all
  bool are_outputs_binary = false;    // of those that do not say
  int64_t priority = 0;
  int64_t timeout_us = 0;  // in the queue; 0: none
  SequencePart sequence = {};
};

// The length of the JSON before the tensors, in both directions.
inline constexpr std::string_view kHeaderLength = "Inference-Header-Content-Length";

// `body` is JSON, of `json_bytes` where tensors follow as bytes; a field that is not known is refused. The string is
// read in place and gets room for kBodyPadding. Errors: kBadData naming the input, the index and what was expected.
InferRequest ReadInferRequest(std::string& body, std::optional<int64_t> json_bytes);

// A tensor of an answer: numbers, or the texts of classes.
struct AnsweredTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values = {};
  std::vector<std::string> texts = {};  // BYTES where the tensor is of texts
  bool is_text = false;
  bool is_binary = false;
  std::optional<SharedPlace> shared = {};  // where its elements were written, in place of the answer
};

// The tensor's bytes as the wire has them.
void AppendBytes(const AnsweredTensor& tensor, std::string& body);

struct InferAnswer {
  std::string model;
  std::string version;
  std::string id;
  std::vector<AnsweredTensor> outputs;
  ServedTimes times = {};
};

// The body, and the length of its JSON where bytes follow. Errors: kBadData for a number that JSON has not, infinite
// ones.
std::string WriteInferAnswer(const InferAnswer& answer, std::optional<int64_t>& json_bytes);

// Returns for each row of `values` [N,C] the k best as "value:index" or "value:index:label", of equal ones the lower
// index first.
std::vector<std::string> ClassTexts(const std::vector<float>& values, int64_t rows, int64_t k,
                                    const std::vector<std::string>& labels);

}  // namespace moka
