// moka export: a trained net as a file that other programs run.
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/text.h"
#include "tools/cli/command_line.h"
#include "tools/cli/print.h"
#include "tools/cli/version.h"
#include "tools/exchange/onnx_export.h"
#include "tools/infer/source.h"
#include "tools/nets/checkpoint_source.h"
#include "tools/verbs/exported_model.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

// Errors: kUsage for a format that is not written, with where its weights come from instead.
void CheckFormat(const std::string& format) {
  if (format == "onnx") return;
  const bool is_of_weights = format == "safetensors" || format == "caffe" || format == "npz" || format == "torch-names";
  throw Error(ErrorKind::kUsage, {}, StrCat("--to ", Printable(format), ": there is one format, onnx"),
              is_of_weights ? "moka model convert RUN FILE writes weights alone, as .safetensors, .caffemodel or .h5"
                            : DidYouMean(format, {"onnx"}));
}

// NAME.onnx, where NAME is the run's, the model's folder's or the net's file's.
fs::path DefaultFile(const Arguments& arguments, const InferSource& source) {
  const std::string word = arguments.Has("model") ? arguments.Get("model") : arguments.positionals.at(0);
  const std::optional<NamedRun> run = FindNamedRun(word, arguments.Get("runs", "runs"));
  std::error_code code;
  std::string name = source.net.stem().string();
  if (run) {
    name = fs::canonical(run->folder, code).filename().string();
  } else if (fs::is_directory(word, code)) {
    name = fs::canonical(word, code).filename().string();
  } else if (source.net.extension() == ".prototxt" && source.card.has_name() && !fs::is_regular_file(word, code)) {
    name = source.card.name();
  }
  return name + ".onnx";
}

std::map<std::string, std::string> MetadataOf(const InferSource& source, const ExportedModel& model) {
  std::map<std::string, std::string> metadata = {{"net", model.net->param.name()},
                                                 {"weights", fs::path(source.weights).filename().string()}};
  const ModelCard& card = source.card;
  if (card.has_title()) metadata["title"] = card.title();
  if (card.has_task()) metadata["task"] = ModelCard::Task_Name(card.task());
  if (card.has_paper()) metadata["paper"] = card.paper();
  if (card.has_licence()) metadata["licence"] = card.licence();
  const auto text_of = [](const nlohmann::json& json) {
    return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  if (!source.names.empty()) metadata["labels"] = text_of(source.names);
  if (!model.preprocessing.is_null()) metadata["preprocessing"] = text_of(model.preprocessing);
  return metadata;
}

// "data [N,3,32,32]".
std::string TextOf(const onnx::ValueInfoProto& value) {
  std::vector<std::string> dims;
  for (const onnx::TensorShapeProto::Dimension& dim : value.type().tensor_type().shape().dim())
    dims.push_back(dim.has_dim_param() ? dim.dim_param() : std::to_string(dim.dim_value()));
  return StrCat(value.name(), " [", Join(dims, ","), "]");
}

std::vector<std::string> TextsOf(const google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>& values) {
  std::vector<std::string> texts;
  for (const onnx::ValueInfoProto& value : values) texts.push_back(TextOf(value));
  return texts;
}

struct Report {
  fs::path file;
  int64_t opset = 0;
  int64_t nodes = 0;
  int64_t parameters = 0;
  std::vector<std::string> inputs = {};
  std::vector<std::string> outputs = {};
  std::vector<fs::path> written = {};  // empty: nothing was
};

void PrintReport(const Report& report, bool as_json) {
  if (as_json) {
    nlohmann::json json = {{"file", report.file.string()},    {"opset", report.opset},   {"nodes", report.nodes},
                           {"parameters", report.parameters}, {"inputs", report.inputs}, {"outputs", report.outputs}};
    json["written"] = nlohmann::json::array();
    for (const fs::path& file : report.written) json["written"].push_back(file.string());
    return PrintJson(json);
  }
  std::vector<std::string> files;
  for (const fs::path& file : report.written) files.push_back(file.string());
  Print("{} {} (opset {}, {} nodes, {} parameters): {} -> {}\n", files.empty() ? "would write" : "wrote",
        files.empty() ? report.file.string() : Join(files, " and "), report.opset, report.nodes, report.parameters,
        Join(report.inputs, ", "), Join(report.outputs, ", "));
}

int RunExport(const Arguments& arguments) {
  CheckFormat(arguments.Get("to", "onnx"));
  if (!arguments.Has("model") && arguments.positionals.empty()) {
    throw Error(ErrorKind::kUsage, {}, "missing argument: a run, a model folder or a deploy prototxt",
                "see moka export --help");
  }
  const InferSource source = InferSourceOf(arguments);
  arguments.WillRead({"labels"});  // they are in every file that has some
  OnnxOptions options;
  options.opset = arguments.Int("opset", kUsualOpset, kFirstOpset, kLastOpset);
  options.producer_version = Version();
  const int64_t batch = arguments.Int("batch", 0, 1, 1 << 20);
  const bool prepares = arguments.Has("with-preprocess");
  const bool is_apart = arguments.Has("external");
  const bool is_dry = arguments.Has("dry-run");
  const bool as_json = arguments.Has("json");
  Report report{.file = arguments.Get("out", DefaultFile(arguments, source).string()), .opset = options.opset};
  arguments.RefuseUnread();

  const std::unique_ptr<ExportedModel> model = ModelForExport(source, batch);
  options.metadata = MetadataOf(source, *model);
  if (prepares && !model->preparation) {
    throw Error(ErrorKind::kUsage, {}, "--with-preprocess is for nets whose input is a picture of 1 or 3 channels",
                "leave it out: the input goes in as it is");
  }
  if (prepares) options.preparation = model->preparation;
  OnnxModel onnx = ExportOnnx(model->Net(), options);
  report.nodes = onnx.proto.graph().node_size();
  report.parameters = model->parameters;
  report.inputs = TextsOf(onnx.proto.graph().input());
  report.outputs = TextsOf(onnx.proto.graph().output());
  if (!is_dry) report.written = WriteOnnxModel(report.file, std::move(onnx), is_apart);
  PrintReport(report, as_json);
  return 0;
}

}  // namespace

