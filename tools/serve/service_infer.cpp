// Requests for inference as HTTP has them: read by the connection's thread, run by the queue's, written there.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/error.h"
#include "core/printable.h"
#include "core/text.h"
#include "data/image/image.h"
#include "proto/content.h"
#include "tools/infer/picture_net.h"
#include "tools/serve/infer_job.h"
#include "tools/serve/multipart.h"
#include "tools/serve/service.h"
#include "tools/serve/service_answers.h"
#include "tools/serve/wire_tensor.h"

namespace moka {
namespace {

[[noreturn]] void Refuse(const std::string& text, const std::string& hint = {}) {
  throw Error(ErrorKind::kBadData, {}, text, hint);
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

// Errors: none; an answer that JSON cannot hold is one of status 500.
HttpAnswer WrittenAnswer(const InferAnswer& answer) {
  try {
    std::optional<int64_t> json_bytes;
    HttpAnswer http{.body = WriteInferAnswer(answer, json_bytes)};
    if (!json_bytes) return http;
    http.type = "application/octet-stream";
    http.headers.emplace_back(std::string(kHeaderLength), StrCat(*json_bytes));
    return http;
  } catch (const Error& failed) {
    return HttpErrorAnswer(500, failed.text(), failed.hint());
  } catch (const std::exception& failed) {
    return HttpErrorAnswer(500, failed.what());
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

std::optional<CallFailure> Service::Submit(std::shared_ptr<QueuedRequest> job) {
  const std::shared_ptr<ServedModel> model = job->model;
  const Submission submission = queue_.Submit(std::move(job));
  if (submission.is_taken) return std::nullopt;
  model->counts().Update([](CountedModel& counted) { ++counted.rejected; });
  return CallFailure{is_draining_ ? CallStatus::kUnavailable : CallStatus::kFull,
                     is_draining_ ? "the server is closing" : "too many requests wait",
                     StrCat("those before it take about ", std::lround(submission.wait_ms), " ms"),
                     submission.wait_ms * 1e-3};
}

void Service::Infer(HttpRequest& request, const std::shared_ptr<ServedModel>& model, const HttpRespond& respond) {
  CheckTakesTensors(*model);
  const std::optional<int64_t> json_bytes = WholeHeader(request, kHeaderLength);
  InferRequest infer = json_bytes == 0 ? RawRequest(request, *model) : ReadInferRequest(request.body, json_bytes);
  request.body = {};
  const auto refused =
      Submit(InferJobOf(model, std::move(infer), request.is_gone, [respond](CallResult<InferAnswer> result) {
        if (const auto* failure = std::get_if<CallFailure>(&result)) return respond(AnswerOf(*failure));
        respond(WrittenAnswer(std::get<InferAnswer>(result)));
      }));
  if (refused) respond(AnswerOf(*refused));
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
    respond(end == RequestEnd::kDone ? std::move(asked->answer) : AnswerOf(FailureOf(end, error)));
  };
  if (const auto refused = Submit(std::move(job))) respond(AnswerOf(*refused));
}

}  // namespace moka
