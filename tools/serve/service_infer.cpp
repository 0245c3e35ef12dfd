// Requests for inference as HTTP has them: read and written by the connection's thread, run by the queue (net_queue.h).
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
    http.facts = {.model = answer.model, .version = answer.version, .times = answer.times};
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

// The drawing where there is one.
HttpAnswer PrintedAnswer(const TaskAnswer& answer) {
  if (answer.drawn) return {.body = EncodePng(*answer.drawn), .type = "image/png"};
  return {.body =
              PrintableJson(answer.json.dump(answer.indent, ' ', false, PictureJson::error_handler_t::replace)) + "\n"};
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
  const std::chrono::microseconds most_wait = job->most_wait;
  const Submission submission = queue_.Submit(std::move(job));
  if (submission.is_taken) return std::nullopt;
  model->counts().Update([](CountedModel& counted) { ++counted.rejected; });
  if (submission.is_late && !submission.is_closing) {
    return CallFailure{CallStatus::kLate, "the request would wait longer than its timeout",
                       fmt::format("those before it take about {:.3g} ms, and it may wait {:.3g}", submission.wait_ms,
                                   1e-3 * static_cast<double>(most_wait.count()))};
  }
  return NotTaken(submission);
}

std::optional<CallFailure> Service::Outlook(ServedModel& model, int64_t priority) {
  const Submission submission = queue_.Look(model, priority, workers_.WaitMs());
  if (submission.is_taken) return std::nullopt;
  model.counts().Update([](CountedModel& counted) { ++counted.rejected; });
  return NotTaken(submission);
}

CallFailure Service::NotTaken(const Submission& submission) {
  return CallFailure{submission.is_closing ? CallStatus::kUnavailable : CallStatus::kFull,
                     submission.is_closing ? "the server is closing" : "too many requests wait",
                     StrCat("those before it take about ", std::lround(submission.wait_ms), " ms"),
                     submission.wait_ms * 1e-3};
}

namespace {

constexpr int64_t kLargeBytes = 1 << 20;  // of tensors, beyond which a connection's thread would be held up

}  // namespace

void Service::Infer(HttpRequest& request, const std::shared_ptr<ServedModel>& model, const HttpRespond& respond) {
  CheckTakesTensors(*model);
  if (std::ssize(request.body) < kLargeBytes) return ReadAndInfer(request, model, respond);
  if (const auto refused = Outlook(*model, 0)) return respond(AnswerOf(*refused));
  workers_.Do([this, sent = std::make_shared<HttpRequest>(std::move(request)), model, respond] {
    try {
      ReadAndInfer(*sent, model, respond);
    } catch (const Error& error) {
      respond(AnswerOf(error));
    } catch (const std::exception& error) {
      respond(HttpErrorAnswer(500, error.what()));
    }
  });
}

void Service::ReadAndInfer(HttpRequest& request, const std::shared_ptr<ServedModel>& model,
                           const HttpRespond& respond) {
  const std::optional<int64_t> json_bytes = WholeHeader(request, kHeaderLength);
  InferRequest infer = json_bytes == 0 ? RawRequest(request, *model) : ReadInferRequest(request.body, json_bytes);
  request.body = {};
  StartInfer(model, std::move(infer), request.is_gone, [respond](CallResult<InferAnswer> result) {
    if (const auto* failure = std::get_if<CallFailure>(&result)) return respond(AnswerOf(*failure));
    respond.Later([answer = std::make_shared<InferAnswer>(std::move(std::get<InferAnswer>(result)))] {
      return WrittenAnswer(*answer);
    });
  });
}

