// The nets run here one row at a time, as a server without batches would run them.
#include "tools/bench/serve/soak_requests.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "core/error.h"
#include "core/printable.h"
#include "core/text.h"
#include "data/image/image.h"
#include "tools/cli/command_line.h"
#include "tools/infer/source.h"
#include "tools/infer/task_answers.h"
#include "tools/serve/served_model.h"

namespace moka {
namespace {

using Json = nlohmann::json;

constexpr double kTolerance = 1e-6;  // a part of values over 1
constexpr int kOfKind = 24;          // requests of each kind and model

double DifferenceOf(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return HUGE_VAL;
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double right = static_cast<double>(a[i]);
    const double difference = std::abs(right - static_cast<double>(b[i])) / std::max(1.0, std::abs(right));
    most = std::isnan(difference) ? HUGE_VAL : std::max(most, difference);
  }
  return most;
}

// The numbers of an answer to infer, of all outputs in order. Errors: those of a JSON or a length that is not right.
std::vector<float> ValuesOf(const SoakReply& reply) {
  const std::string_view length = reply.Header("inference-header-content-length");
  const size_t json_bytes = length.empty() ? reply.body.size() : std::stoul(std::string(length));
  const Json json = Json::parse(reply.body.substr(0, json_bytes));
  std::vector<float> values;
  size_t at = json_bytes;
  for (const Json& output : json.at("outputs")) {
    if (output.contains("data")) {
      for (const Json& value : output.at("data")) values.push_back(value.get<float>());
      continue;
    }
    const auto bytes = output.at("parameters").at("binary_data_size").get<size_t>();
    const size_t before = values.size();
    values.resize(before + bytes / sizeof(float));
    if (at + bytes > reply.body.size()) throw Error(ErrorKind::kPeer, "the answer is shorter than it says");
    std::memcpy(values.data() + before, reply.body.data() + at, bytes);
    at += bytes;
  }
  if (at != reply.body.size()) throw Error(ErrorKind::kPeer, "the answer is longer than it says");
  return values;
}

std::string Bytes(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// With a name of its own in each request, for whoever sends it to write over.
SoakRequest RequestOf(std::string kind, const std::string& model, const std::string& path, const std::string& body,
                      const std::string& headers = {}) {
  SoakRequest request{.kind = std::move(kind), .model = model, .bytes = {}};
  request.bytes = StrCat("POST /v2/models/", model, "/", path,
                         " HTTP/1.1\r\nHost: here\r\nContent-Length: ", body.size(), "\r\n", headers, "X-Request-Id: ");
  request.id_at = request.bytes.size();
  request.bytes += std::string(kIdDigits, '0') + "\r\n\r\n";
  request.head_bytes = request.bytes.size();
  request.bytes += body;
  return request;
}

}  // namespace

std::string_view SoakReply::Header(std::string_view name) const {
  for (size_t at = head.find("\r\n"); at != std::string::npos; at = head.find("\r\n", at + 2)) {
    const std::string_view line = std::string_view(head).substr(at + 2, head.find("\r\n", at + 2) - at - 2);
    if (line.size() <= name.size() + 1 || line[name.size()] != ':') continue;
    if (AsciiLower(std::string(line.substr(0, name.size()))) != name) continue;
    return line.substr(line.find_first_not_of(' ', name.size() + 1));
  }
  return {};
}

// Requests of one model.
struct SoakRequests::Maker {
  Maker(const std::string& word, uint64_t seed, std::vector<SoakRequest>& requests)
      : model(word.substr(word.rfind(':') + 1), "1", SourceOf(word), 1), random(seed), all(requests) {}

  static InferSource SourceOf(const std::string& word) {
    Arguments arguments(*FindVerb(AllVerbs(), "serve"));
    arguments.positionals = std::vector<std::string>{word};
    return InferSourceOf(arguments);
  }

  // Rows of each input, between 0 and 1 as pixels are, of several brightnesses, so that few of their answers are alike.
  std::vector<std::vector<float>> Inputs(int64_t rows) {
    std::vector<std::vector<float>> inputs;
    std::uniform_real_distribution<float> unit(0, 1);
    for (const ServedTensor& input : model.inputs()) {
      inputs.emplace_back();
      for (int64_t row = 0; row < rows; ++row) {
        const float brightness = unit(random);
        for (int64_t i = 0; i < input.Count(); ++i) inputs.back().push_back(brightness * unit(random));
      }
    }
    return inputs;
  }

  std::vector<float> Right(const std::vector<std::vector<float>>& inputs, int64_t rows) {
    std::vector<std::vector<float>> outputs(model.outputs().size());
    const Rung& rung = model.rungs()[0];
    for (int64_t row = 0; row < rows; ++row) {
      for (size_t i = 0; i < inputs.size(); ++i) {
        const int64_t count = model.inputs()[i].Count();
        std::copy_n(inputs[i].begin() + row * count, count, model.InputRow(rung, i, 0).begin());
      }
      model.Run(rung);
      for (size_t k = 0; k < outputs.size(); ++k) {
        const auto values = model.OutputRow(rung, k, 0);
        outputs[k].insert(outputs[k].end(), values.begin(), values.end());
      }
    }
    std::vector<float> all_values;
    for (const auto& values : outputs) all_values.insert(all_values.end(), values.begin(), values.end());
    return all_values;
  }

