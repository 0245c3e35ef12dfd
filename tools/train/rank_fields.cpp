// Everything is compared that is not excused: the lists below name the flags and fields that may differ, so that a new
// one is compared by default.
#include "tools/train/rank_fields.h"

#include <dnnl.h>
#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "core/checksum.h"
#include "core/file.h"
#include "core/text.h"
#include "core/threads/parallel.h"
#include "tools/cli/version.h"
#include "tools/train/content_identity.h"

namespace moka {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Reflection;

// Flags that a rank may have for itself, and those whose meaning is compared in place of their words: what they name
// is among the fields of the setup. Every other flag is compared, so a new one is.
const std::set<std::string, std::less<>>& OwnFlags() {
  static const std::set<std::string, std::less<>> flags = {
      "solver",        "run",    "runs",          "device",        "gpu",  "data-threads", "progress", "quiet",
      "verbose",       "color",  "sigint_effect", "sighup_effect", "pin",  "weights",      "from",     "snapshot",
      "allow-outputs", "resume", "iterations",    "precision",     "seed", "threads",      "trace",    "int8"};
  return flags;
}

// Solver fields that are a rank's own, or that name what is compared by itself.
const std::set<std::string, std::less<>>& OwnSolverFields() {
  static const std::set<std::string, std::less<>> fields = {
      "net",         "train_net", "test_net", "net_param", "train_net_param", "test_net_param", "snapshot_prefix",
      "solver_mode", "device_id", "weights",  "threads",   "first_solver"};
  return fields;
}

// Fields of layers that change how fast data come, or where a file is written, and not what is computed.
const std::set<std::string, std::less<>>& OwnLayerFields() {
  static const std::set<std::string, std::less<>> fields = {"threads", "prefetch", "cache_mb", "shared_file_system",
                                                            "hdf5_output_param"};
  return fields;
}

// A text as it is, anything else as protobuf text has it; that of an unset field is its default's.
std::string ScalarText(const google::protobuf::Message& message, const FieldDescriptor* field, int index) {
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    const Reflection& r = *message.GetReflection();
    return field->is_repeated() ? r.GetRepeatedString(message, field, index) : r.GetString(message, field);
  }
  std::string text;
  google::protobuf::TextFormat::PrintFieldValueToString(message, field, index, &text);
  return text;
}

class Fields {
 public:
  // `data`: what is known of the data that the nets read, which is not read again.
  explicit Fields(const DataOfRun* data = nullptr) : data_(data) {}

  void Add(std::string path, std::string value, bool may_differ = false) {
    fields_.push_back({std::move(path), std::move(value), may_differ});
  }

  // The message's fields that differ from their defaults, by their paths. A text that names a file or a folder stands
  // for what that holds.
  void AddMessage(const google::protobuf::Message& message, const std::string& path,
                  const std::set<std::string, std::less<>>& own) {
    std::vector<const FieldDescriptor*> set;
    message.GetReflection()->ListFields(message, &set);
    const std::unique_ptr<google::protobuf::Message> unset(message.New());
    for (const FieldDescriptor* field : set) {
      const std::string name(field->name());
      if (own.contains(name) || name == "origin") continue;  // where a field was written is not what it says
      const int count = field->is_repeated() ? message.GetReflection()->FieldSize(message, field) : 1;
      for (int i = 0; i < count; ++i) {
        const std::string at = StrCat(path, ".", name, field->is_repeated() ? StrCat("[", i, "]") : std::string());
        if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
          const google::protobuf::Message& below = field->is_repeated()
                                                       ? message.GetReflection()->GetRepeatedMessage(message, field, i)
                                                       : message.GetReflection()->GetMessage(message, field);
          AddMessage(below, at, own);
          continue;
        }
        const std::string text = ScalarText(message, field, field->is_repeated() ? i : -1);
        if (!field->is_repeated() && text == ScalarText(*unset, field, -1)) continue;
        Add(at, field->cpp_type() == FieldDescriptor::CPPTYPE_STRING ? Meant(message, name, text) : text);
      }
    }
  }

  // Layer by layer, with its place so that another order is found.
  void AddNet(const NetParameter& net, const std::string& path) {
    std::set<std::string> names;
    for (int i = 0; i < net.layer_size(); ++i) {
      const LayerParameter& layer = net.layer(i);
      const bool is_new = names.insert(layer.name()).second;
      const std::string at = StrCat(path, ".layer[", is_new ? layer.name() : std::to_string(i), "]");
      Add(at, StrCat("a ", layer.type(), " layer, number ", i));
      AddMessage(layer, at, OwnLayerFields());
    }
  }

  std::vector<RankField> Take() { return std::move(fields_); }

 private:
  std::string Meant(const google::protobuf::Message& message, const std::string& name, const std::string& text) const {
    if (text.empty() || IsNeverAFile(name)) return StrCat("\"", text, "\"");
    const std::string root = RootBeside(message, name);
    if (data_ != nullptr) {
      const auto known = data_->contents.find(DataName(text, root));
      if (known != data_->contents.end()) return known->second;
    }
    const std::string content = ContentOf(text, root);
    return content.empty() ? StrCat("\"", text, "\"") : content;
  }

  const DataOfRun* data_;
  std::vector<RankField> fields_;
};

