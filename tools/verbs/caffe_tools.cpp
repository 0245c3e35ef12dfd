// Caffe's own small programs under their names: convert_imageset, SSD's convert_annoset, compute_image_mean,
// extract_features, draw_net and the upgrades. Their positional arguments and flags are Caffe's; the work is done by
// Moka's verbs' own functions.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/text.h"
#include "data/import/import.h"
#include "data/inspect/inspect.h"
#include "data/records/lmdb_writer.h"
#include "optim/checkpoint/trained_weights.h"
#include "optim/step/test_net.h"
#include "proto/nets/filter.h"
#include "proto/nets/net_file.h"
#include "proto/nets/solver_file.h"
#include "proto/weights/weights.h"
#include "tools/cli/command_line.h"
#include "tools/cli/print.h"
#include "tools/nets/net_drawing.h"

namespace moka {
namespace {

// A gflags boolean: --shuffle, --shuffle=true, --shuffle=False (as SSD's scripts write it).
bool IsOn(const Arguments& arguments, const std::string& name) {
  if (!arguments.Has(name)) return false;
  const std::string value = AsciiLower(arguments.Get(name));
  if (value.empty() || value == "true" || value == "t" || value == "1" || value == "yes" || value == "y") return true;
  if (value == "false" || value == "f" || value == "0" || value == "no" || value == "n") return false;
  throw Error(ErrorKind::kUsage, StrCat("--", name, " is true or false, found \"", Printable(value), "\""));
}

void RequireLmdb(const std::string& backend) {
  if (backend == "lmdb") return;
  throw Error(ErrorKind::kUsage, StrCat("databases are lmdb, found \"", Printable(backend), "\""));
}

ImportOptions ConvertOptions(const Arguments& arguments) {
  ImportOptions options;
  const std::string type = arguments.Get("encode_type");
  options.storage = ImportOptions::Storage::kRaw;
  options.stores_like_caffe = true;
  if (IsOn(arguments, "encoded")) options.storage = ImportOptions::Storage::kSource;
  if (type == "jpg" || type == "jpeg") options.storage = ImportOptions::Storage::kJpeg;
  if (type == "png") options.storage = ImportOptions::Storage::kPng;
  if (!type.empty() && type != "jpg" && type != "jpeg" && type != "png") {
    throw Error(ErrorKind::kUsage, StrCat("--encode_type is jpg or png, found \"", Printable(type), "\""));
  }
  options.height = arguments.Int("resize_height", 0, 0, INT32_MAX);
  options.width = arguments.Int("resize_width", 0, 0, INT32_MAX);
  options.channels = IsOn(arguments, "gray") ? ImageChannels::kGray : ImageChannels::kColor;
  if (IsOn(arguments, "shuffle")) options.shuffle_seed = 1;
  options.on_bad_record = ImportOptions::OnBadRecord::kSkip;  // as Caffe: unreadable images are left out
  return options;
}

// A database that is refused does not stay, so that the same command may be given again.
void CheckOneSize(const ImportReport& report, const std::string& database) {
  if (report.shapes.size() <= 1) return;
  std::error_code code;
  std::filesystem::remove_all(database, code);
  if (code) LogWarning(StrCat(Printable(database), " could not be removed: ", code.message()));
  throw Error(ErrorKind::kBadData,
              StrCat("the records have ", report.shapes.size(), " sizes (", *report.shapes.begin(), ", ",
                     *std::next(report.shapes.begin()), " ...), and --check_size wants one"));
}

int RunConvertImageset(const Arguments& arguments) {
  const std::string& root = arguments.Word(0, "the folder of the images");
  const std::string& list = arguments.Word(1, "the list of \"path label\" lines");
  const std::string& out = arguments.Word(2, "the database to make");
  RequireLmdb(arguments.Get("backend", "lmdb"));
  const ImportReport report = ImportList(list, root, out, ConvertOptions(arguments));
  for (const std::string& skipped : report.skipped) LogWarning(StrCat("skipped ", skipped));
  if (IsOn(arguments, "check_size")) CheckOneSize(report, out);
  Print("Processed {} files.\n", report.records);
  return 0;
}

int RunConvertAnnoset(const Arguments& arguments) {
  const std::string& root = arguments.Word(0, "the folder of the images and annotations");
  const std::string& list = arguments.Word(1, "the list of \"picture annotation\" lines");
  const std::string& out = arguments.Word(2, "the database to make");
  RequireLmdb(arguments.Get("backend", "lmdb"));
  ImportOptions options = ConvertOptions(arguments);
  options.min_dim = arguments.Int("min_dim", 0, 0, INT32_MAX);
  options.max_dim = arguments.Int("max_dim", 0, 0, INT32_MAX);
  const bool has_dims = options.min_dim > 0 || options.max_dim > 0;
  if ((options.height == 0) != (options.width == 0) || (options.height > 0 && has_dims)) {
    throw Error(ErrorKind::kUsage, {},
                StrCat("cannot resize to height ", options.height, " and width ", options.width,
                       has_dims ? " and to --min_dim or --max_dim at once" : ""),
                "give --resize_height and --resize_width, or the dims");
  }
  const std::string type = arguments.Get("anno_type", "classification");
  const bool has_one_size = IsOn(arguments, "check_size");
  ImportReport report;
  if (type == "classification") {
    arguments.RefuseUnread();
    report = ImportAnnotatedClasses(list, root, out, options);
  } else if (type == "detection") {
    AnnotationOptions annotations;
    annotations.format = arguments.Get("label_type", "xml");
    annotations.label_map = arguments.Get("label_map_file");
    annotations.check_label = IsOn(arguments, "check_label");
    arguments.RefuseUnread();
    report = ImportAnnotated(list, root, annotations, out, options);
  } else {
    throw Error(ErrorKind::kUsage,
                StrCat("--anno_type is classification or detection, found \"", Printable(type), "\""));
  }
  for (const std::string& warning : report.warnings) LogWarning(warning);
  for (const std::string& skipped : report.skipped) LogWarning(StrCat("skipped ", skipped));
  if (has_one_size) CheckOneSize(report, out);
  Print("Processed {} files.\n", report.records);
  return 0;
}

int RunImageMean(const Arguments& arguments) {
  const std::string& database = arguments.Word(0, "the database");
  RequireLmdb(arguments.Get("backend", "lmdb"));
  const BlobProto mean = ComputeMean(database);
  if (arguments.positionals.size() > 1) {
    SaveBlob(mean, arguments.positionals[1]);
    Print("Write to {}\n", arguments.positionals[1]);
  }
  const int64_t channels = mean.shape().dim_size() > 1 ? mean.shape().dim(1) : mean.channels();
  const int64_t pixels = channels > 0 ? mean.data_size() / channels : 0;
  Print("Number of channels: {}\n", channels);
  for (int64_t c = 0; c < channels; ++c) {
    double sum = 0;
    for (int64_t i = 0; i < pixels; ++i) sum += static_cast<double>(mean.data(static_cast<int>(c * pixels + i)));
    Print("mean_value channel [{}]: {:g}\n", c, sum / static_cast<double>(pixels));
  }
  return 0;
}

// A blob's rows as records of float_data.
class FeatureWriter {
 public:
  explicit FeatureWriter(const std::string& path) : writer_(path) {}

