// moka export: a trained net as a file that other programs run.
#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/text.h"
#include "optim/checkpoint/net_weights.h"
#include "optim/checkpoint/weights_file.h"
#include "proto/nets/caffe_net.h"
#include "proto/nets/net_file.h"
#include "proto/weights/safetensors.h"
#include "tools/cli/command_line.h"
#include "tools/cli/print.h"
#include "tools/cli/version.h"
#include "tools/exchange/onnx_export.h"
#include "tools/exchange/torch_import.h"
#include "tools/exchange/torch_weights.h"
#include "tools/infer/source.h"
#include "tools/nets/checkpoint_source.h"
#include "tools/nets/models_folder.h"
#include "tools/nets/net_source.h"
#include "tools/verbs/exported_model.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

// The file's name without its ending where --out does not say it: the run's, the model's folder's or the net's file's.
std::string DefaultName(const Arguments& arguments, const InferSource& source) {
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
  return name;
}

std::map<std::string, std::string> MetadataOf(const InferSource& source, const NetParameter& net,
                                              const nlohmann::json& preprocessing) {
  std::map<std::string, std::string> metadata = {{"net", net.name()},
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
  if (!preprocessing.is_null()) metadata["preprocessing"] = text_of(preprocessing);
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
  int64_t integers = 0;  // convolutions on 8-bit integers
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
    if (report.integers > 0) json["int8_convolutions"] = report.integers;
    return PrintJson(json);
  }
  std::vector<std::string> files;
  for (const fs::path& file : report.written) files.push_back(file.string());
  const std::string integers =
      report.integers > 0 ? StrCat(", ", report.integers, " convolutions on 8-bit integers") : std::string();
  Print("{} {} (opset {}, {} nodes, {} parameters{}): {} -> {}\n", files.empty() ? "would write" : "wrote",
        files.empty() ? report.file.string() : Join(files, " and "), report.opset, report.nodes, report.parameters,
        integers, Join(report.inputs, ", "), Join(report.outputs, ", "));
}

int ToOnnx(const Arguments& arguments, const InferSource& source, const fs::path& file) {
  OnnxOptions options;
  options.opset = arguments.Int("opset", kUsualOpset, kFirstOpset, kLastOpset);
  if (arguments.Has("int8") && options.opset < kFirstInt8Opset) {
    throw Error(ErrorKind::kUsage, {},
                StrCat("--int8 wants --opset ", kFirstInt8Opset, " or later, not ", options.opset),
                "weights have a scale a channel, which earlier ones do not know");
  }
  options.producer_version = Version();
  const int64_t batch = arguments.Int("batch", 0, 1, 1 << 20);
  const bool prepares = arguments.Has("with-preprocess");
  const bool is_apart = arguments.Has("external");
  const bool is_dry = arguments.Has("dry-run");
  const bool as_json = arguments.Has("json");
  Report report{.file = file, .opset = options.opset};
  arguments.RefuseUnread();

  const std::unique_ptr<ExportedModel> model = ModelForExport(source, batch);
  if (prepares && !model->preparation) {
    throw Error(ErrorKind::kUsage, {}, "--with-preprocess is for nets whose input is a picture of 1 or 3 channels",
                "leave it out: the input goes in as it is");
  }
  nlohmann::json preprocessing = model->trained.preprocessing;
  if (prepares) {
    options.preparation = model->preparation;
    preprocessing = PreparedPreprocessingOf(preprocessing);
  }
  options.metadata = MetadataOf(source, model->trained.net->param, preprocessing);
  if (arguments.Has("int8")) options.metadata["int8"] = fs::path(arguments.Get("int8")).filename().string();
  OnnxModel onnx = ExportOnnx(model->Net(), options);
  report.nodes = onnx.proto.graph().node_size();
  report.parameters = model->parameters;
  report.integers = model->integers;
  report.inputs = TextsOf(onnx.proto.graph().input());
  report.outputs = TextsOf(onnx.proto.graph().output());
  if (!is_dry) report.written = WriteOnnxModel(report.file, std::move(onnx), is_apart);
  PrintReport(report, as_json);
  return 0;
}

struct WeightsReport {
  fs::path file;
  size_t tensors = 0;
  int64_t values = 0;
  std::string names = {};  // whose
  std::string deploy = {};
};

int64_t ValuesOf(const std::vector<NamedBlob>& blobs) {
  int64_t values = 0;
  for (const NamedBlob& blob : blobs) values += std::ssize(blob.values);
  return values;
}

void PrintWeights(const WeightsReport& report, bool is_dry, bool as_json) {
  if (as_json) {
    nlohmann::json json = {{"file", report.file.string()},
                           {"tensors", report.tensors},
                           {"values", report.values},
                           {"names", report.names},
                           {"written", !is_dry}};
    if (!report.deploy.empty()) json["deploy"] = report.deploy;
    return PrintJson(json);
  }
  const char* done = is_dry ? "would write" : "wrote";
  Print("{} {}: {} tensors, {} values, by names of {}\n", done, report.file.string(), report.tensors, report.values,
        report.names);
  if (!report.deploy.empty()) Print("{} {}: the net\n", done, report.deploy);
}

