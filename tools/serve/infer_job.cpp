// Inputs are checked by the thread that read them; the one that ran them gives the outputs back.
#include "tools/serve/infer_job.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <utility>

#include "core/printable.h"
#include "core/text.h"
#include "tools/infer/picture_net.h"
#include "tools/infer/task_answers.h"
#include "tools/serve/wire_check.h"

namespace moka {
namespace {

[[noreturn]] void RefuseCall(const std::string& text, const std::string& hint = {}) {
  throw Error(ErrorKind::kBadData, {}, text, hint);
}

std::string ShapeText(const std::vector<int64_t>& row, const std::string& rows) {
  std::string text = StrCat("[", rows);
  for (const int64_t side : row) text += StrCat(",", side);
  return text + "]";
}

// The rows of a request, the same for all inputs. Errors: kBadData.
int64_t CheckInputs(const InferRequest& request, const ServedModel& model) {
  std::vector<std::string> names;
  for (const ServedTensor& input : model.inputs()) names.push_back(input.name);
  int64_t rows = 0;
  for (const WireTensor& tensor : request.inputs) {
    const auto input = std::ranges::find(model.inputs(), tensor.name, &ServedTensor::name);
    if (input == model.inputs().end()) {
      RefuseCall(StrCat("model \"", model.name(), "\" has no input \"", Printable(tensor.name), "\""),
                 StrCat("it has ", Join(names, ", ")));
    }
    std::vector<int64_t> row(tensor.shape.begin() + (tensor.shape.empty() ? 0 : 1), tensor.shape.end());
    if (tensor.datatype == "BYTES") {
      const bool takes_pictures = model.answers() != nullptr && model.answers()->kind() == AskedKind::kPicture;
      if (!takes_pictures || model.inputs().size() != 1)
        RefuseCall(StrCat("input \"", tensor.name, "\" takes FP32; BYTES are pictures, of models that look at them"));
      if (tensor.shape.size() != 1) RefuseCall(StrCat("input \"", tensor.name, "\": pictures are of the shape [N]"));
    } else if (tensor.datatype != "FP32") {
      RefuseCall(StrCat("input \"", tensor.name, "\" takes FP32, and the request has ", tensor.datatype));
    } else if (tensor.shape.empty() || row != input->row) {
      const std::string given = tensor.shape.empty() ? "[]" : ShapeText(row, StrCat(tensor.shape[0]));
      RefuseCall(StrCat("input \"", tensor.name, "\" has the shape ", given),
                 StrCat("expected ", ShapeText(input->row, "-1"), ", -1 any number of rows"));
    }
    const int64_t of_tensor = tensor.shape[0];
    if (rows != 0 && rows != of_tensor)
      RefuseCall(StrCat("inputs of ", rows, " and of ", of_tensor, " rows do not belong together"));
    rows = of_tensor;
  }
  if (request.inputs.size() == model.inputs().size()) return rows;
  for (const std::string& name : names) {
    if (std::ranges::find(request.inputs, name, &WireTensor::name) == request.inputs.end())
      RefuseCall(StrCat("the request lacks input \"", name, "\""));
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
    RefuseCall(
        StrCat("the answer to ", rows, " rows would be of ", numbers, " numbers, and ", kMostNumbers, " is the most"));
  std::vector<std::string> seen;
  for (const WantedOutput& wanted : request.outputs) {
    if (std::ranges::find(seen, wanted.name) != seen.end())
      RefuseCall(StrCat("output \"", Printable(wanted.name.substr(0, 200)), "\" is asked for twice"));
    seen.push_back(wanted.name);
    if (wanted.shared && wanted.is_binary.value_or(false))
      RefuseCall(StrCat("output \"", Printable(wanted.name.substr(0, 200)), "\" is asked for in two places"),
                 "binary_data and shared_memory_region exclude each other");
    const auto output = std::ranges::find(model.outputs(), wanted.name, &ServedTensor::name);
    if (output != model.outputs().end()) {
      const int64_t bytes = rows * output->Count() * static_cast<int64_t>(sizeof(float));
      if (wanted.shared && wanted.classes == 0) CheckOutputFits(wanted.name, bytes, *wanted.shared);
      continue;
    }
    RefuseCall(StrCat("model \"", model.name(), "\" has no output \"", Printable(wanted.name.substr(0, 200)), "\""),
               StrCat("it has ", Join(names, ", ")));
  }
}

// Errors: kBadData for a part of no sequence, and where the model keeps nothing for one.
void CheckSequence(const SequencePart& part, const ServedModel& model) {
  if (part.id.empty() && (part.starts || part.ends))
    RefuseCall("sequence_start and sequence_end are of a sequence", "sequence_id says which");
  if (!part.id.empty() && model.states() == nullptr) {
    RefuseCall(
        StrCat("model \"", model.name(), "\" keeps nothing from one request to the next, so it has no sequences"),
        "leave sequence_id out");
  }
}

// The outputs that were asked for. The job's values go into them.
InferAnswer AnswerOfJob(QueuedRequest& job, const InferRequest& request) {
  const ServedModel& model = *job.model;
  InferAnswer answer{
      .model = model.name(), .version = model.version(), .id = request.id, .outputs = {}, .times = job.Times()};
  std::vector<WantedOutput> wanted = request.outputs;
  if (wanted.empty()) {
    for (const ServedTensor& output : model.outputs()) wanted.push_back({.name = output.name});
  }
  for (const WantedOutput& one : wanted) {
    const auto at = std::ranges::find(model.outputs(), one.name, &ServedTensor::name) - model.outputs().begin();
    const ServedTensor& output = model.outputs()[static_cast<size_t>(at)];
    AnsweredTensor tensor{.name = one.name, .shape = {job.rows * output.rows}};
    tensor.shared = one.shared;
    tensor.is_binary = !one.shared && one.is_binary.value_or(request.are_outputs_binary);
    std::vector<float>& values = job.outputs[static_cast<size_t>(at)];
    if (one.classes > 0) {
      tensor.texts = ClassTexts(values, job.rows, one.classes, model.source().names);
      tensor.is_text = true;
      tensor.shape = {job.rows, std::ssize(tensor.texts) / job.rows};
    } else {
      tensor.shape.insert(tensor.shape.end(), output.row.begin(), output.row.end());
      tensor.values = std::move(values);
    }
    answer.outputs.push_back(std::move(tensor));
  }
  return answer;
}

// Pictures as the model's data layer would have them, each a row. Errors: kBadData.
std::vector<float> RowsOfPictures(const ServedModel& model, const std::vector<std::string>& pictures) {
  PicturePreparer& preparer = model.answers()->net()->preparer();
  std::vector<float> rows;
  rows.reserve(pictures.size() * static_cast<size_t>(model.inputs()[0].Count()));
  for (size_t i = 0; i < pictures.size(); ++i) {
    const std::string name = StrCat("picture ", i);
    try {
      const PreparedPicture prepared = preparer.Prepare(pictures[i], name);
      rows.insert(rows.end(), prepared.values.begin(), prepared.values.end());
    } catch (const Error& error) {
      throw Error(error.kind(), error.place(), StrCat(name, ": ", error.text()), error.hint());
    }
  }
  return rows;
}

}  // namespace

CallFailure FailureOf(RequestEnd end, const std::string& error) {
  switch (end) {
    case RequestEnd::kLate:
      return {CallStatus::kLate, "the request waited longer than its timeout",
              "timeout counts the time in the queue alone"};
    case RequestEnd::kStopped: return {CallStatus::kUnavailable, "the server is closing"};
    case RequestEnd::kGone: return {CallStatus::kGone, "the client left"};
    case RequestEnd::kWrong: return {CallStatus::kWrong, error};
    case RequestEnd::kFull: return {CallStatus::kFull, error, {}, 1};
    default: return {CallStatus::kFailed, error};
  }
}

CallFailure FailureOf(const Error& error) {
  const auto status = [&] {
    switch (error.kind()) {
      case ErrorKind::kBadData:
      case ErrorKind::kUsage:
      case ErrorKind::kConfig: return CallStatus::kWrong;
      case ErrorKind::kNoInput: return CallStatus::kNotFound;
      case ErrorKind::kNotAllowed: return CallStatus::kNotAllowed;
      case ErrorKind::kUnavailable: return CallStatus::kUnavailable;
      default: return CallStatus::kFailed;
    }
  };
  SourcePlace of_error = error.place();
  of_error.file = std::filesystem::path(of_error.file).filename().string();
  const std::string place = of_error.ToString();
  return {status(), StrCat(place, place.empty() ? "" : ": ", error.text()), error.hint()};
}

std::string WithoutFolders(std::string_view text) {
  constexpr std::string_view kBefore = " \"'(=,";
  constexpr std::string_view kBehind = " \"':;,)";
  std::string shown;
  for (size_t at = 0; at < text.size();) {
    const bool is_root = text[at] == '/' && (at == 0 || kBefore.find(text[at - 1]) != std::string_view::npos);
    if (!is_root) {
      shown += text[at++];
      continue;
    }
    const size_t end = std::min(text.find_first_of(kBehind, at), text.size());
    const std::string_view path = text.substr(at, end - at);
    shown += path.substr(path.rfind('/') + 1);
    at = end;
  }
  return shown;
}

void CheckTakesTensors(const ServedModel& model) {
  if (!model.rungs().empty()) return;
  RefuseCall(StrCat("model \"", model.name(), "\" is asked by texts, not by tensors"),
             StrCat("POST /v2/models/", model.name(), "/predict takes one"));
}

std::shared_ptr<QueuedRequest> InferJobOf(const std::shared_ptr<ServedModel>& model, InferRequest request,
                                          std::shared_ptr<const std::atomic<bool>> is_gone, InferRespond respond) {
  const auto infer = std::make_shared<InferRequest>(std::move(request));
  auto job = std::make_shared<QueuedRequest>();
  job->model = model;
  job->rows = CheckInputs(*infer, *model);
  CheckOutputs(*infer, *model, job->rows);
  constexpr int64_t kMostRows = 65536;
  if (job->rows > kMostRows) RefuseCall(StrCat("a request has at most ", kMostRows, " rows, and this has ", job->rows));
  const ModelSettings& settings = model->settings();
  if (infer->priority > settings.priorities)
    RefuseCall(StrCat("parameters.priority is ", infer->priority, ", and the lowest is ", settings.priorities));
  CheckSequence(infer->sequence, *model);
  job->sequence = infer->sequence;
  job->priority = infer->priority;
  job->is_gone = std::move(is_gone);
  const std::chrono::microseconds own(std::min<int64_t>(infer->timeout_us, 86'400'000'000));
  job->most_wait = settings.QueueOf(infer->priority).WaitOf(own);
  job->outputs.resize(model->outputs().size());
  if (infer->inputs[0].datatype == "BYTES") {
    constexpr int64_t kMostPictures = 256;
    if (job->rows > kMostPictures)
      RefuseCall(StrCat("a request has at most ", kMostPictures, " pictures, and this has ", job->rows));
    job->inputs.push_back(RowsOfPictures(*model, infer->inputs[0].texts));
    infer->inputs.clear();
  } else {
    for (const ServedTensor& input : model->inputs()) {
      const auto given = std::ranges::find(infer->inputs, input.name, &WireTensor::name);
      job->inputs.push_back(std::move(given->values));
    }
  }
  job->ended = [respond = std::move(respond), infer](QueuedRequest& ended, RequestEnd end, const std::string& error) {
    if (end != RequestEnd::kDone) return respond(FailureOf(end, error));
    CallResult<InferAnswer> result;
    try {
      result = AnswerOfJob(ended, *infer);
    } catch (const std::exception& failed) {  // memory is short
      result = CallFailure{CallStatus::kFailed, failed.what()};
    }
    respond(std::move(result));
  };
  return job;
}

}  // namespace moka