  void Add(const Tensor& blob) {
    const Shape& shape = blob.type().shape;
    const int64_t rows = shape.rank() == 0 ? 1 : shape[0];
    const auto dim = [&](int axis) { return static_cast<int32_t>(axis < shape.rank() ? shape[axis] : 1); };
    const std::span<const float> values = blob.as<float>();
    const size_t width = values.size() / static_cast<size_t>(rows);
    for (int64_t row = 0; row < rows; ++row) {
      Datum datum;
      datum.set_channels(dim(1));
      datum.set_height(dim(2));
      datum.set_width(dim(3));
      const auto part = values.subspan(static_cast<size_t>(row) * width, width);
      datum.mutable_float_data()->Add(part.begin(), part.end());
      writer_.Put(fmt::format("{:010}", writer_.entries()), datum.SerializeAsString());
    }
  }
  int64_t Finish() {
    const int64_t rows = writer_.entries();
    writer_.Finish();
    return rows;
  }

 private:
  LmdbWriter writer_;
};

int RunExtractFeatures(const Arguments& arguments) {
  const std::string& weights = arguments.Word(0, "the trained weights");
  const std::string& net_file = arguments.Word(1, "the net");
  const std::vector<std::string> names = Split(arguments.Word(2, "the blobs' names"), ',');
  const std::vector<std::string> databases = Split(arguments.Word(3, "the databases' names"), ',');
  const std::string& batches_text = arguments.Word(4, "the number of batches");
  RequireLmdb(arguments.Word(5, "the database's type"));
  if (names.size() != databases.size()) {
    throw Error(ErrorKind::kUsage, StrCat("there are ", names.size(), " blobs and ", databases.size(), " databases"));
  }
  for (const std::vector<std::string>& list : {names, databases}) {
    const std::set<std::string> different(list.begin(), list.end());
    if (different.size() < list.size())
      throw Error(ErrorKind::kUsage, StrCat(Printable(Join(list, ",")), " names one of them twice"));
  }
  constexpr int64_t kMostBatches = int64_t{1} << 40;
  int64_t batches = 0;
  const auto [end, fault] = std::from_chars(batches_text.data(), batches_text.data() + batches_text.size(), batches);
  const bool is_whole = fault == std::errc() && end == batches_text.data() + batches_text.size();
  if (!is_whole || batches < 1 || batches > kMostBatches) {
    throw Error(ErrorKind::kUsage, StrCat("the number of batches is \"", Printable(batches_text), "\""));
  }
  ParameterStore store;
  TestOptions options;
  for (const std::string& name : names) options.watched.push_back({name});
  TestNet net(FilterNet(ReadNet(net_file), TEST), options, store);
  LoadTrainedWeights(weights, net.blobs(), store);
  std::vector<std::unique_ptr<FeatureWriter>> writers;
  for (const std::string& database : databases) writers.push_back(std::make_unique<FeatureWriter>(database));
  net.Run(batches, [&](int64_t) {
    for (size_t i = 0; i < names.size(); ++i) writers[i]->Add(net.watched(names[i]));
    return true;
  });
  for (size_t i = 0; i < names.size(); ++i) {
    Print("Extracted features of {} query images for feature blob {}\n", writers[i]->Finish(), names[i]);
  }
  return 0;
}

int RunDrawNet(const Arguments& arguments) {
  NetParameter net = ReadNet(arguments.Word(0, "the net"));
  const std::string& out = arguments.Word(1, "the picture's file");
  const std::string phase = arguments.Get("phase", "ALL");
  if (phase == "TRAIN" || phase == "TEST") {
    net = FilterNet(net, phase == "TRAIN" ? TRAIN : TEST);
  } else if (phase != "ALL") {
    throw Error(ErrorKind::kUsage, StrCat("--phase is TRAIN, TEST or ALL, found \"", Printable(phase), "\""));
  }
  DrawingOptions options;
  options.direction = arguments.Get("rankdir", "LR");
  if (options.direction != "TB" && options.direction != "BT" && options.direction != "LR" &&
      options.direction != "RL") {
    throw Error(ErrorKind::kUsage,
                StrCat("--rankdir is TB, BT, LR or RL, found \"", Printable(options.direction), "\""));
  }
  options.show_lr_mult = IsOn(arguments, "display_lrm");
  Print("Drawing net to {}\n", out);
  WriteDrawing(NetsToDot({{net}}, options), out);
  return 0;
}

int RunUpgradeNetText(const Arguments& arguments) {
  const NetParameter net = ReadNet(arguments.Word(0, "the old net"));
  WriteFileAtomically(arguments.Word(1, "the file to write"), NetToText(net));
  return 0;
}

int RunUpgradeNetBinary(const Arguments& arguments) {
  const Weights weights = ReadWeights(arguments.Word(0, "the old .caffemodel"));
  WriteCaffemodel(arguments.Word(1, "the file to write"), ReadNetBinary(arguments.positionals[0]), weights.blobs);
  return 0;
}

int RunUpgradeSolver(const Arguments& arguments) {
  const SolverParameter solver = ReadSolver(arguments.Word(0, "the old solver"));
  WriteFileAtomically(arguments.Word(1, "the file to write"), SolverToText(solver));
  return 0;
}

Verb Tool(std::string name, std::string summary, std::string usage, int (*run)(const Arguments&)) {
  Verb verb;
  verb.examples = {StrCat("moka ", name, " ", usage)};
  verb.name = std::move(name);
  verb.summary = std::move(summary);
  const std::vector<std::string> words = Split(usage, ' ');
  verb.most_words = words.size() - static_cast<size_t>(std::ranges::count(words, "[--flags]"));
  verb.usage = std::move(usage);
  verb.run = run;
  verb.is_caffe_tool = true;
  return verb;
}

}  // namespace

std::vector<Verb> CaffeTools() {
  Verb convert = Tool("convert_imageset", "a database of the images of a list", "ROOT/ LIST DATABASE [--flags]",
                      RunConvertImageset);
  convert.options = {{"gray", "[BOOL]", "one channel"},
                     {"shuffle", "[BOOL]", "in random order"},
                     {"backend", "lmdb", "the database's type"},
                     {"resize_width", "N", "pixels"},
                     {"resize_height", "N", "pixels"},
                     {"check_size", "[BOOL]", "all images must have one size"},
                     {"encoded", "[BOOL]", "keep the images compressed"},
                     {"encode_type", "TYPE", "compress them as jpg or png"}};
  Verb annotate = Tool("convert_annoset", "a database of the pictures and boxes of a list (SSD's)",
                       "ROOT/ LIST DATABASE [--flags]", RunConvertAnnoset);
  annotate.options = convert.options;
  const std::vector<OptionSpec> boxes = {{"anno_type", "TYPE", "classification (default) or detection"},
                                         {"label_type", "TYPE", "annotation files: xml (default), json or txt"},
                                         {"label_map_file", "FILE", "labels of the names, a LabelMap"},
                                         {"check_label", "[BOOL]", "the label map must not repeat names"},
                                         {"min_dim", "N", "pixels the shorter side is enlarged to"},
                                         {"max_dim", "N", "pixels the longer side is made smaller to"}};
  annotate.options.insert(annotate.options.end(), boxes.begin(), boxes.end());
  Verb mean = Tool("compute_image_mean", "the mean image of a database and of each channel",
                   "DATABASE [MEAN.binaryproto]", RunImageMean);
  mean.options = {{"backend", "lmdb", "the database's type"}};
  Verb draw = Tool("draw_net", "a net as a picture", "NET OUT.png|OUT.svg|OUT.pdf|OUT.dot", RunDrawNet);
  draw.options = {{"rankdir", "DIRECTION", "TB, BT, LR (default) or RL"},
                  {"phase", "PHASE", "TRAIN, TEST or ALL (default)"},
                  {"display_lrm", "[BOOL]", "the multipliers of layers with weights"}};
  Verb extract = Tool("extract_features", "blobs of a trained net as databases",
                      "WEIGHTS NET BLOB[,BLOB] DATABASE[,DATABASE] BATCHES lmdb", RunExtractFeatures);
  extract.options = {{"allow-outputs", "DIR", "let files that the net names lie below DIR too"}};
  return {
      mean,
      annotate,
      convert,
      draw,
      extract,
      Tool("upgrade_net_proto_binary", "an old .caffemodel in the present spelling", "FROM TO", RunUpgradeNetBinary),
      Tool("upgrade_net_proto_text", "an old net in the present spelling", "FROM TO", RunUpgradeNetText),
      Tool("upgrade_solver_proto_text", "an old solver in the present spelling", "FROM TO", RunUpgradeSolver)};
}

}  // namespace moka
