// moka new: from a source of data to the folder of a model that `moka train` takes as it is. All is made in
// OUT.partial, which becomes OUT in the end.
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/text.h"
#include "data/records/class_names.h"
#include "optim/signals.h"
#include "tools/cli/command_line.h"
#include "tools/cli/print.h"
#include "tools/cli/progress.h"
#include "tools/launch/command.h"
#include "tools/new/fine_tune.h"
#include "tools/new/layouts.h"
#include "tools/new/new_data.h"
#include "tools/new/new_task.h"
#include "tools/train/program_options.h"
#include "tools/train/train_setup.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDatabases = "data";
// Says of OUT.partial that it is ours to remove.
constexpr const char* kMark = ".moka_new";

// A bar for each stretch of work that counts anew.
class Bars {
 public:
  void Update(int64_t done, int64_t total) {
    if (!bar_ || done < done_) bar_.emplace(ProgressMode::kAuto, "pictures", total);
    done_ = done;
    bar_->Update(done, "");
  }
  void Finish() { bar_.reset(); }

 private:
  std::optional<ProgressBar> bar_;
  int64_t done_ = 0;
};

// The folder in which a model is made, empty but for its mark. What an earlier call left there is removed.
// Errors: kCantCreate where OUT exists, or OUT.partial is something else.
fs::path MakePartial(const fs::path& out) {
  std::error_code code;
  if (fs::exists(fs::symlink_status(out, code))) {
    throw Error(ErrorKind::kCantCreate, {}, StrCat(Printable(out.string()), " exists already"),
                "name another folder by --out, or remove it");
  }
  fs::path partial = out.string() + ".partial";
  if (fs::exists(fs::symlink_status(partial, code))) {
    if (!fs::exists(partial / kMark, code)) {
      throw Error(ErrorKind::kCantCreate, {},
                  StrCat(Printable(partial.string()), " is in the way and was not made by moka new"),
                  "rename or remove it");
    }
    LogInfo(StrCat("removing ", Printable(partial.string()), ", which an earlier call left"));
    fs::remove_all(partial, code);
  }
  CreateFolders(partial / kDatabases);
  PlaceFile(partial / kMark, "");
  return partial;
}

std::vector<SplitPart> SharesOf(const Arguments& arguments) {
  std::vector<SplitPart> shares = ParseParts(arguments.Get("parts", "train=0.85,val=0.15"));
  const bool are_known = shares.size() >= 2 && shares[0].name == "train" && shares[1].name == "val" &&
                         (shares.size() == 2 || (shares.size() == 3 && shares[2].name == "test"));
  if (are_known) return shares;
  throw Error(ErrorKind::kUsage, {}, "--parts wants train=SHARE,val=SHARE or train=SHARE,val=SHARE,test=SHARE",
              "for example --parts train=0.7,val=0.15,test=0.15");
}

// Removes what was made when it is not finished.
class Partial {
 public:
  explicit Partial(const fs::path& out) : out_(out), path_(MakePartial(out)) {}
  Partial(const Partial&) = delete;
  Partial& operator=(const Partial&) = delete;
  ~Partial() {
    std::error_code ignored;
    if (!is_finished_) fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }
  void Finish() {
    std::error_code code;
    fs::remove(path_ / kMark, code);
    fs::rename(path_, out_, code);
    if (code) {
      throw Error(ErrorKind::kIo, StrCat("cannot rename ", Printable(path_.string()), " to ", Printable(out_.string()),
                                         ": ", code.message()));
    }
    is_finished_ = true;
  }

 private:
  fs::path out_;
  fs::path path_;
  bool is_finished_ = false;
};

NewOptions OptionsOf(const Arguments& arguments, const NewTask& task, const fs::path& out) {
  NewOptions options;
  options.budget = BudgetNamed(arguments.Get("size", "medium"));
  options.name = fs::absolute(out).lexically_normal().filename().string();
  options.folder = out.string();
  options.databases = (fs::absolute(out) / kDatabases).lexically_normal();
  options.compile = CompileOptionsOf(arguments);
  if (!arguments.Has("from")) return options;
  options.from_word = arguments.Get("from");
  if (!task.takes_start) {
    throw Error(ErrorKind::kUsage, StrCat("--from has no use here: moka new ", task.name, " starts from nothing"));
  }
  options.from = FindStartNet(options.from_word, RunsFolder(arguments));
  return options;
}

// Errors: kIo, as for a full disk or weights that were removed meanwhile.
void CopyTo(const fs::path& from, const fs::path& to) {
  std::error_code code;
  fs::copy_file(from, to, code);
  if (code) {
    throw Error(ErrorKind::kIo,
                StrCat("cannot copy ", Printable(from.string()), " to ", Printable(to.string()), ": ", code.message()));
  }
}

