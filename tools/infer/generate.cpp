// Generation: random numbers in, pictures out, as one sheet or a folder of files.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <sstream>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/text.h"
#include "core/trace.h"
#include "data/files/file_tree.h"
#include "graph/parameter_store.h"
#include "layers/net/layer.h"
#include "layers/net/net.h"
#include "optim/checkpoint/net_weights.h"
#include "optim/run/sample_grid.h"
#include "optim/step/step_program.h"
#include "tools/infer/infer_program.h"
#include "tools/infer/tasks.h"
#include "tools/measure/calibration.h"
#include "tools/nets/net_source.h"
#include "tools/train/program_options.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kUsualCount = 64;
constexpr int64_t kUsualColumns = 8;
constexpr int64_t kMostColumns = 1000;
constexpr uint64_t kGeneratorSeed = 1;  // of blobs that no weights file fills; those are warned about

// A trained net that needs no input but the key of its draws. One thread.
class Generator {
 public:
  explicit Generator(const InferSource& source) : store_(source.compile.device) {
    const NetParameter net = InferNet(source);
    RefuseOthers(source, net);
    NetOptions options;
    options.state.set_phase(TEST);
    options.state.add_stage("deploy");
    options.data_types = GuessDataTypes();  // of data that make no picture
    BuiltNet built = BuildNet(net, options);
    AddBlobs(built.blobs, kGeneratorSeed, store_);
    AddKept(built, "generate", store_);
    LoadWeightsFor(source.compile, source.weights, built.blobs, store_);
    const BuiltNet::Output pictures = PicturesOfNet(built, source.card.generation().blob());
    built.graph.AddOutput(pictures.name, pictures.value);
    program_ = Compile(std::move(built.graph), store_, InferenceOptions(source, net));
    for (const DataLayer& data : built.data) {
      for (const std::string& top : data.tops) {
        if (program_->HasInput(top)) RefuseInput(net, top);
      }
    }
    if (!program_->HasInput("random_key")) {
      throw Error(ErrorKind::kConfig, {},
                  StrCat("net \"", net.name(), "\" draws nothing, so all its pictures would be one"),
                  "a generator begins with a RandomNoise layer");
    }
    key_ = program_->input("random_key");
    pictures_ = program_->output(pictures.name);
  }

  const Program& program() const { return *program_; }
  // [N,C,H,W] of the last Run.
  const Tensor& pictures() const { return pictures_; }
  void Run(uint64_t seed, int64_t batch) {
    key_.as<int64_t>()[0] = RandomKey(seed, batch, 0);
    program_->Run();
  }

 private:
  // Before weights and shapes of a net that makes nothing have a say.
  static void RefuseOthers(const InferSource& source, const NetParameter& net) {
    const bool draws =
        std::ranges::any_of(net.layer(), [](const LayerParameter& l) { return TraitsOf(l).data == DataKind::kNoise; });
    if (draws || source.card.task() == ModelCard::GENERATE) return;
    throw Error(
        ErrorKind::kUsage, {},
        StrCat("net \"", net.name(), "\" is no generator: it has no RandomNoise layer, and its card says task: ",
               ModelCard::Task_Name(source.card.task())),
        "see moka infer");
  }

  [[noreturn]] static void RefuseInput(const NetParameter& net, const std::string& top) {
    throw Error(ErrorKind::kConfig, {},
                StrCat("net \"", net.name(), "\" makes its pictures from \"", top, "\", which comes from outside"),
                "a generator begins with a RandomNoise layer; its data layers have include { phase: TRAIN }");
  }

  static BuiltNet::Output PicturesOfNet(const BuiltNet& net, const std::string& blob) {
    if (blob.empty() && net.outputs.empty())
      throw Error(ErrorKind::kConfig, StrCat("net \"", net.param.name(), "\" has no output"));
    const std::string name = blob.empty() ? net.outputs.back().name : blob;
    const auto top = net.tops.find(name);
    if (top == net.tops.end()) {
      throw Error(ErrorKind::kConfig, StrCat("the card's generation.blob \"", Printable(name),
                                             "\" is no blob of net \"", net.param.name(), "\""));
    }
    const Shape shape = net.graph.shape(top->second);
    if (shape.rank() != 4 || (shape[1] != 1 && shape[1] != 3)) {
      throw Error(ErrorKind::kConfig,
                  StrCat("blob \"", name, "\" is ", shape.ToString(), ", not pictures [N,C,H,W] of 1 or 3 channels"));
    }
    return {name, top->second, 0};
  }