void Service::StartInfer(const std::shared_ptr<ServedModel>& model, InferRequest request,
                         std::shared_ptr<const std::atomic<bool>> is_gone, InferRespond respond) {
  const bool has_pictures = !request.inputs.empty() && request.inputs[0].datatype == "BYTES";
  const bool takes_long = has_pictures || SharedBytesOf(request) >= kLargeBytes;
  if (takes_long) {
    if (auto refused = Outlook(*model, request.priority)) return respond(std::move(*refused));
  }
  const auto start = [this, has_pictures, model, sent = std::make_shared<InferRequest>(std::move(request)),
                      is_gone = std::move(is_gone), respond = std::move(respond)] {
    std::optional<CallFailure> refused;
    try {
      InferRespond respond_then = respond;
      if (UsesRegions(*sent)) {
        if (regions_ == nullptr) return respond(NoRegions(CallStatus::kWrong));
        respond_then = regions_->Fill(*sent, respond);
      }
      refused = Submit(InferJobOf(model, std::move(*sent), is_gone, std::move(respond_then)));
    } catch (const Error& error) {
      refused = FailureOf(error);
      // A broken picture is no wrong call, and shows in the statistics.
      if (has_pictures) model->counts().Update([](CountedModel& counted) { counted.fail.Add(0); });
    } catch (const std::exception& error) {
      refused = CallFailure{CallStatus::kFailed, error.what()};
    }
    if (refused) respond(std::move(*refused));
  };
  if (!takes_long) return start();
  workers_.Do(start);
}

namespace {

// A picture or a text on its way from a request to its answer.
struct Predicted {
  std::shared_ptr<ServedModel> model;
  SentFile file;
  bool draws = false;
  PreparedPicture prepared = {};
  NetOutputs outputs = {};
  TaskAnswer answer = {};  // of a text
  std::optional<HttpAnswer> refusal = {};
  ServedFacts facts = {};

  AskedContent Asked() const { return {file.name, file.bytes, draws}; }
};

// Why what was sent is not for this model; nothing: it may be.
std::optional<HttpAnswer> RefusalOf(const Predicted& predicted) {
  const TaskAnswers& answers = *predicted.model->answers();
  const std::string& bytes = predicted.file.bytes;
  if (predicted.draws && !answers.draws()) {
    return HttpErrorAnswer(406, StrCat("model \"", predicted.model->name(), "\" draws nothing"),
                           "Accept: application/json");
  }
  constexpr int64_t kMostTextBytes = 64 << 10;
  if (answers.kind() == AskedKind::kText && std::ssize(bytes) > kMostTextBytes)
    return HttpErrorAnswer(413, StrCat("a text has at most ", kMostTextBytes, " bytes"));
  const Content content = RecognizeContent(std::string_view(bytes).substr(0, 4096));
  if (answers.kind() == AskedKind::kPicture && content != Content::kImage) {
    const std::string found = bytes.empty() ? "the body is empty" : StrCat("its first bytes are ", FirstBytes(bytes));
    return HttpErrorAnswer(415, StrCat("the body is no picture (", Describe(content), "); ", found));
  }
  if (answers.kind() == AskedKind::kText && content == Content::kImage) {
    return HttpErrorAnswer(415,
                           StrCat("model \"", predicted.model->name(), "\" reads texts, and the body is a picture"));
  }
  return std::nullopt;
}

// Made by a thread of the connections, while the net runs others.
HttpAnswer AnswerOf(const Predicted& predicted) {
  HttpAnswer answer;
  PictureAnswers* const pictures = predicted.model->answers()->of_pictures();
  if (predicted.refusal) {
    answer = *predicted.refusal;
  } else if (pictures != nullptr) {
    answer = PrintedAnswer(pictures->AnswerOf(predicted.Asked(), predicted.prepared, predicted.outputs));
  } else {
    answer = PrintedAnswer(predicted.answer);
  }
  answer.facts = predicted.facts;
  return answer;
}

// The job that runs the net over what is prepared.
std::shared_ptr<QueuedRequest> JobOf(const std::shared_ptr<Predicted>& predicted, const HttpRespond& respond) {
  auto job = std::make_shared<QueuedRequest>();
  const ServedModel& model = *predicted->model;
  job->model = predicted->model;
  job->most_wait = model.settings().QueueOf(0).timeout;
  const DurationCount before = model.counts().Now().infer;
  const double rung_ms = model.rungs().empty() ? 1 : model.rungs()[0].ms;
  job->work_ms = before.count == 0
                     ? rung_ms
                     : std::max(rung_ms, 1e-6 * static_cast<double>(before.ns) / static_cast<double>(before.count));
  job->work = [raw = job.get(), predicted] {
    try {
      TaskAnswers& answers = *predicted->model->answers();
      if (answers.of_pictures() != nullptr) {
        predicted->outputs = answers.of_pictures()->Run(predicted->prepared);
      } else {
        predicted->answer = answers.Answer(predicted->Asked());
      }
    } catch (const Error& error) {
      predicted->refusal = AnswerOf(error);
      raw->is_refused = true;
    }
  };
  job->ended = [respond, predicted](const QueuedRequest& ended, RequestEnd end, const std::string& error) {
    predicted->facts = {.model = ended.model->name(), .version = ended.model->version(), .times = ended.Times()};
    if (end != RequestEnd::kDone) predicted->refusal = AnswerOf(FailureOf(end, error));
    respond.Later([predicted] { return AnswerOf(*predicted); });
  };
  return job;
}

// Decodes the picture; one that is broken counts as a failure of its model. Returns why it is refused, or nothing.
std::optional<HttpAnswer> Prepare(Predicted& predicted) {
  const auto begin = ServeClock::now();
  std::optional<HttpAnswer> refusal;
  try {
    PicturePreparer& preparer = predicted.model->answers()->net()->preparer();
    predicted.prepared = preparer.Prepare(predicted.file.bytes, predicted.file.name);
  } catch (const Error& error) {
    refusal = AnswerOf(error);
  }
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(ServeClock::now() - begin).count();
  predicted.model->counts().Update([&](CountedModel& counted) { (refusal ? counted.fail : counted.input).Add(ns); });
  return refusal;
}

}  // namespace