// Looks at the pictures of the source and derives the model; their databases lie in `partial` then.
NewModel MakeOfPictures(const NewTask& task, const NewSource& source, const NewOptions& options, LookOptions look,
                        const fs::path& partial) {
  const std::vector<PartSource> sources = task.find(source.word, partial);
  std::vector<std::string> parts;
  for (const PartSource& part : sources) parts.push_back(part.part);
  CheckShares(source.word, parts, source.has_shares, source.shares.size());
  const SignalRequests requests;
  Bars bars;
  look.progress = [&](int64_t done, int64_t total) { bars.Update(done, total); };
  look.wants_stop = SignalRequests::WantsStop;
  if (task.number != nullptr) {
    look.number_classes = [&](const PictureFacts& first, std::vector<PartSource>& all) {
      return task.number(first, partial, all);
    };
  }
  look.source = source.word;
  look.shares = source.shares;
  look.made_names = partial / kMadeNames;
  const NewData data = [&] {
    try {
      return LookAtParts(sources, look);
    } catch (Error& error) {
      // The file that it names is gone with this call.
      if (std::string_view(error.what()).find(look.made_names.string()) != std::string_view::npos)
        error.AddNote(StrCat(kMadeNames, " was made of the names that ", Printable(source.word), " has"));
      throw;
    }
  }();
  bars.Finish();
  source.tell(data.remarks);
  NewModel model = task.derive(data, options);
  model.storage.progress = look.progress;
  model.storage.wants_stop = look.wants_stop;
  if (look.skips_bad) model.storage.on_bad_record = ImportOptions::OnBadRecord::kSkip;
  ImportParts(data, source.databases, model.storage);
  bars.Finish();
  std::error_code ignored;
  fs::remove(look.made_names, ignored);  // the databases have them
  return model;
}

// Derives the model from its source and writes it. Returns what is to be said of it.
std::vector<std::string> Make(const NewTask& task, NewSource source, const NewOptions& options,
                              const LookOptions& look) {
  Partial partial(options.folder);
  source.databases = partial.path() / kDatabases;
  source.tell = [](const std::vector<std::string>& remarks) {
    for (const std::string& remark : remarks) LogWarning(remark);
  };
  LogInfo(StrCat("looking at ", Printable(source.word)));
  const NewModel model =
      task.make != nullptr ? task.make(source, options) : MakeOfPictures(task, source, options, look, partial.path());
  for (const auto& [name, text] : model.files) PlaceFile(partial.path() / name, text);
  for (const auto& [from, name] : model.copies) CopyTo(from, partial.path() / name);
  partial.Finish();
  return model.lines;
}

// A model's folder among the data would be data to whoever looks next, the split of this very set to begin with.
// Errors: kUsage for one that lies in a folder of the source.
void RefuseOutInSource(const fs::path& out, const std::string& source) {
  std::error_code failed;
  const fs::path whole = fs::weakly_canonical(out, failed);
  const size_t kind = source.find(':');
  std::vector<std::string> parts = Split(source, ',');
  if (kind != std::string::npos) parts.push_back(source.substr(kind + 1, source.find(',') - kind - 1));
  for (const std::string& part : parts) {
    if (part.empty() || !fs::is_directory(part, failed)) continue;
    const fs::path within = whole.lexically_relative(fs::weakly_canonical(part, failed));
    if (within.empty() || *within.begin() == "..") continue;
    throw Error(ErrorKind::kUsage, {},
                StrCat("--out ", Printable(out.string()), " lies in ", Printable(part), ", which holds the data"),
                "a model's folder stands beside its data");
  }
}

int RunNew(const Arguments& arguments) {
  const NewTask& task = NewTaskNamed(arguments.Word(0, "the task"));
  NewSource source;
  source.word = arguments.Word(1, "the source of the data");
  if (!arguments.Has("out")) throw Error(ErrorKind::kUsage, {}, "--out is missing", "it names the model's new folder");
  fs::path out = arguments.Get("out");
  if (!out.has_filename()) out = out.parent_path();
  if (out.empty()) throw Error(ErrorKind::kUsage, "--out is empty, expected the model's new folder");
  if (HasControl(fs::absolute(out).string())) {
    throw Error(ErrorKind::kUsage,
                StrCat("--out ", Printable(out.string()),
                       ": the folder's path has a control character, which a net's text cannot hold"));
  }
  RefuseOutInSource(out, source.word);
  const NewOptions options = OptionsOf(arguments, task, out);
  LookOptions look;
  source.has_shares = arguments.Has("parts");
  source.shares = SharesOf(arguments);
  look.skips_bad = arguments.Has("skip-bad");
  if (look.skips_bad && task.make != nullptr) {
    throw Error(ErrorKind::kUsage, StrCat("--skip-bad is of pictures, and moka new ", task.name, " takes none"));
  }
  arguments.RefuseUnread();
  for (const std::string& line : Make(task, std::move(source), options, look)) Print("{}\n", line);
  Print("wrote {}: train_val.prototxt, solver.prototxt, README.md\n", out.string());
  Print("next: moka {}\n", ShellLine({"train", out.string()}));
  return 0;
}

}  // namespace

Verb NewVerb() {
  Verb verb;
  verb.name = "new";
  verb.summary = "a model's folder for your own data: databases, net and training, ready for moka train";
  verb.usage = "TASK SOURCE --out FOLDER [--flags]";
  verb.examples = {"moka new classify photos --out flowers",
                   "moka new classify photos --out flowers --from runs/clothes-0001",
                   "moka new detect BCCD --out cells", "moka new segment streets --out roads --size small",
                   "moka new regress wine.csv,quality --out wine"};
  for (const NewTask& task : AllNewTasks()) verb.operands.emplace_back(task.name, task.source);
  verb.options = {
      {"out", "FOLDER", "the model's new folder"},
      {"size", "NAME", "small, medium (default) or large: 5, 15 or 60 minutes of training on this machine"},
      {"parts", "LIST", "shares of a source in one part (default train=0.85,val=0.15; test=SHARE may follow)"},
      {"from", "START", "fine-tune: a run, RUN@WHICH, zoo:NAME, or weights beside their train_val.prototxt"},
      {"runs", "FOLDER", "where runs lie (default runs)"},
      {"skip-bad", "", "leave pictures out that cannot be read, and list them"}};
  verb.run = RunNew;
  verb.most_words = 2;
  return verb;
}

}  // namespace moka