  ParameterStore store_;
  std::unique_ptr<Program> program_;
  Tensor key_;
  Tensor pictures_;
};

// Where the pictures go: one sheet, or a file each in a folder.
class PicturesOut {
 public:
  // Errors: kUsage for another picture's name, for more than a sheet holds, and for columns of a folder.
  PicturesOut(fs::path path, int64_t count, const Arguments& arguments)
      : path_(std::move(path)),
        is_sheet_(path_.extension() == ".png"),
        columns_(arguments.Int("columns", kUsualColumns, 1, kMostColumns)) {
    constexpr int64_t kMostOnSheet = 4096;
    if (is_sheet_ && count > kMostOnSheet) {
      throw Error(ErrorKind::kUsage, {},
                  StrCat("one sheet has at most ", kMostOnSheet, " pictures, found --count ", count),
                  "give --out FOLDER for a file each");
    }
    if (!is_sheet_ && IsImageName(path_.string())) {
      throw Error(ErrorKind::kUsage, {},
                  StrCat("--out wants a sheet FILE.png or a folder, found ", Printable(path_.string())),
                  StrCat("name it ", Printable(fs::path(path_).replace_extension(".png").string())));
    }
    if (!is_sheet_ && arguments.Has("columns"))
      throw Error(ErrorKind::kUsage, {}, "--columns is of a sheet, and --out names a folder", "give --out FILE.png");
  }

  // Makes the folder. Errors: kCantCreate; pictures of another call are not left among the new ones.
  void Begin() const {
    if (is_sheet_) return;
    std::error_code code;
    for (const fs::path& file : fs::is_directory(path_, code) ? SortedEntries(path_) : std::vector<fs::path>{}) {
      if (!IsImageName(file.string())) continue;
      throw Error(ErrorKind::kCantCreate, {},
                  StrCat(Printable(path_.string()), " has pictures already, ", Printable(file.filename().string()),
                         " the first"),
                  "name another folder, or remove it");
    }
    CreateFolders(path_);
  }
  void Add(Image image) {
    if (is_sheet_) {
      sheet_.push_back(std::move(image));
    } else {
      PlaceFile(path_ / fmt::format("{:06d}.png", placed_++), EncodePng(image));
    }
  }
  void Finish() {
    if (is_sheet_) PlaceFile(path_, EncodePng(SheetOf(std::move(sheet_), columns_)));
  }

 private:
  fs::path path_;
  bool is_sheet_;
  int64_t columns_;
  std::vector<Image> sheet_;
  int64_t placed_ = 0;
};

// Counts the values that are no grey between black and white, which a picture shows as one of these.
class OutsideRange {
 public:
  explicit OutsideRange(const GrayRange& range) : range_(range) {}
  void Count(const Tensor& pictures, int64_t i) {
    const int64_t each = pictures.shape().Count(1, 4);
    const double rounding = (range_.high - range_.low) / 510;  // half a grey
    for (const float v : pictures.as<const float>().subspan(static_cast<size_t>(i * each), static_cast<size_t>(each))) {
      const bool is_inside = double{v} >= range_.low - rounding && double{v} <= range_.high + rounding;
      outside_ += is_inside ? 0 : 1;  // NaN is outside
      ++values_;
    }
  }
  void Warn(bool has_card) const {
    if (outside_ == 0) return;
    LogWarning(fmt::format("{:.3g}% of the pictures' values lie outside [{:g}, {:g}] and are cut off: {}",
                           100 * static_cast<double>(outside_) / static_cast<double>(values_), range_.low, range_.high,
                           has_card ? "the card's generation says which value is black and which white"
                                    : "the net has no card (model.prototxt) whose generation { low: high: } says "
                                      "which value is black and which white"));
  }

 private:
  GrayRange range_;
  int64_t outside_ = 0;
  int64_t values_ = 0;
};

// The greys of black and white. Errors: kConfig.
GrayRange RangeOf(const InferSource& source) {
  const GrayRange range{double{source.card.generation().low()}, double{source.card.generation().high()}};
  if (range.low < range.high) return range;
  throw Error(ErrorKind::kConfig, StrCat("the card's generation: black is ", range.low, " and white ", range.high,
                                         ", expected low below high"));
}

// Calls take(pictures [N,C,H,W], i) for each of so many pictures.
template <class Take>
void Generate(Generator& generator, int64_t seed, int64_t count, const Take& take) {
  const int64_t batch = generator.pictures().shape()[0];
  for (int64_t first = 0; first < count; first += batch) {
    generator.Run(static_cast<uint64_t>(seed), first / batch);
    for (int64_t i = 0; i < std::min(batch, count - first); ++i) take(generator.pictures(), i);
  }
}

