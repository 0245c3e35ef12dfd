#include "tools/rank_facts.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "core/checksum.h"
#include "core/text.h"
#include "data/lmdb_file.h"
#include "tools/version.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr int64_t kMostRead = int64_t{16} << 20U;  // bytes of one file or database
constexpr int64_t kPieces = 256;
constexpr int64_t kMostRecords = 4096;
constexpr int64_t kMostListed = 256;  // files of a list that are read

// Flags of moka train that say where or how a rank runs, not what it computes, and those whose effect is in the solver,
// the nets or the weights, which are compared themselves.
const std::set<std::string, std::less<>> kOfOneRank = {
    "solver", "weights",  "snapshot",      "resume",        "from",  "run",      "runs",   "iterations",
    "seed",   "baseline", "data-threads",  "max-time",      "trace", "progress", "device", "gpu",
    "quiet",  "verbose",  "sigint_effect", "sighup_effect", "color", "pin"};
// Fields of a solver that say where the nets lie, where the first rank writes, and which device a rank has.
const std::set<std::string, std::less<>> kPlaces = {"net",      "net_param",       "train_net",
                                                    "test_net", "train_net_param", "test_net_param",
                                                    "weights",  "snapshot_prefix", "device_id"};

uint64_t HashOfParts(const fs::path& path, int64_t bytes) {
  std::ifstream file(path, std::ios::binary);
  std::string buffer;
  uint64_t hash = 0;
  const int64_t pieces = bytes <= kMostRead ? 1 : kPieces;
  const int64_t piece = bytes <= kMostRead ? bytes : kMostRead / kPieces;
  for (int64_t i = 0; i < pieces && file; ++i) {
    buffer.resize(static_cast<size_t>(piece));
    file.seekg(pieces == 1 ? 0 : (bytes - piece) / (pieces - 1) * i);
    file.read(buffer.data(), piece);
    hash = Hash64({buffer.data(), static_cast<size_t>(file.gcount())}, hash);
  }
  return hash;
}

std::string DatabaseContent(const fs::path& path) {
  const LmdbReader reader(path, LmdbReader::Access::kShuffled);
  const int64_t records = reader.size();
  const int64_t step = std::max<int64_t>({1, records / kMostRecords, reader.file_bytes() / kMostRead});
  uint64_t hash = 0;
  for (int64_t i = 0; i < records; i += step) hash = Hash64(reader.value(i), Hash64(reader.key(i), hash));
  return fmt::format("{} records, checksum {:016x}", records, hash);
}

// Files that the words of a text name.
uint64_t HashOfListed(const fs::path& list, int64_t bytes) {
  constexpr int64_t kMostOfList = int64_t{64} << 20U;
  if (bytes > kMostOfList) return 0;
  std::ifstream file(list, std::ios::binary);
  std::vector<std::string> words;
  for (std::string line; std::getline(file, line);) {
    if (line.find('\0') != std::string::npos) return 0;  // no text
    words.push_back(line.substr(0, line.find_first_of(" \t\r")));
  }
  uint64_t hash = 0;
  const auto step = std::max<size_t>(1, words.size() / kMostListed);
  for (size_t i = 0; i < words.size(); i += step) {
    std::error_code code;
    if (words[i].empty() || !fs::is_regular_file(words[i], code)) continue;
    const auto size = static_cast<int64_t>(fs::file_size(words[i], code));
    if (!code) hash = Hash64(std::to_string(HashOfParts(words[i], size)), hash);
  }
  return hash;
}

std::string ValueOf(const Message& message, const FieldDescriptor* field, int index) {
  std::string text;
  google::protobuf::TextFormat::PrintFieldValueToString(message, field, index, &text);
  if (field->cpp_type() != FieldDescriptor::CPPTYPE_STRING) return text;
  std::string scratch;
  const auto* reflection = message.GetReflection();
  const std::string value = field->is_repeated()
                                ? reflection->GetRepeatedStringReference(message, field, index, &scratch)
                                : reflection->GetStringReference(message, field, &scratch);
  std::error_code code;
  const bool is_there = value.size() < 4096 && value.find('\0') == std::string::npos && !value.empty() &&
                        (value.find('/') != std::string::npos || fs::is_regular_file(value, code) ||
                         fs::exists(fs::path(value) / "data.mdb", code)) &&
                        fs::exists(value, code);
  return is_there ? ContentOf(value) : text;
}