Verb ExportVerb() {
  Verb verb;
  verb.name = "export";
  verb.summary = "a trained net as an ONNX file, which other programs run";
  verb.usage = "RUN|MODEL|DEPLOY.prototxt --to onnx [--flags]";
  verb.examples = {"moka export runs/latest --to onnx",
                   "moka export models/lenet --weights lenet.caffemodel --to onnx --out lenet.onnx",
                   "moka export lenet-0001@best --to onnx --opset 17 --with-preprocess"};
  verb.options = {{"to", "FORMAT", "onnx (the default)"},
                  {"out", "FILE", "where it goes (default: NAME.onnx here)"},
                  {"opset", "N", "version of ONNX's ops, 11 to 22 (default 13)"},
                  {"weights", "FILES", ".safetensors or .caffemodel (default: a run's best, or the model's own)"},
                  {"model", "FILE", "deploy or training prototxt; a run beside it gives its weights"},
                  {"runs", "FOLDER", "where runs lie (default runs)"},
                  {"batch", "N", "for this number of images alone (default: any number)"},
                  {"with-preprocess", "", "the file takes pixels of 0 to 255, R,G,B or grey, and does the rest"},
                  {"external", "", "weights go into FILE.data (they do above 2 GB in any case)"},
                  {"labels", "FILE", "class names for the file, one a line (default: labels.txt beside the net)"},
                  {"mean", "VALUES",
                   "how pictures go in, over net and card: B,G,R or a file; --scale X, --resize HxW, --resize-short N"},
                  {"scale", "X", ""},
                  {"resize", "HxW", ""},
                  {"resize-short", "N", ""},
                  {"dry-run", "", "say what would be written, or why it cannot be"},
                  {"json", "", "print as JSON"}};
  verb.computes = false;
  verb.run = RunExport;
  verb.takes_fields = TakenFields::kOfNet;
  verb.most_words = 2;
  return verb;
}

}  // namespace moka
