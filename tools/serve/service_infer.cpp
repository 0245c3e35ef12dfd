// Requests for inference: read and checked by the connection's thread, run by the queue's, answered from there.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/error.h"
#include "core/printable.h"
#include "core/text.h"
#include "data/image/image.h"
#include "proto/content.h"
#include "tools/infer/picture_net.h"
#include "tools/serve/multipart.h"
#include "tools/serve/service.h"
#include "tools/serve/service_answers.h"
#include "tools/serve/wire_tensor.h"

namespace moka {
namespace {

[[noreturn]] void Refuse(const std::string& text, const std::string& hint = {}) {
  throw Error(ErrorKind::kBadData, {}, text, hint);
}

std::string ShapeText(const std::vector<int64_t>& row, const std::string& rows) {
  std::string text = StrCat("[", rows);
  for (const int64_t side : row) text += StrCat(",", side);
  return text + "]";
}

// A header that is a whole number. Errors: kBadData.
std::optional<int64_t> WholeHeader(const HttpRequest& request, std::string_view name) {
  const std::string_view text = request.Header(AsciiLower(name));
  if (text.empty()) return std::nullopt;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    Refuse(StrCat(name, " is ", Printable(text), ", no number of bytes"));
  return value;
}

// A body without JSON: the one tensor of the model, or a picture.
InferRequest RawRequest(const HttpRequest& request, const ServedModel& model) {
  if (model.inputs().size() != 1) {
    Refuse(
        StrCat("a body without JSON is of models with one input, and ", model.name(), " has ", model.inputs().size()));
  }
  const ServedTensor& input = model.inputs()[0];
  WireTensor tensor{.name = input.name, .datatype = "FP32", .shape = {1}};
  const int64_t bytes = input.Count() * static_cast<int64_t>(sizeof(float));
  const bool takes_pictures = model.answers() != nullptr && model.answers()->kind() == AskedKind::kPicture;
  const bool is_picture =
      takes_pictures && RecognizeContent(std::string_view(request.body).substr(0, 4096)) == Content::kImage;
  if (is_picture) {
    tensor.datatype = "BYTES";
    tensor.texts = {request.body};
  } else if (std::ssize(request.body) == bytes) {
    tensor.shape.insert(tensor.shape.end(), input.row.begin(), input.row.end());
    tensor.values.resize(static_cast<size_t>(input.Count()));
    std::copy_n(request.body.data(), bytes,
                reinterpret_cast<char*>(tensor.values.data()));  // NOLINT(*-reinterpret-cast)
  } else {
    Refuse(StrCat("the body has ", request.body.size(), " bytes, and a row of input \"", input.name, "\" has ", bytes));
  }
  InferRequest infer;
  infer.inputs.push_back(std::move(tensor));
  infer.are_outputs_binary = true;
  return infer;
}

// The rows of a request, the same for all inputs. Errors: kBadData.
int64_t CheckInputs(const InferRequest& request, const ServedModel& model) {
  std::vector<std::string> names;
  for (const ServedTensor& input : model.inputs()) names.push_back(input.name);
  int64_t rows = 0;
  for (const WireTensor& tensor : request.inputs) {
    const auto input = std::ranges::find(model.inputs(), tensor.name, &ServedTensor::name);
    if (input == model.inputs().end()) {
      Refuse(StrCat("model \"", model.name(), "\" has no input \"", Printable(tensor.name), "\""),
             StrCat("it has ", Join(names, ", ")));
    }
    std::vector<int64_t> row(tensor.shape.begin() + (tensor.shape.empty() ? 0 : 1), tensor.shape.end());
    if (tensor.datatype == "BYTES") {
      const bool takes_pictures = model.answers() != nullptr && model.answers()->kind() == AskedKind::kPicture;
      if (!takes_pictures || model.inputs().size() != 1)
        Refuse(StrCat("input \"", tensor.name, "\" takes FP32; BYTES are pictures, of models that look at them"));
      if (tensor.shape.size() != 1) Refuse(StrCat("input \"", tensor.name, "\": pictures are of the shape [N]"));
    } else if (tensor.datatype != "FP32") {
      Refuse(StrCat("input \"", tensor.name, "\" takes FP32, and the request has ", tensor.datatype));
    } else if (tensor.shape.empty() || row != input->row) {
      const std::string given = tensor.shape.empty() ? "[]" : ShapeText(row, StrCat(tensor.shape[0]));
      Refuse(StrCat("input \"", tensor.name, "\" has the shape ", given),
             StrCat("expected ", ShapeText(input->row, "-1"), ", -1 any number of rows"));
    }
    const int64_t of_tensor = tensor.shape[0];
    if (rows != 0 && rows != of_tensor)
      Refuse(StrCat("inputs of ", rows, " and of ", of_tensor, " rows do not belong together"));
    rows = of_tensor;
  }
  if (request.inputs.size() == model.inputs().size()) return rows;
  for (const std::string& name : names) {
    if (std::ranges::find(request.inputs, name, &WireTensor::name) == request.inputs.end())
      Refuse(StrCat("the request lacks input \"", name, "\""));
  }
  return rows;
}

// Errors: kBadData.
void CheckOutputs(const InferRequest& request, const ServedModel& model, int64_t rows) {
  constexpr int64_t kMostNumbers = int64_t{1} << 26;  // of an answer
  std::vector<std::string> names;
  int64_t numbers = 0;
  for (const ServedTensor& output : model.outputs()) {
    names.push_back(output.name);
    numbers += rows * output.Count();
  }
  if (numbers > kMostNumbers)
    Refuse(
        StrCat("the answer to ", rows, " rows would be of ", numbers, " numbers, and ", kMostNumbers, " is the most"));
  std::vector<std::string> seen;
  for (const WantedOutput& wanted : request.outputs) {
    if (std::ranges::find(seen, wanted.name) != seen.end())
      Refuse(StrCat("output \"", Printable(wanted.name.substr(0, 200)), "\" is asked for twice"));
    seen.push_back(wanted.name);
    if (std::ranges::find(names, wanted.name) != names.end()) continue;
    Refuse(StrCat("model \"", model.name(), "\" has no output \"", Printable(wanted.name.substr(0, 200)), "\""),
           StrCat("it has ", Join(names, ", ")));
  }
}

HttpAnswer AnswerOfJob(const QueuedRequest& job, const InferRequest& request) {
  const ServedModel& model = *job.model;
  InferAnswer answer{.model = model.name(), .version = model.version(), .id = request.id, .outputs = {}};
  std::vector<WantedOutput> wanted = request.outputs;
  if (wanted.empty()) {
    for (const ServedTensor& output : model.outputs()) wanted.push_back({.name = output.name});
  }
  for (const WantedOutput& one : wanted) {
    const auto at = std::ranges::find(model.outputs(), one.name, &ServedTensor::name) - model.outputs().begin();
    const ServedTensor& output = model.outputs()[static_cast<size_t>(at)];
    AnsweredTensor tensor{.name = one.name, .shape = {job.rows * output.rows}};
    tensor.is_binary = one.is_binary.value_or(request.are_outputs_binary);
    const std::vector<float>& values = job.outputs[static_cast<size_t>(at)];
    if (one.classes > 0) {
      tensor.texts = ClassTexts(values, job.rows, one.classes, model.source().names);
      tensor.is_text = true;
      tensor.shape = {job.rows, std::ssize(tensor.texts) / job.rows};
    } else {
      tensor.shape.insert(tensor.shape.end(), output.row.begin(), output.row.end());
      tensor.values = values;
    }
    answer.outputs.push_back(std::move(tensor));
  }
  std::optional<int64_t> json_bytes;
  HttpAnswer http{.body = WriteInferAnswer(answer, json_bytes)};
  if (!json_bytes) return http;
  http.type = "application/octet-stream";
  http.headers.emplace_back(std::string(kHeaderLength), StrCat(*json_bytes));
  return http;
}

// Pictures as the model's data layer would have them; each a row.
void RunPictures(QueuedRequest& job, const std::vector<std::string>& pictures) {
  PictureNet& net = *job.model->answers()->net();
  for (size_t i = 0; i < pictures.size(); ++i) {
    if (job.is_gone && *job.is_gone) return;
    (void)net.LoadBytes(pictures[i], StrCat("picture ", i), 0);
    net.RunRows();
    for (size_t k = 0; k < job.outputs.size(); ++k) {
      const std::span<const float> values = net.output(job.model->outputs()[k].name).as<const float>();
      job.outputs[k].insert(job.outputs[k].end(), values.begin(), values.end());
    }
  }
}

std::string PrintedJson(const TaskAnswer& answer) {
  return PrintableJson(answer.json.dump(answer.indent, ' ', false, PictureJson::error_handler_t::replace)) + "\n";
}

// "ff d8 00 1f": the first bytes of what was sent.
std::string FirstBytes(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char c : bytes.substr(0, 8)) {
    const auto byte = static_cast<unsigned char>(c);
    if (!text.empty()) text += ' ';
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

}  // namespace

void Service::Submit(std::shared_ptr<QueuedRequest> job, const HttpRespond& respond) {
  const std::shared_ptr<ServedModel> model = job->model;
  const Submission submission = queue_.Submit(std::move(job));
  if (submission.is_taken) return;
  model->counts().Update([](CountedModel& counted) { ++counted.rejected; });
  HttpAnswer answer = HttpErrorAnswer(503, is_draining_ ? "the server is closing" : "too many requests wait",
                                      StrCat("those before it take about ", std::lround(submission.wait_ms), " ms"));
  answer.headers.emplace_back("Retry-After",
                              StrCat(std::max<int64_t>(1, std::lround(std::ceil(submission.wait_ms * 1e-3)))));
  respond(std::move(answer));
}

namespace {

HttpAnswer AnswerOfEnd(RequestEnd end, const std::string& error) {
  switch (end) {
    case RequestEnd::kLate:
      return HttpErrorAnswer(504, "the request waited longer than its timeout",
                             "timeout counts the time in the queue alone");
    case RequestEnd::kStopped: {
      HttpAnswer answer = HttpErrorAnswer(503, "the server is closing");
      answer.headers.emplace_back("Retry-After", "1");
      return answer;
    }
    case RequestEnd::kGone: return HttpErrorAnswer(499, "the client left");
    default: return HttpErrorAnswer(500, error);
  }
}

}  // namespace

void Service::Infer(HttpRequest& request, const std::shared_ptr<ServedModel>& model, const HttpRespond& respond) {
  if (model->rungs().empty()) {
    Refuse(StrCat("model \"", model->name(), "\" is asked by texts, not by tensors"),
           StrCat("POST /v2/models/", model->name(), "/predict takes one"));
  }
  const std::optional<int64_t> json_bytes = WholeHeader(request, kHeaderLength);
  auto infer = std::make_shared<InferRequest>(json_bytes == 0 ? RawRequest(request, *model)
                                                              : ReadInferRequest(request.body, json_bytes));
  request.body = {};
  auto job = std::make_shared<QueuedRequest>();
  job->model = model;
  job->rows = CheckInputs(*infer, *model);
  CheckOutputs(*infer, *model, job->rows);
  constexpr int64_t kMostRows = 65536;
  if (job->rows > kMostRows) Refuse(StrCat("a request has at most ", kMostRows, " rows, and this has ", job->rows));
  if (infer->priority > kLowestPriority)
    Refuse(StrCat("parameters.priority is ", infer->priority, ", and the lowest is ", kLowestPriority));
  job->priority = infer->priority;
  job->is_gone = request.is_gone;
  if (infer->timeout_us > 0)
    job->due = job->arrived + std::chrono::microseconds(std::min<int64_t>(infer->timeout_us, 86'400'000'000));
  job->outputs.resize(model->outputs().size());
  const auto refused = std::make_shared<std::optional<HttpAnswer>>();
  if (infer->inputs[0].datatype == "BYTES") {
    constexpr int64_t kMostPictures = 256;
    if (job->rows > kMostPictures)
      Refuse(StrCat("a request has at most ", kMostPictures, " pictures, and this has ", job->rows));
    job->work_ms = model->rungs()[0].ms * static_cast<double>(job->rows);
    job->work = [raw = job.get(), infer, refused] {
      try {
        RunPictures(*raw, infer->inputs[0].texts);
      } catch (const Error& error) {
        *refused = AnswerOf(error);
        raw->is_refused = true;
      }
    };
  } else {
    for (const ServedTensor& input : model->inputs()) {
      const auto given = std::ranges::find(infer->inputs, input.name, &WireTensor::name);
      job->inputs.push_back(std::move(given->values));
    }
  }
  job->ended = [respond, infer, refused](QueuedRequest& ended, RequestEnd end, const std::string& error) {
    if (end != RequestEnd::kDone) return respond(AnswerOfEnd(end, error));
    if (*refused) return respond(std::move(**refused));
    HttpAnswer answer;
    try {
      answer = AnswerOfJob(ended, *infer);
    } catch (const Error& failed) {
      answer = HttpErrorAnswer(500, failed.text(), failed.hint());
    } catch (const std::exception& failed) {
      answer = HttpErrorAnswer(500, failed.what());
    }
    respond(std::move(answer));
  };
  Submit(std::move(job), respond);
}

void Service::Predict(HttpRequest& request, const std::shared_ptr<ServedModel>& model, const std::string& name,
                      const HttpRespond& respond) {
  TaskAnswers* answers = model->answers();
  if (answers == nullptr) {
    Refuse(StrCat("model \"", model->name(), "\" is asked by tensors: its task takes no picture and no text"),
           StrCat("POST /v2/models/", model->name(), "/infer takes them"));
  }
  struct Asked {
    SentFile file;
    bool draws = false;
    HttpAnswer answer;
  };
  auto asked = std::make_shared<Asked>();
  asked->file = SentFileOf(request, name);
  const std::string_view accept = request.Header("accept");
  asked->draws = accept.find("image/png") != std::string_view::npos;
  if (asked->draws && !answers->draws()) {
    return respond(
        HttpErrorAnswer(406, StrCat("model \"", model->name(), "\" draws nothing"), "Accept: application/json"));
  }
  const std::string& bytes = asked->file.bytes;
  constexpr int64_t kMostTextBytes = 64 << 10;
  if (answers->kind() == AskedKind::kText && std::ssize(bytes) > kMostTextBytes)
    return respond(HttpErrorAnswer(413, StrCat("a text has at most ", kMostTextBytes, " bytes")));
  const Content content = RecognizeContent(std::string_view(bytes).substr(0, 4096));
  if (answers->kind() == AskedKind::kPicture && content != Content::kImage) {
    const std::string found = bytes.empty() ? "the body is empty" : StrCat("its first bytes are ", FirstBytes(bytes));
    return respond(HttpErrorAnswer(415, StrCat("the body is no picture (", Describe(content), "); ", found)));
  }
  if (answers->kind() == AskedKind::kText && content == Content::kImage)
    return respond(
        HttpErrorAnswer(415, StrCat("model \"", model->name(), "\" reads texts, and the body is a picture")));
  auto job = std::make_shared<QueuedRequest>();
  job->model = model;
  job->is_gone = request.is_gone;
  const DurationCount before = model->counts().Now().infer;
  const double rung_ms = model->rungs().empty() ? 1 : model->rungs()[0].ms;
  job->work_ms = before.count == 0 ? rung_ms : std::max(rung_ms, 1e-6 * static_cast<double>(before.ns / before.count));
  job->work = [raw = job.get(), asked, answers] {
    try {
      const TaskAnswer answer = answers->Answer({asked->file.name, asked->file.bytes, asked->draws});
      asked->answer = asked->draws && answer.drawn ? HttpAnswer{.body = EncodePng(*answer.drawn), .type = "image/png"}
                                                   : HttpAnswer{.body = PrintedJson(answer)};
    } catch (const Error& error) {
      asked->answer = AnswerOf(error);
      raw->is_refused = true;
    }
  };
  job->ended = [respond, asked](QueuedRequest&, RequestEnd end, const std::string& error) {
    respond(end == RequestEnd::kDone ? std::move(asked->answer) : AnswerOfEnd(end, error));
  };
  Submit(std::move(job), respond);
}

}  // namespace moka