  void AddTensors(const std::string& kind, int64_t rows, const Json& parameters, bool may_be_late = false) {
    const auto inputs = Inputs(rows);
    const bool is_json = kind == "json";
    Json json{{"id", StrCat("of ", kind)}, {"inputs", Json::array()}};
    std::string bytes;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ServedTensor& input = model.inputs()[i];
      Json shape = Json::array({rows});
      for (const int64_t side : input.row) shape.push_back(side);
      Json tensor{{"name", input.name}, {"shape", shape}, {"datatype", "FP32"}};
      if (is_json) {
        tensor["data"] = inputs[i];
      } else {
        bytes += Bytes(inputs[i]);
        tensor["parameters"] = {{"binary_data_size", inputs[i].size() * sizeof(float)}};
      }
      json["inputs"].push_back(tensor);
    }
    json["parameters"] = parameters;
    if (!is_json) json["parameters"]["binary_data_output"] = true;
    const std::string text = json.dump();
    SoakRequest request =
        RequestOf(kind, model.name(), "infer", text + bytes,
                  is_json ? std::string() : StrCat("Inference-Header-Content-Length: ", text.size(), "\r\n"));
    request.values = Right(inputs, rows);
    request.may_be_late = may_be_late;
    Add(std::move(request));
  }

  void AddRaw() {
    const auto inputs = Inputs(1);
    SoakRequest request =
        RequestOf("raw", model.name(), "infer", Bytes(inputs[0]), "Inference-Header-Content-Length: 0\r\n");
    request.values = Right(inputs, 1);
    Add(std::move(request));
  }

  // Noise with a bright bar, as large as the net looks at.
  std::string Picture() {
    Image image;
    const std::vector<int64_t>& row = model.inputs()[0].row;
    image.Resize(row[2], row[1], row[0]);
    const size_t most = image.pixels.size();
    for (uint8_t& pixel : image.pixels) pixel = static_cast<uint8_t>(random() % 64);
    const size_t begin = random() % most;
    for (size_t i = begin; i < std::min(most, begin + most / 4); ++i) image.pixels[i] = 255;
    return EncodePng(image);
  }

  static std::string PredictedText(const TaskAnswer& answer) {
    return PrintableJson(answer.json.dump(answer.indent, ' ', false, PictureJson::error_handler_t::replace)) + "\n";
  }

  void AddAsked(const std::string& kind, const std::string& body) {
    const std::string name = StrCat("f", std::ssize(all));
    SoakRequest request = RequestOf(kind, model.name(), StrCat("predict/", name), body);
    request.text = PredictedText(model.answers()->Answer({name, body, false}));
    all.push_back(std::move(request));
  }

  std::string Story() {
    static const std::vector<std::string> people = {"Mary", "John", "Daniel", "Sandra"};
    static const std::vector<std::string> places = {"bathroom", "hallway", "kitchen", "garden", "office", "bedroom"};
    std::string story;
    int line = 1;
    for (; line <= 6; ++line)
      story += StrCat(line, " ", people[random() % 4], " went to the ", places[random() % 6], ".\n");
    return story + StrCat(line, " Where is ", people[random() % 4], "?\n");
  }

  // Those whose answers are too near to another's would not tell a mix-up.
  void Add(SoakRequest request) {
    const bool is_alike = std::ranges::any_of(all, [&](const SoakRequest& other) {
      return other.model == request.model && DifferenceOf(other.values, request.values) < 10 * kTolerance;
    });
    if (!is_alike) all.push_back(std::move(request));
  }

  void Make() {
    const bool asks_texts = model.answers() != nullptr && model.answers()->kind() == AskedKind::kText;
    for (int i = 0; i < kOfKind; ++i) {
      if (asks_texts) {
        AddAsked("text", Story());
        continue;
      }
      AddTensors("binary", 1, Json::object());
      AddTensors("binary", 1 + i % 8, {{"priority", 1 + i % 16}});
      AddTensors("json", 1 + i % 3, Json::object());
      AddTensors("json", 1, {{"timeout", 30'000'000}});
      AddTensors("binary", 1, {{"timeout", 15000}}, true);
      if (model.inputs().size() == 1) AddRaw();
      const bool sees = model.answers() != nullptr && model.answers()->kind() == AskedKind::kPicture;
      if (sees && i % 4 == 0) AddAsked("picture", Picture());
    }
  }

  ServedModel model;
  std::mt19937_64 random;
  std::vector<SoakRequest>& all;
};

SoakRequests::SoakRequests(const std::vector<std::string>& models, uint64_t seed) {
  for (const std::string& word : models) Maker(word, ++seed, all_).Make();
}

AnswerVerdict SoakRequests::Judge(const SoakRequest& request, std::string_view id, const SoakReply& reply,
                                  double& difference) const {
  difference = 0;
  if (reply.Header("x-request-id") != id) return AnswerVerdict::kMixedUp;
  if (!request.text.empty()) {
    if (reply.body == request.text) return AnswerVerdict::kRight;
    const bool is_of_other = std::ranges::any_of(all_, [&](const auto& other) { return other.text == reply.body; });
    return is_of_other ? AnswerVerdict::kMixedUp : AnswerVerdict::kWrong;
  }
  std::vector<float> values;
  try {
    values = ValuesOf(reply);
  } catch (const std::exception&) {
    return AnswerVerdict::kWrong;
  }
  difference = DifferenceOf(request.values, values);
  if (difference <= kTolerance) return AnswerVerdict::kRight;
  const bool is_of_other = std::ranges::any_of(all_, [&](const SoakRequest& other) {
    return other.text.empty() && DifferenceOf(other.values, values) <= kTolerance;
  });
  return is_of_other ? AnswerVerdict::kMixedUp : AnswerVerdict::kWrong;
}

}  // namespace moka