// Variables that change what is computed: Moka's own, the thread team's and those of the libraries that compute.
bool Counts(std::string_view name) {
  constexpr std::array<std::string_view, 4> kOwn = {"MOKA_RESTARTED_BY", "MOKA_SILENCE", "MOKA_CUDA_LIBRARIES",
                                                    "MOKA_DATA"};
  constexpr std::array<std::string_view, 5> kFamilies = {"MOKA_", "ONEDNN_", "DNNL_", "CUBLAS_", "CUDNN_"};
  constexpr std::array<std::string_view, 4> kNames = {"OMP_NUM_THREADS", "OMP_DYNAMIC", "OMP_THREAD_LIMIT",
                                                      "NVIDIA_TF32_OVERRIDE"};
  if (std::ranges::find(kOwn, name) != kOwn.end()) return false;
  if (std::ranges::find(kNames, name) != kNames.end()) return true;
  return std::ranges::any_of(kFamilies, [&](std::string_view family) { return name.starts_with(family); });
}

void AddEnvironment(Fields& fields) {
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    const std::string_view text = *each;
    const std::string_view name = text.substr(0, text.find('='));
    if (Counts(name))
      fields.Add(StrCat("environment ", name), std::string(text.substr(std::min(name.size() + 1, text.size()))));
  }
}

// Returns the kind of device: each rank may have a GPU of its own, so their numbers do not count.
std::string DeviceKindOf(const Arguments& arguments) {
  if (arguments.Has("gpu")) return "a GPU";
  if (!arguments.Has("device")) return "not given";
  return arguments.Get("device").starts_with("gpu") ? "a GPU" : arguments.Get("device");
}

void AddBuild(Fields& fields) {
  for (const auto& [name, version] : VersionParts()) fields.Add(StrCat("build: version of ", name), version);
  fields.Add("build: checksum of the program", BuildChecksum());
  fields.Add("instructions of the CPU (oneDNN's number)",
             std::to_string(static_cast<int>(dnnl_get_effective_cpu_isa())), true);
}

}  // namespace

std::vector<RankField> FieldsOfStart(const Arguments& arguments) {
  Fields fields;
  AddBuild(fields);
  for (const auto& [name, value] : arguments.options) {
    if (!OwnFlags().contains(name)) fields.Add(StrCat("flag --", name), value.empty() ? "given" : value);
  }
  // The first rank's run is made; what another names is told.
  fields.Add("flag --run", arguments.Get("run", "not given"), true);
  fields.Add("flag --runs", arguments.Get("runs", "runs"), true);
  fields.Add("flag --resume", arguments.Has("resume") ? StrCat("given ", arguments.Get("resume")) : "not given", true);
  fields.Add("flag --device", DeviceKindOf(arguments), true);
  // All measure their clocks for a trace together.
  if (arguments.Has("trace")) fields.Add("flag --trace", "given");
  AddEnvironment(fields);
  return fields.Take();
}

std::vector<RankField> FieldsOfSetup(const TrainSetup& setup) {
  Fields fields(&setup.data);
  fields.AddMessage(setup.solver, "solver", OwnSolverFields());
  const std::string& prefix = setup.solver.snapshot_prefix();
  fields.Add("solver.snapshot_prefix", prefix.empty() ? "not given" : StrCat("\"", prefix, "\""), true);
  const int64_t threads = setup.solver.threads();
  fields.Add("threads", threads > 0 ? std::to_string(threads) : "those that the rank may use");
  fields.Add("threads of the team", std::to_string(ThreadCount()), true);
  if (setup.nets.turns.empty()) fields.AddNet(setup.nets.train, "net");
  for (size_t i = 0; i < setup.nets.turns.size(); ++i) fields.AddNet(setup.nets.turns[i], StrCat("net of turn ", i));
  for (size_t i = 0; i < setup.nets.tests.size(); ++i) fields.AddNet(setup.nets.tests[i], StrCat("test net ", i));
  for (const auto& [name, text] : setup.net_files) {
    // Nets have been compared; class names and vocabularies stand beside them.
    if (!name.ends_with(".prototxt")) fields.Add(StrCat("file ", name), fmt::format("{:016x}", Hash64(text)));
  }
  int number = 0;
  const auto add_files = [&](const std::string& list) {
    for (const std::string& file : Split(list, ',')) {
      const std::string name(Trim(file));
      if (name.empty()) continue;
      const std::string content = ContentOf(name);
      fields.Add(StrCat("weights ", number++), content.empty() ? StrCat("\"", name, "\"") : content);
    }
  };
  for (const std::string& list : setup.solver.weights()) add_files(list);
  for (const std::string& list : setup.weights) add_files(list);
  if (!setup.from.empty()) add_files(setup.from);
  if (!setup.caffe_snapshot.empty()) fields.Add("snapshot", ContentOf(setup.caffe_snapshot));
  if (setup.resume) {
    fields.Add("resumed iteration", std::to_string(setup.resume->trainer.iteration));
    fields.Add("resumed checkpoint", ContentOf(setup.resume->path.string() + ".sha256"));
  }
  return fields.Take();
}

}  // namespace moka