// Weights by the net's own names; what a file of weights is follows from its name.
int ToWeights(const Arguments& arguments, const InferSource& source, const fs::path& file) {
  const std::string format = arguments.Get("to");
  const bool is_dry = arguments.Has("dry-run");
  const bool as_json = arguments.Has("json");
  WeightsReport report{.file = file};
  if (format == "caffe") report.deploy = arguments.Get("deploy");
  arguments.RefuseUnread();
  const std::unique_ptr<ExportedWeights> weights = WeightsForExport(source);
  const std::vector<NamedBlob> blobs = WeightsOf(weights->net->blobs, weights->store);
  report.tensors = blobs.size();
  report.values = ValuesOf(blobs);
  report.names = weights->net->param.name();
  std::map<std::string, std::string> metadata = MetadataOf(source, weights->net->param, weights->preprocessing);
  AddNetToMetadata(weights->net->param, metadata);
  if (!is_dry) WriteWeightsFile(file, weights->net->param, blobs, metadata);
  if (!is_dry && !report.deploy.empty()) WriteFileAtomically(report.deploy, NetToText(CaffeNet(weights->net->param)));
  PrintWeights(report, is_dry, as_json);
  return 0;
}

// Safetensors by the names of a module of PyTorch.
int ToTorchNames(const Arguments& arguments, const InferSource& source, const fs::path& file) {
  const bool is_dry = arguments.Has("dry-run");
  const bool as_json = arguments.Has("json");
  const fs::path net =
      arguments.Has("net") ? FindConfig(PathOfWord(arguments.Get("net")).string(), "train_val.prototxt") : source.net;
  arguments.RefuseUnread();
  const TorchNames names = TorchNamesFor(net, source.card.name());
  RefuseOtherNet(names);
  const std::unique_ptr<ExportedWeights> weights = WeightsForExport(source);
  const ToTorch torch = BlobsToTorch(names, WeightsOf(weights->net->blobs, weights->store), weights->net->blobs);
  std::map<std::string, std::string> metadata =
      MetadataOf(source, weights->net->param, TorchPreprocessingOf(weights->preprocessing));
  metadata["format"] = "pt";
  metadata["module"] = names.module;
  if (!is_dry) WriteSafetensors(file, torch.tensors, torch.blobs, metadata);
  PrintWeights({.file = file, .tensors = torch.blobs.size(), .values = ValuesOf(torch.blobs), .names = names.module},
               is_dry, as_json);
  return 0;
}

// A format: what the files are, and who writes them.
struct ExportFormat {
  std::string_view name;
  std::string_view ending;
  std::string_view is;
  int (*write)(const Arguments&, const InferSource&, const fs::path& file);
};

constexpr std::array kFormats = {
    ExportFormat{"onnx", ".onnx", "a net with its weights (the default)", ToOnnx},
    ExportFormat{"safetensors", ".safetensors", "weights by LAYER/INDEX", ToWeights},
    ExportFormat{"caffe", ".caffemodel", "weights for BVLC Caffe", ToWeights},
    ExportFormat{"npz", ".npz", "arrays of NumPy by LAYER/INDEX", ToWeights},
    ExportFormat{"torch-names", ".torch.safetensors", "weights by PyTorch's names", ToTorchNames},
};

// Errors: kUsage for a format that is not written.
const ExportFormat& FormatOf(const std::string& name) {
  std::vector<std::string> names;
  for (const ExportFormat& format : kFormats) {
    if (format.name == name) return format;
    names.emplace_back(format.name);
  }
  throw Error(ErrorKind::kUsage, {}, StrCat("--to ", Printable(name), ": the formats are ", Join(names, ", ")),
              DidYouMean(name, names));
}

bool IsCalledAsWeights(std::string_view name) {
  constexpr std::array<std::string_view, 4> kOfWeights = {".safetensors", ".caffemodel", ".h5", ".npz"};
  return std::ranges::any_of(kOfWeights, [&](std::string_view ending) { return name.ends_with(ending); });
}

// Weights have an ending of their own; a net may be called otherwise, but not as weights are.
bool MayBeCalled(const ExportFormat& format, std::string_view name) {
  const auto ends = [&](std::string_view ending) { return name.ends_with(ending); };
  if (format.write == ToOnnx) return !IsCalledAsWeights(name);
  if (format.write == ToTorchNames) return ends(".safetensors");
  return ends(format.ending) || (format.name == "caffe" && ends(".h5"));
}