void Service::Predict(HttpRequest& request, const std::shared_ptr<ServedModel>& model, const std::string& name,
                      const HttpRespond& respond) {
  TaskAnswers* answers = model->answers();
  if (answers == nullptr) {
    Refuse(StrCat("model \"", model->name(), "\" is asked by tensors: its task takes no picture and no text"),
           StrCat("POST /v2/models/", model->name(), "/infer takes them"));
  }
  const auto predicted = std::make_shared<Predicted>();
  predicted->model = model;
  predicted->file = SentFileOf(request, name);
  const std::string_view accept = request.Header("accept");
  const AcceptedMedia png = AcceptedOf(accept, "image/png");
  const double json = accept.empty() ? 1 : AcceptedOf(accept, "application/json").quality;
  const bool wants_drawing = png.is_named && png.quality > 0 && png.quality >= json;
  predicted->draws = wants_drawing && (answers->draws() || json <= 0);
  std::optional<HttpAnswer> refusal = RefusalOf(*predicted);
  if (refusal) return respond(std::move(*refusal));
  const std::shared_ptr<QueuedRequest> job = JobOf(predicted, respond);
  job->is_gone = request.is_gone;
  const auto submit = [this, job, respond] {
    if (const auto refused = Submit(job)) respond(AnswerOf(*refused));
  };
  if (answers->of_pictures() == nullptr) return submit();
  if (const auto refused = Outlook(*model, 0)) return respond(AnswerOf(*refused));
  workers_.Do([predicted, submit, respond] {
    try {
      std::optional<HttpAnswer> broken = Prepare(*predicted);
      if (broken) return respond(std::move(*broken));
      submit();
    } catch (const std::exception& error) {  // memory is short
      respond(HttpErrorAnswer(500, error.what()));
    }
  });
}

}  // namespace moka