void AddFields(const Message& message, const std::string& path, const std::set<std::string, std::less<>>& left_out,
               std::vector<RankFact>& facts) {
  std::vector<const FieldDescriptor*> fields;
  const auto* reflection = message.GetReflection();
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string name(field->name());
    if (name == "origin" || left_out.contains(name)) continue;
    const int count = field->is_repeated() ? reflection->FieldSize(message, field) : 1;
    if (field->is_repeated()) facts.push_back({StrCat("number of ", path, ".", name), std::to_string(count)});
    for (int i = 0; i < count; ++i) {
      std::string own = StrCat(path, ".", name);
      if (field->is_repeated()) own += StrCat("[", i, "]");
      if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
        facts.push_back({own, ValueOf(message, field, field->is_repeated() ? i : -1)});
        continue;
      }
      const Message& inner = field->is_repeated() ? reflection->GetRepeatedMessage(message, field, i)
                                                  : reflection->GetMessage(message, field);
      if (const auto* layer = dynamic_cast<const LayerParameter*>(&inner)) {
        own = StrCat(path, ".", name, "[", layer->name().empty() ? std::to_string(i) : layer->name(), "]");
      }
      AddFields(inner, own, {}, facts);
    }
  }
}

}  // namespace

std::string ContentOf(const fs::path& path) {
  std::error_code code;
  if (fs::is_directory(path, code)) {
    return fs::exists(path / "data.mdb", code) ? DatabaseContent(path) : std::string("folder");
  }
  if (!fs::is_regular_file(path, code)) return "no regular file";
  const auto bytes = static_cast<int64_t>(fs::file_size(path, code));
  if (code) return "unreadable";
  const uint64_t hash = Hash64(std::to_string(HashOfListed(path, bytes)), HashOfParts(path, bytes));
  return fmt::format("file of {} bytes, checksum {:016x}", bytes, hash);
}

std::vector<RankFact> RankFactsOf(const Arguments& arguments, const TrainSetup& setup) {
  std::vector<RankFact> facts = {{"moka's version and build", BuildText()}};
  for (const auto& [flag, value] : arguments.options) {
    if (!kOfOneRank.contains(flag)) facts.push_back({StrCat("--", flag), value.empty() ? "given" : value});
  }
  AddFields(setup.solver, "solver", kPlaces, facts);
  AddFields(setup.nets.train, "train_net", {}, facts);
  facts.push_back({"number of test nets", std::to_string(setup.nets.tests.size())});
  for (size_t i = 0; i < setup.nets.tests.size(); ++i) {
    AddFields(setup.nets.tests[i], StrCat("test_net[", i, "]"), {}, facts);
  }
  for (size_t i = 0; i < setup.nets.turns.size(); ++i) {
    AddFields(setup.nets.turns[i], StrCat("turn[", i, "].net"), {}, facts);
  }
  std::vector<std::string> weights(setup.solver.weights().begin(), setup.solver.weights().end());
  weights.insert(weights.end(), setup.weights.begin(), setup.weights.end());
  if (arguments.Has("snapshot")) weights.push_back(arguments.Get("snapshot"));
  int number = 0;
  for (const std::string& list : weights) {
    for (const std::string& file : Split(list, ',')) {
      std::error_code code;
      facts.push_back({StrCat("weights[", number++, "]"), fs::exists(file, code) ? ContentOf(file) : "missing"});
    }
  }
  facts.push_back(
      {"the iteration it goes on from", std::to_string(setup.resume ? setup.resume->trainer.iteration : int64_t{0})});
  return facts;
}

}  // namespace moka
