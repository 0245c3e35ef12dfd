// moka data export|import|inspect|mean|shuffle|split|table|verify: what nets are trained with.
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <tuple>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/text.h"
#include "data/image/image.h"
#include "data/image/resample.h"
#include "data/import/copy_records.h"
#include "data/import/import.h"
#include "data/inspect/contact_sheet.h"
#include "data/inspect/inspect.h"
#include "data/records/lmdb_file.h"
#include "data/records/record_database.h"
#include "optim/signals.h"
#include "tools/cli/command_line.h"
#include "tools/cli/print.h"
#include "tools/cli/progress.h"
#include "tools/infer/frames.h"

namespace moka {
namespace {

using OrderedJson = nlohmann::ordered_json;

ImportOptions OptionsOf(const Arguments& arguments) {
  ImportOptions options;
  options.video_frames = WriteFrames;
  const std::string size = arguments.Get("resize");
  if (!size.empty()) {
    std::tie(options.height, options.width) = SizeOfFlag("resize", size, "max-side");
  }
  constexpr int64_t kMostPixels = 1 << 14;
  options.max_dim = arguments.Int("max-side", 0, 1, kMostPixels);
  options.short_side = arguments.Int("short-side", 0, 1, kMostPixels);
  if (options.max_dim > 0 && options.height > 0) throw Error(ErrorKind::kUsage, "--max-side and --resize: keep one");
  if (options.short_side > 0 && (options.height > 0 || options.max_dim > 0)) {
    throw Error(ErrorKind::kUsage,
                StrCat("--short-side and ", options.height > 0 ? "--resize" : "--max-side", ": keep one"));
  }
  const std::string storage = arguments.Get("storage", "source");
  using Storage = ImportOptions::Storage;
  if (storage == "source")
    options.storage = Storage::kSource;
  else if (storage == "raw")
    options.storage = Storage::kRaw;
  else if (storage == "jpeg")
    options.storage = Storage::kJpeg;
  else if (storage == "png")
    options.storage = Storage::kPng;
  else
    throw Error(ErrorKind::kUsage,
                StrCat("--storage wants source, raw, jpeg or png, found \"", Printable(storage), "\""));
  if (arguments.Has("gray")) options.channels = ImageChannels::kGray;
  if (arguments.Has("shuffle")) options.shuffle_seed = static_cast<uint64_t>(arguments.Int("shuffle", 0, 0, INT64_MAX));
  options.limit = arguments.Int("limit", 0, 1, INT64_MAX);
  if (arguments.Has("classes")) {
    options.classes = arguments.Get("classes");
    if (options.classes.empty()) throw Error(ErrorKind::kUsage, "--classes is empty, expected a file or a database");
  }
  if (arguments.Has("skip-bad")) options.on_bad_record = ImportOptions::OnBadRecord::kSkip;
  constexpr int64_t kMostWorkers = 1024;
  options.workers = arguments.Int("workers", 0, 1, kMostWorkers);
  options.batch_records = arguments.Int("batch", 0, 1, INT64_MAX);
  if (arguments.Has("restart")) options.unfinished = ImportOptions::Unfinished::kRestart;
  return options;
}

// "4 classes", or "1 of 4 classes" where the records are of fewer.
std::string Classes(const ImportReport& report) {
  const auto named = std::ssize(report.labels);
  const bool are_fewer = report.classes_met && *report.classes_met < named;
  return StrCat(are_fewer ? StrCat(*report.classes_met, " of ") : "", named, named == 1 ? " class" : " classes");
}

int RunImport(const Arguments& arguments) {
  const std::string& source = arguments.Word(0, "the source (a folder, a list, idx:IMAGES,LABELS, glyphs:COUNT, ...)");
  const std::string& out = arguments.Word(1, "the folder of the new database");
  ImportOptions options = OptionsOf(arguments);
  arguments.RefuseUnread({"json"});
  LogInfo(StrCat("importing ", source, " into ", out));
  ImportReport report;
  {
    const SignalRequests requests;
    options.wants_stop = SignalRequests::WantsStop;
    std::optional<ProgressBar> bar;
    options.progress = [&](int64_t done, int64_t total) {
      if (!bar) bar.emplace(ProgressMode::kAuto, "records", total);
      bar->Update(done, "");
    };
    report = Import(source, out, options);
  }
  for (const std::string& warning : report.warnings) LogWarning(warning);
  for (const std::string& skipped : report.skipped) LogWarning(StrCat("skipped ", skipped));
  if (arguments.Has("json")) {
    PrintJson(OrderedJson({{"database", out},
                           {"records", report.records},
                           {"resumed_at", report.resumed_at},
                           {"skipped", report.skipped},
                           {"warnings", report.warnings},
                           {"labels", report.labels}}));
  } else {
    Print("{}: {} records{}{}{}{}\n", out, report.records, report.labels.empty() ? "" : StrCat(", ", Classes(report)),
          report.resumed_at == 0 ? "" : StrCat(", ", report.resumed_at, " of an earlier, unfinished import"),
          report.skipped.empty() ? "" : StrCat(", ", report.skipped.size(), " skipped"),
          report.warnings.empty() ? "" : StrCat(", ", report.warnings.size(), " warnings"));
  }
  return 0;
}

int RunTable(const Arguments& arguments) {
  const std::string& table = arguments.Word(0, "the table");
  const std::string& out = arguments.Word(1, "the folder of the new databases");
  TableOptions options;
  options.target = arguments.Get("target");
  if (options.target.empty()) throw Error(ErrorKind::kUsage, "--target is missing: the column to predict");
  if (arguments.Has("features")) options.features = Split(arguments.Get("features"), ',');
  if (arguments.Has("one-hot")) options.one_hot = Split(arguments.Get("one-hot"), ',');
  if (arguments.Has("no-scaling")) options.scaling = TableOptions::Scaling::kNone;
  options.test_every = arguments.Int("test-every", options.test_every, 0, INT64_MAX);
  const TableReport report = ImportTable(table, out, options);
  Print("{}: {} train and {} test rows, {} dropped, {} features ({})\n", out, report.train_rows, report.test_rows,
        report.dropped_rows, report.columns.size(), Join(report.columns, ", "));
  return 0;
}

std::string Numbers(const std::vector<double>& values) {
  std::string s;
  for (const double v : values) s += fmt::format("{}{:.4f}", s.empty() ? "" : ", ", v);
  return s;
}

// A bar of at most kWidth cells, in eighths of one.
std::string Bar(int64_t count, int64_t most) {
  constexpr int64_t kWidth = 40;
  constexpr std::array<const char*, 8> kParts = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int64_t eighths = std::max<int64_t>(1, count * kWidth * 8 / most);
  std::string bar;
  for (int64_t i = 0; i < eighths / 8; ++i) bar += "█";
  return bar + kParts.at(static_cast<size_t>(eighths % 8));
}

// Classes by number, with bars as long as their counts; `what` has them: "label".
void PrintHistogram(const char* what, const std::map<int64_t, int64_t>& counts, const std::vector<std::string>& names) {
  int64_t most = 1;
  size_t longest = 0;
  const auto name_of = [&](int64_t label) {
    const bool named = label >= 0 && label < static_cast<int64_t>(names.size());
    return named ? Printable(names[static_cast<size_t>(label)]) : std::string();
  };
  for (const auto& [label, count] : counts) {
    most = std::max(most, count);
    longest = std::max(longest, name_of(label).size());
  }
  for (const auto& [label, count] : counts) {
    Print("  {} {:<5} {:<8} {:<{}}{}{}\n", what, label, count, name_of(label), longest, longest > 0 ? "  " : "",
          Bar(count, most));
  }
}

void WriteSheet(const Arguments& arguments, const std::string& path) {
  CheckFileEnding("--sheet", arguments.Get("sheet"), ".png");
  SheetOptions options;
  constexpr int64_t kMost = 10000;
  options.per_class = arguments.Int("per-class", options.per_class, 1, kMost);
  const ContactSheet sheet = DrawContactSheet(path, options);
  const std::string out = arguments.Get("sheet");
  WriteFileAtomically(out, EncodePng(sheet.picture));
  LogInfo(StrCat("wrote ", sheet.pictures, " pictures to ", out,
                 sheet.classes_left == 0 ? "" : StrCat(", without the last ", sheet.classes_left, " classes")));
}

int RunInspect(const Arguments& arguments) {
  const std::string& path = arguments.Word(0, "the database");
  if (arguments.Has("sheet")) {
    WriteSheet(arguments, path);
  } else {
    arguments.RefuseUnread({"json"});
  }
  const LmdbSummary summary = InspectLmdb(path);
  if (arguments.Has("json")) {
    OrderedJson json = {
        {"records", summary.records}, {"file_bytes", summary.file_bytes}, {"value_bytes", summary.value_bytes},
        {"encoded", summary.encoded}, {"floats", summary.floats},         {"shapes", summary.shapes},
        {"mean", summary.mean},       {"stddev", summary.stddev},         {"label_names", summary.label_names}};
    for (const auto& [label, count] : summary.labels) json["labels"][std::to_string(label)] = count;
    for (const auto& [label, count] : summary.boxes) json["boxes"][std::to_string(label)] = count;
    if (!summary.boxes.empty()) json["box_names"] = summary.box_names;
    for (const auto& [value, count] : summary.mask_pixels) json["mask_pixels"][std::to_string(value)] = count;
    if (!summary.mask_pixels.empty()) json["mask_names"] = summary.mask_names;
    for (const PointCount& point : summary.points) {
      json["points"].push_back({{"name", point.name}, {"visible", point.visible}, {"hidden", point.hidden}});
    }
    for (const BadRecord& bad : summary.bad) {
      json["bad"].push_back({{"key", bad.key}, {"index", bad.index}, {"reason", bad.reason}});
    }
    PrintJson(json);
    return 0;
  }
  Print("{}: {} records ({} encoded, {} float), {} of values in {}\n", path, summary.records, summary.encoded,
        summary.floats, BytesText(summary.value_bytes), BytesText(summary.file_bytes));
  for (const auto& [shape, count] : summary.shapes) Print("  shape {:<16} {}\n", shape, count);
  Print("  mean  {}\n  std   {}\n", Numbers(summary.mean), Numbers(summary.stddev));
  PrintHistogram("label", summary.labels, summary.label_names);
  PrintHistogram("boxes", summary.boxes, summary.box_names);
  PrintHistogram("pixels", summary.mask_pixels, summary.mask_names);
  if (!summary.boxes.empty()) Print("  records without a box: {}\n", summary.boxless);
  for (const PointCount& point : summary.points) {
    Print("  point {:<16} {} visible, {} hidden\n", point.name, point.visible, point.hidden);
  }
  for (const BadRecord& bad : summary.bad) Print("  bad   {} (record {}): {}\n", bad.key, bad.index, bad.reason);
  return 0;
}

int RunVerify(const Arguments& arguments) {
  const std::string& path = arguments.Word(0, "the database");
  const LmdbVerdict verdict = VerifyLmdb(path);
  for (const BadRecord& bad : verdict.bad) Print("bad {} (record {}): {}\n", bad.key, bad.index, bad.reason);
  Print("{}: {} records, {} bad{}\n", path, verdict.records, verdict.bad.size(),
        verdict.has_checksums ? ", checksums compared" : "");
  return verdict.bad.empty() ? 0 : static_cast<int>(ErrorKind::kVerification);
}

// Records as picture files LABEL_INDEX.png, or INDEX.png where records have no single label.
int RunExport(const Arguments& arguments) {
  const std::string& path = arguments.Word(0, "the database");
  const std::filesystem::path out = arguments.Word(1, "the folder for the pictures");
  const RecordDatabase database(path);
  const int64_t first = arguments.Int("first", 0, 0, INT64_MAX);
  const int64_t last = std::min(database.size(), first + arguments.Int("limit", 10, 1, INT64_MAX / 2));
  if (first >= database.size())
    throw Error(ErrorKind::kUsage, StrCat("--first is ", first, ", and ", Printable(path), " has ",
                                          Counted(database.size(), "record", "records")));
  CreateFolders(out);
  RecordDatabase::Scratch scratch;
  for (int64_t i = first; i < last; ++i) {
    Image image;
    std::string label;
    try {
      const RecordDatabase::Content content = database.Load(i, scratch);
      image = ImageOf(content.pixels);
      if (content.label) label = StrCat(*content.label, "_");
    } catch (const Error& e) {
      throw Error(e.kind(), {}, StrCat(database.NameOf(i), ": ", e.text()), e.hint());
    }
    const std::string name = fmt::format("{}{:08}.png", label, i);
    WriteFileAtomically(out / name, EncodePng(image));
    Print("{}\n", (out / name).string());
  }
  return 0;
}

// Runs work under a progress bar; a signal asks it to stop.
template <class Work>
void RunCopy(const Arguments& arguments, Work&& work) {
  const SignalRequests requests;
  CopyOptions options;
  options.seed = static_cast<uint64_t>(arguments.Int("seed", 1, 0, INT64_MAX));
  options.restart = arguments.Has("restart");
  options.wants_stop = SignalRequests::WantsStop;
  std::optional<ProgressBar> bar;
  options.progress = [&](int64_t done, int64_t total) {
    if (!bar) bar.emplace(ProgressMode::kAuto, "records", total);
    bar->Update(done, "");
  };
  work(options);
}

int RunShuffle(const Arguments& arguments) {
  const std::string& path = arguments.Word(0, "the database");
  const std::string& out = arguments.Word(1, "the folder of the new database");
  int64_t records = 0;
  RunCopy(arguments, [&](const CopyOptions& options) { records = ShuffleLmdb(path, out, options); });
  Print("{}: {} records\n", out, records);
  return 0;
}

int RunSplit(const Arguments& arguments) {
  std::filesystem::path path = arguments.Word(0, "the database");
  if (!path.has_filename()) path = path.parent_path();
  if (!arguments.Has("parts")) throw Error(ErrorKind::kUsage, "--parts is missing, for example train=0.9,val=0.1");
  const std::vector<SplitPart> parts = ParseParts(arguments.Get("parts"));
  const std::string out = arguments.Has("out") ? arguments.Get("out") + "/" : path.string() + "_";
  if (arguments.Has("out")) {
    const LmdbReader there(path);  // what is not leaves no folder
    CreateFolders(arguments.Get("out"));
  }
  SplitReport report;
  RunCopy(arguments, [&](const CopyOptions& options) {
    report = SplitLmdb(path, out, parts, arguments.Has("by-class"), options);
  });
  for (size_t i = 0; i < parts.size(); ++i) Print("{}: {} records\n", report.paths[i].string(), report.records[i]);
  if (report.left_out > 0) Print("{} records are in no part\n", report.left_out);
  return 0;
}

int RunMean(const Arguments& arguments) {
  const std::string& path = arguments.Word(0, "the database");
  const std::string& out = arguments.Word(1, "the .binaryproto to write");
  if (out.ends_with(".npy") || out.ends_with(".npz")) CheckFileEnding("the mean", out, ".binaryproto");
  SaveBlob(ComputeMean(path), out);
  Print("wrote {}\n", out);
  return 0;
}

}  // namespace

Verb DataImportVerb() {
  Verb verb;
  verb.name = "import";
  verb.under = "data";
  verb.summary = "make a database from folders, lists, tars, boxes, masks, LevelDBs, idx, ..";
  verb.usage = "SOURCE OUT [--flags]";
  verb.examples = {"moka data import flowers/ data/flowers --resize 256x256 --shuffle 1",
                   "moka data import voc:VOCdevkit/VOC2012,train data/voc/train --shuffle 1"};
  verb.operands = ImportSources();
  verb.options = {{"resize", "HxW", "resize images to exactly that"},
                  {"max-side", "N", "make images smaller whose longer side has more pixels; their shape stays"},
                  {"short-side", "N", "make images smaller whose shorter side has more pixels; their shape stays"},
                  {"storage", "KIND", "source (keep file bytes), raw, jpeg or png"},
                  {"gray", "", "store one channel"},
                  {"classes", "FILE", "names that number the classes of folders, one a line; or a database's"},
                  {"shuffle", "SEED", "shuffle the records"},
                  {"limit", "N", "at most N records"},
                  {"skip-bad", "", "skip unreadable records (they are listed) instead of stopping"},
                  {"workers", "N", "threads that decode and encode (default: --threads, else the cores)"},
                  {"batch", "N", "records of one commit (default: of about 32 MiB of the source, 256 to 16384)"},
                  {"restart", "", "begin anew instead of going on after a cut import"},
                  {"json", "", "print the result as JSON"}};
  verb.run = RunImport;
  verb.most_words = 2;
  return verb;
}

Verb DataTableVerb() {
  Verb verb;
  verb.name = "table";
  verb.under = "data";
  verb.summary = "make feature and target databases from a text table";
  verb.usage = "TABLE OUT --target COLUMN [--flags]";
  verb.examples = {"moka data table winequality-red.csv data/wine --target quality",
                   "moka data table auto-mpg.data data/mpg --target 0 --features 1,2,3,4,5,6,7 --one-hot 7"};
  verb.options = {{"target", "COLUMN", "the column to predict: header name or number from 0"},
                  {"features", "LIST", "columns used (default: all others)"},
                  {"one-hot", "LIST", "feature columns that hold categories"},
                  {"no-scaling", "", "keep the features' units (default: standardised by the train rows)"},
                  {"test-every", "N", "row i is test when i mod N = N-1 (default 5; 0: none)"}};
  verb.run = RunTable;
  verb.most_words = 2;
  return verb;
}

Verb DataInspectVerb() {
  Verb verb;
  verb.name = "inspect";
  verb.under = "data";
  verb.summary = "counts, classes, sizes, mean and deviation of a database";
  verb.usage = "DATABASE [--flags]";
  verb.examples = {"moka data inspect data/mnist/train",
                   "moka data inspect data/flowers --sheet flowers.png --per-class 12"};
  verb.options = {{"sheet", "FILE.png", "write pictures of each class on one sheet"},
                  {"per-class", "N", "pictures of a class on the sheet (default 10)"},
                  {"json", "", "print as JSON"}};
  verb.run = RunInspect;
  verb.most_words = 1;
  return verb;
}

Verb DataVerifyVerb() {
  Verb verb;
  verb.name = "verify";
  verb.under = "data";
  verb.summary = "decode every record and list the bad ones (exit 22 if there are any)";
  verb.usage = "DATABASE";
  verb.examples = {"moka data verify data/mnist/train"};
  verb.run = RunVerify;
  verb.most_words = 1;
  return verb;
}

Verb DataShuffleVerb() {
  Verb verb;
  verb.name = "shuffle";
  verb.under = "data";
  verb.summary = "copy a database in random order, records as they are";
  verb.usage = "DATABASE OUT [--seed N]";
  verb.examples = {"moka data shuffle data/flowers data/flowers_mixed --seed 1"};
  verb.options = {{"seed", "N", "of the order (default 1)"},
                  {"restart", "", "begin anew instead of going on after a cut copy"}};
  verb.run = RunShuffle;
  verb.most_words = 2;
  return verb;
}

Verb DataSplitVerb() {
  Verb verb;
  verb.name = "split";
  verb.under = "data";
  verb.summary = "copy a database's records into parts by random choice";
  verb.usage = "DATABASE --parts NAME=SHARE,.. [--flags]";
  verb.examples = {"moka data split data/flowers --parts train=0.9,val=0.1 --by-class",
                   "moka data split data/all --parts train=0.8,val=0.1,test=0.1 --seed 7 --out data/parts"};
  verb.options = {{"parts", "LIST", "NAME=SHARE,..: shares sum to at most 1"},
                  {"seed", "N", "of the choice (default 1)"},
                  {"by-class", "", "the shares hold in each class"},
                  {"out", "FOLDER", "makes FOLDER/NAME (default: DATABASE_NAME)"},
                  {"restart", "", "begin anew instead of going on after a cut split"}};
  verb.run = RunSplit;
  verb.most_words = 1;
  return verb;
}

Verb DataExportVerb() {
  Verb verb;
  verb.name = "export";
  verb.under = "data";
  verb.summary = "write records as picture files, named LABEL_INDEX.png";
  verb.usage = "DATABASE OUT [--first N] [--limit N]";
  verb.examples = {"moka data export data/mnist/test digits --limit 20"};
  verb.options = {{"first", "N", "index of the first record (default 0)"},
                  {"limit", "N", "at most N records (default 10)"}};
  verb.run = RunExport;
  verb.most_words = 2;
  return verb;
}

Verb DataMeanVerb() {
  Verb verb;
  verb.name = "mean";
  verb.under = "data";
  verb.summary = "write the mean image for transform_param.mean_file";
  verb.usage = "DATABASE OUT.binaryproto";
  verb.examples = {"moka data mean data/ilsvrc12/train data/ilsvrc12/mean.binaryproto"};
  verb.run = RunMean;
  verb.most_words = 2;
  return verb;
}

Verb DataVerb() {
  Verb verb;
  verb.name = "data";
  verb.summary = "make, inspect and verify databases of records";
  verb.usage = "SUBVERB ...";
  verb.examples = {"moka data import flowers/ data/flowers"};
  return verb;
}

}  // namespace moka