// --out of another format's ending would be read as that by whoever is given the file.
void CheckEnding(const ExportFormat& format, const fs::path& file) {
  if (MayBeCalled(format, file.filename().string())) return;
  throw Error(ErrorKind::kUsage, {},
              StrCat("--to ", format.name, " writes a ", format.ending, ", and --out says ", Printable(file.string())));
}

// The net's text beside the weights, and not over them.
void CheckDeploy(const fs::path& file) {
  if (IsCalledAsWeights(file.string()))
    throw Error(ErrorKind::kUsage, StrCat("--deploy writes a .prototxt, and says ", Printable(file.string())));
  CheckPlaceOfFile(file);
}

// Before anything is read that takes long.
void CheckOut(const ExportFormat& format, const fs::path& file) {
  CheckEnding(format, file);
  format.write == ToWeights ? CheckWeightsFile(file) : CheckPlaceOfFile(file);
}

// Files of weights alone have no place for how pictures go in and for names of classes.
void RefuseUnwritten(const ExportFormat& format, const Arguments& arguments) {
  if (format.name != "npz" && format.name != "caffe") return;
  for (const char* flag : {"labels", "mean", "scale", "resize", "resize-short"}) {
    if (!arguments.Has(flag)) continue;
    throw Error(ErrorKind::kUsage, {}, StrCat("--", flag, " has no place in a ", format.ending),
                "--to onnx and --to safetensors write it into the file");
  }
}

int RunExport(const Arguments& arguments) {
  const ExportFormat& format = FormatOf(arguments.Get("to", "onnx"));
  if (!arguments.Has("model") && arguments.positionals.empty()) {
    throw Error(ErrorKind::kUsage, {}, "missing argument: a run, a model folder or a deploy prototxt",
                "see moka export --help");
  }
  if (arguments.Has("int8") && format.write != ToOnnx) {
    throw Error(ErrorKind::kUsage, {},
                StrCat("--int8 is for --to onnx: --to ", format.name, " writes weights as they are"),
                "leave it out: the ranges of moka quantise are a file of their own");
  }
  if (arguments.Has("out")) CheckOut(format, arguments.Get("out"));
  if (format.name == "caffe" && arguments.Has("deploy")) CheckDeploy(arguments.Get("deploy"));
  RefuseUnwritten(format, arguments);
  const InferSource source = InferSourceOf(arguments);
  if (!source.inputs.empty())
    throw Error(ErrorKind::kUsage, {}, StrCat("nothing reads ", Printable(source.inputs[0])),
                "weights are given by --weights, the file to write by --out");
  arguments.WillRead({"labels"});  // they are in every other file that has some
  const fs::path file = arguments.Get("out", StrCat(DefaultName(arguments, source), format.ending));
  CheckOut(format, file);
  return format.write(arguments, source, file);
}

std::string FormatsText() {
  std::vector<std::string> texts;
  for (const ExportFormat& format : kFormats) texts.push_back(StrCat(format.name, ": ", format.is));
  return Join(texts, "; ");
}

}  // namespace

Verb ExportVerb() {
  Verb verb;
  verb.name = "export";
  verb.summary = "a trained net, or its weights, as a file for other programs";
  verb.usage = "RUN|MODEL|DEPLOY.prototxt --to FORMAT [--flags]";
  verb.examples = {"moka export runs/latest --to onnx",
                   "moka export models/lenet --weights lenet.caffemodel --to onnx --out lenet.onnx",
                   "moka export lenet-0001@best --to onnx --opset 17 --with-preprocess",
                   "moka export lenet-0001 --to onnx --int8 runs/lenet-0001/config/net.int8.json",
                   "moka export resnet18-0001 --to torch-names"};
  verb.options = {
      {"to", "FORMAT", FormatsText()},
      {"out", "FILE", "where it goes (default: NAME.onnx here, or another ending)"},
      {"net", "MODEL", "the model of the zoo whose names.torch.tsv counts", '\0', "--to torch-names"},
      {"deploy", "FILE", "the net as a prototxt too", '\0', "--to caffe"},
      {"opset", "N", "version of ONNX's ops, 11 to 22 (default 13)", '\0', "--to onnx"},
      {"weights", "FILES", ".safetensors, .caffemodel or .npz (default: a run's best, or the model's own)"},
      {"model", "FILE", "deploy or training prototxt; a run beside it gives its weights"},
      {"runs", "FOLDER", "where runs lie (default runs)"},
      {"batch", "N", "for this number of images alone (default: any number)", '\0', "--to onnx"},
      {"with-preprocess", "", "the file takes pixels of 0 to 255, R,G,B or grey, and does the rest", '\0', "--to onnx"},
      {"int8", "FILE", "convolutions on 8-bit integers by the ranges of moka quantise", '\0', "--to onnx"},
      {"external", "", "weights go into FILE.data (they do above 2 GB in any case)", '\0', "--to onnx"},
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