// A sheet of pictures for a text "count=N seed=N columns=N", of which each may be left out.
class SheetAnswers : public TaskAnswers {
 public:
  explicit SheetAnswers(const InferSource& source) : range_(RangeOf(source)), generator_(source) {}

  AskedKind kind() const override { return AskedKind::kText; }
  bool draws() const override { return true; }
  TaskAnswer Answer(const AskedContent& asked) override {
    constexpr int64_t kMostCount = 256;
    std::map<std::string, int64_t> settings = {{"count", kUsualCount}, {"seed", 1}, {"columns", kUsualColumns}};
    std::string text(asked.bytes);
    std::ranges::replace(text, '&', ' ');  // as forms of HTML send them
    std::istringstream words(text);
    for (std::string word; words >> word;) Read(word, settings);
    const bool is_sheet = settings["count"] >= 1 && settings["count"] <= kMostCount && settings["columns"] >= 1 &&
                          settings["columns"] <= kMostColumns;
    if (!is_sheet) {
      throw Error(ErrorKind::kBadData,
                  StrCat("a sheet has 1 to ", kMostCount, " pictures in 1 to ", kMostColumns, " columns"));
    }
    std::vector<Image> pictures;
    Generate(generator_, settings["seed"], settings["count"],
             [&](const Tensor& values, int64_t i) { pictures.push_back(PictureOfValues(values, i, range_)); });
    TaskAnswer answer{.json = settings};
    answer.drawn = SheetOf(std::move(pictures), settings["columns"]);
    return answer;
  }

 private:
  static void Read(const std::string& word, std::map<std::string, int64_t>& settings) {
    const size_t equals = std::min(word.find('='), word.size());
    const auto setting = settings.find(word.substr(0, equals));
    const std::string_view number = std::string_view(word).substr(std::min(equals + 1, word.size()));
    int64_t value = -1;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    const bool is_number = error == std::errc() && end == number.data() + number.size() && value >= 0;
    if (setting == settings.end() || number.empty() || !is_number) {
      throw Error(ErrorKind::kBadData, {}, StrCat("\"", Printable(word.substr(0, 100)), "\" is no setting of a sheet"),
                  "expected count=N, seed=N and columns=N, whole numbers");
    }
    setting->second = value;
  }

  GrayRange range_;
  Generator generator_;
};

int RunGenerate(const InferSource& source, const std::vector<std::string>& inputs, const Arguments& arguments) {
  if (!inputs.empty())
    throw Error(ErrorKind::kUsage, StrCat("a generator reads nothing, found \"", Printable(inputs[0]), "\""));
  const int64_t count = arguments.Int("count", kUsualCount, 1, 10000000);
  const int64_t seed = arguments.Int("seed", 1, 0, INT64_MAX);
  const fs::path out = arguments.Get("out", "samples.png");
  const GrayRange range = RangeOf(source);
  PicturesOut to(out, count, arguments);
  Generator generator(source);
  RefuseUnreadBeforeLook(arguments, {"trace"});
  if (LookInside(arguments, "generate", generator.program())) return 0;
  BeginTrace(arguments);
  const int64_t begin = NowMicros();
  to.Begin();
  OutsideRange outside(range);
  Generate(generator, seed, count, [&](const Tensor& pictures, int64_t i) {
    outside.Count(pictures, i);
    to.Add(PictureOfValues(pictures, i, range));
  });
  to.Finish();
  outside.Warn(source.card.has_generation());
  const double ms = static_cast<double>(NowMicros() - begin) * 1e-3;
  EndTrace(arguments);
  LogInfo(fmt::format("{} picture{}, {:.1f} ms: {}", count, count == 1 ? "" : "s", ms, Printable(out.string())));
  return 0;
}

}  // namespace

InferTask GenerateTask() {
  return {.task = ModelCard::GENERATE,
          .run = RunGenerate,
          .answers = [](const InferSource& source, const SharedWeights& /*weights*/) -> std::unique_ptr<TaskAnswers> {
            return std::make_unique<SheetAnswers>(source);
          },
          .form = {.asked = AskedKind::kText},
          .options = {{"count", "N", "pictures to make (default 64)"},
                      {"columns", "N", "pictures a row of the sheet (default 8)"},
                      {"out", "FILE|FOLDER", "a sheet FILE.png, or a file each in a folder (default samples.png)"}},
          .input = ""};
}

}  // namespace moka
