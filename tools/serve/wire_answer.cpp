// Numbers are written with the fewest digits that give the same float again.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/error.h"
#include "core/text.h"
#include "tools/serve/wire_tensor.h"

namespace moka {
namespace {

std::string Quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void AppendNumbers(const AnsweredTensor& tensor, std::string& json) {
  json.reserve(json.size() + tensor.values.size() * 14);
  std::array<char, 32> digits{};
  for (size_t i = 0; i < tensor.values.size(); ++i) {
    const float value = tensor.values[i];
    if (!std::isfinite(value)) {
      throw Error(ErrorKind::kBadData, {},
                  StrCat("output \"", tensor.name, "\": value ", i, " is not finite, and JSON has no such number"),
                  "binary_data: true sends its bytes");
    }
    if (i > 0) json += ',';
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    json.append(digits.data(), end);
  }
}

int64_t BytesOf(const AnsweredTensor& tensor) {
  if (!tensor.is_text) return std::ssize(tensor.values) * static_cast<int64_t>(sizeof(float));
  return std::accumulate(tensor.texts.begin(), tensor.texts.end(), int64_t{0},
                         [](int64_t sum, const std::string& text) { return sum + std::ssize(text) + 4; });
}

}  // namespace

void AppendBytes(const AnsweredTensor& tensor, std::string& body) {
  const size_t begin = body.size();
  if (!tensor.is_text) {
    body.resize(begin + static_cast<size_t>(BytesOf(tensor)));
    std::memcpy(body.data() + begin, tensor.values.data(), static_cast<size_t>(BytesOf(tensor)));
    return;
  }
  for (const std::string& text : tensor.texts) {
    const auto length = static_cast<uint32_t>(text.size());
    body.append(sizeof(length), '\0');
    std::memcpy(body.data() + body.size() - sizeof(length), &length, sizeof(length));
    body += text;
  }
}

std::string WriteInferAnswer(const InferAnswer& answer, std::optional<int64_t>& json_bytes) {
  std::string body = StrCat("{\"model_name\":", Quoted(answer.model), ",\"model_version\":", Quoted(answer.version));
  if (!answer.id.empty()) body += StrCat(",\"id\":", Quoted(answer.id));
  body += ",\"outputs\":[";
  for (size_t i = 0; i < answer.outputs.size(); ++i) {
    const AnsweredTensor& tensor = answer.outputs[i];
    if (i > 0) body += ',';
    std::vector<std::string> sides;
    for (const int64_t side : tensor.shape) sides.push_back(StrCat(side));
    body += StrCat("{\"name\":", Quoted(tensor.name), ",\"datatype\":\"", tensor.is_text ? "BYTES" : "FP32",
                   "\",\"shape\":[", Join(sides, ","), "]");
    if (tensor.shared) {
      body += StrCat(",\"parameters\":{\"shared_memory_region\":", Quoted(tensor.shared->region),
                     ",\"shared_memory_offset\":", tensor.shared->offset,
                     ",\"shared_memory_byte_size\":", tensor.shared->bytes, "}}");
      continue;
    }
    if (tensor.is_binary) {
      body += StrCat(",\"parameters\":{\"binary_data_size\":", BytesOf(tensor), "}}");
      continue;
    }
    body += ",\"data\":[";
    if (!tensor.is_text) AppendNumbers(tensor, body);
    for (size_t k = 0; tensor.is_text && k < tensor.texts.size(); ++k)
      body += StrCat(k > 0 ? "," : "", Quoted(tensor.texts[k]));
    body += "]}";
  }
  body += "]}";
  if (std::ranges::none_of(answer.outputs, &AnsweredTensor::is_binary)) return body;
  json_bytes = std::ssize(body);
  for (const AnsweredTensor& tensor : answer.outputs) {
    if (tensor.is_binary) AppendBytes(tensor, body);
  }
  return body;
}

std::vector<std::string> ClassTexts(const std::vector<float>& values, int64_t rows, int64_t k,
                                    const std::vector<std::string>& labels) {
  std::vector<std::string> texts;
  const auto classes = std::ssize(values) / rows;
  std::vector<int64_t> order(static_cast<size_t>(classes));
  for (int64_t row = 0; row < rows; ++row) {
    const auto value = [&](int64_t i) { return values[static_cast<size_t>(row * classes + i)]; };
    std::iota(order.begin(), order.end(), int64_t{0});
    std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return value(a) > value(b); });
    for (int64_t i = 0; i < std::min<int64_t>(k, classes); ++i) {
      const int64_t index = order[static_cast<size_t>(i)];
      const bool is_named = index < std::ssize(labels) && !labels[static_cast<size_t>(index)].empty();
      texts.push_back(
          fmt::format("{}:{}{}", value(index), index, is_named ? StrCat(":", labels[static_cast<size_t>(index)]) : ""));
    }
  }
  return texts;
}

}  // namespace moka
