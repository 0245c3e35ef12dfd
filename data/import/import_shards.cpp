// Importer of WebDataset's shards: tar archives whose members of one name, up to the first dot, are the parts of one
// sample: 0001.jpg, 0001.cls, 0001.txt. github.com/webdataset/webdataset.
#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "core/checksum.h"
#include "core/error.h"
#include "core/text.h"
#include "core/utf8.h"
#include "data/files/file_tree.h"
#include "data/files/list_text.h"
#include "data/files/packed_file.h"
#include "data/import/import.h"
#include "data/import/record_writer.h"
#include "data/import/source_kind.h"
#include "data/labels/sample_writing.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

int64_t NumberOf(std::string_view text) {
  int64_t value = -1;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  return read.ec == std::errc() && read.ptr == text.data() + text.size() ? value : -1;
}

// The names that "data-{000..012}.tar" stands for.
std::vector<fs::path> Enumerated(const std::string& pattern, size_t open) {
  const size_t close = pattern.find('}', open);
  const size_t dots = pattern.find("..", open);
  const std::string from = dots < close ? pattern.substr(open + 1, dots - open - 1) : std::string();
  const int64_t first = NumberOf(from);
  const int64_t last = dots < close ? NumberOf(pattern.substr(dots + 2, close - dots - 2)) : -1;
  constexpr int64_t kMost = 1000000;
  if (close == std::string::npos || first < 0 || last < first || last - first >= kMost) {
    throw Error(ErrorKind::kUsage, {}, StrCat("cannot read the names of shards \"", Printable(pattern), "\""),
                "expected a range as {000000..000012}");
  }
  std::vector<fs::path> names;
  for (int64_t i = first; i <= last; ++i) {
    std::string number = std::to_string(i);
    if (number.size() < from.size()) number.insert(0, from.size() - number.size(), '0');
    names.emplace_back(StrCat(pattern.substr(0, open), number, pattern.substr(close + 1)));
  }
  return names;
}

std::vector<fs::path> ShardsOf(const std::string& pattern) {
  const size_t open = pattern.find('{');
  if (open != std::string::npos) return Enumerated(pattern, open);
  const fs::path path(pattern);
  if (pattern.find_first_of("*?[") == std::string::npos) return {path};
  std::vector<fs::path> shards;
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  for (const fs::path& entry : SortedEntries(folder)) {
    if (fnmatch(path.filename().c_str(), entry.filename().c_str(), 0) == 0) shards.push_back(entry);
  }
  if (shards.empty()) throw Error(ErrorKind::kNoInput, StrCat("no file is called ", pattern));
  return shards;
}

enum class ShardPart { kPicture, kMask, kLabel, kText, kTargets, kOther };

// By a member's extension, all that follows the first dot.
ShardPart ShardPartOf(std::string_view extension) {
  if (extension.find('.') == std::string_view::npos && IsImageName(StrCat(".", extension))) return ShardPart::kPicture;
  if (extension == "seg.png" || extension == "mask.png") return ShardPart::kMask;
  if (extension == "cls") return ShardPart::kLabel;
  if (extension == "txt") return ShardPart::kText;
  if (extension == "target") return ShardPart::kTargets;
  return ShardPart::kOther;
}

struct MemberName {
  std::string sample;     // with its folders
  std::string extension;  // in small letters
};

// Hidden members have no sample.
MemberName Parse(std::string name) {
  const size_t slash = name.rfind('/');
  const size_t begin = slash == std::string::npos ? 0 : slash + 1;
  const size_t dot = name.find('.', begin);
  if (dot == begin) return {};
  MemberName parsed{name.substr(0, dot), dot == std::string::npos ? std::string() : name.substr(dot + 1)};
  for (char& c : parsed.extension) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return parsed;
}

std::vector<float> NumbersOf(std::string text) {
  std::vector<float> numbers;
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == ',' || c == '[' || c == ']' || c == '\n'; }, ' ');
  for (const std::string& word : Split(text, ' ')) {
    const std::string_view number = Trim(word);
    if (number.empty()) continue;
    const std::optional<float> value = FloatOfText(number);
    if (!value) {
      throw Error(ErrorKind::kBadData,
                  StrCat("its .target has \"", Printable(number), "\", expected numbers that a float holds"));
    }
    numbers.push_back(*value);
  }
  return numbers;
}

// A sample's members, as far as they are used.
struct Group {
  std::string shard;
  std::string name;
  std::map<ShardPart, std::string> parts;
};

// Calls visit(Group) for each sample of the shards, in order; with the bytes of its members, or only the short ones'.
// `seen` is given each member's name and size. Members of one name stand together.
class ShardReader {
 public:
  enum class Reading { kAll, kShort };
  std::function<void(const std::string& name, int64_t bytes)> seen = [](const std::string&, int64_t) {};
  std::function<bool()> is_full = [] { return false; };
  std::set<std::string> left_out = {};  // extensions
  std::vector<std::string> warnings = {};

  void Visit(const std::vector<fs::path>& shards, Reading reading, const std::function<void(Group&&)>& visit) {
    for (const fs::path& shard : shards) {
      Group group;
      ArchiveReader tar(shard);
      while (!is_full() && tar.Next()) {
        const MemberName name = Parse(tar.name());
        if (name.sample.empty()) continue;
        seen(tar.name(), tar.bytes());
        if (name.sample != group.name) {
          if (!group.parts.empty()) visit(std::move(group));
          group = {.shard = shard.string(), .name = name.sample, .parts = {}};
        }
        Take(name, reading, tar, group);
      }
      if (!group.parts.empty() && !is_full()) visit(std::move(group));
      if (reading != Reading::kShort) continue;  // the first of two readings tells
      for (std::string& warning : tar.Warnings()) warnings.push_back(std::move(warning));
    }
  }

 private:
  void Take(const MemberName& name, Reading reading, ArchiveReader& tar, Group& group) {
    const ShardPart part = ShardPartOf(name.extension);
    if (part == ShardPart::kOther) {
      left_out.insert(name.extension);
      return;
    }
    const bool is_long = part == ShardPart::kPicture || part == ShardPart::kMask;
    const bool is_read = reading == Reading::kAll || !is_long;
    if (!group.parts.emplace(part, is_read ? tar.Read() : std::string()).second) {
      throw Error(ErrorKind::kBadData, StrCat(group.shard, ": sample \"", Printable(group.name),
                                              "\" has two members of the kind of .", Printable(name.extension)));
    }
  }
};

// The properties that all samples of a set share.
struct ShardSet {
  std::set<ShardPart> parts;
  size_t targets = 0;  // numbers of a sample
  int64_t samples = 0;
  int64_t bytes = 0;
  uint32_t crc32c = 0;  // of the members' names and sizes, and of the short ones' bytes
  std::set<std::string> left_out;
  std::vector<std::string> warnings;

  // Pictures with a class and nothing else.
  bool is_datums() const { return parts == std::set<ShardPart>{ShardPart::kPicture, ShardPart::kLabel}; }
};

ShardSet LookThroughShards(const std::vector<fs::path>& shards, const ImportOptions& options) {
  ShardSet set;
  ShardReader reader;
  reader.seen = [&](const std::string& name, int64_t bytes) {
    CheckImportStop(options);
    set.bytes += bytes;
    set.crc32c = Crc32c(StrCat(name, "\t", bytes, "\n"), set.crc32c);
  };
  reader.Visit(shards, ShardReader::Reading::kShort, [&](Group&& group) {
    ++set.samples;
    for (const auto& [part, bytes] : group.parts) {
      set.parts.insert(part);
      set.crc32c = Crc32c(bytes, set.crc32c);
    }
    const auto targets = group.parts.find(ShardPart::kTargets);
    if (targets == group.parts.end() || set.targets > 0) return;
    try {
      set.targets = NumbersOf(targets->second).size();
    } catch (const Error&) {
      set.targets = 0;  // a bad sample: the next one says how many there are
    }
  });
  if (set.samples == 0) throw Error(ErrorKind::kBadData, StrCat(shards.front().string(), ": no samples"));
  set.left_out = std::move(reader.left_out);
  set.warnings = std::move(reader.warnings);
  return set;
}

const char* NameOf(ShardPart part) {
  switch (part) {
    case ShardPart::kPicture: return "picture (.jpg, .png, .webp, .tif, ...)";
    case ShardPart::kMask: return "mask (.seg.png or .mask.png)";
    case ShardPart::kLabel: return "class (.cls)";
    case ShardPart::kText: return "text (.txt)";
    case ShardPart::kTargets: return "numbers (.target)";
    case ShardPart::kOther: break;
  }
  return "part";
}

const std::string& Needed(const Group& group, ShardPart part) {
  const auto found = group.parts.find(part);
  if (found == group.parts.end()) throw Error(ErrorKind::kBadData, StrCat("has no ", NameOf(part), ", as others have"));
  return found->second;
}

int32_t LabelOf(const Group& group) {
  const std::string_view text = Trim(Needed(group, ShardPart::kLabel));
  int32_t label = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), label);
  if (text.empty() || read.ec != std::errc() || read.ptr != text.data() + text.size()) {
    throw Error(ErrorKind::kBadData, StrCat("its .cls is \"", Printable(text), "\", expected a whole number"));
  }
  return label;
}

void DescribeGroup(const Group& group, const ShardSet& set, const Image& image, SampleRecord& record) {
  if (set.parts.contains(ShardPart::kLabel)) record.add_label(LabelOf(group));
  if (set.parts.contains(ShardPart::kMask)) record.set_mask(MaskFile(Needed(group, ShardPart::kMask), image));
  if (set.parts.contains(ShardPart::kText)) {
    const std::string text(Trim(Needed(group, ShardPart::kText)));
    if (!IsUtf8(text)) throw Error(ErrorKind::kBadData, "its .txt is no UTF-8");
    record.add_text(text);
  }
  if (!set.parts.contains(ShardPart::kTargets)) return;
  const std::vector<float> numbers = NumbersOf(Needed(group, ShardPart::kTargets));
  if (numbers.size() != set.targets) {
    throw Error(ErrorKind::kBadData, StrCat("its .target has ", numbers.size(), " numbers, expected ", set.targets));
  }
  record.mutable_target()->Assign(numbers.begin(), numbers.end());
}

ImportItem ItemOf(Group&& from, const ShardSet& set) {
  const auto group = std::make_shared<const Group>(std::move(from));
  ImportItem item{.name = group->name, .place = StrCat(group->shard, ": sample \"", Printable(group->name), "\"")};
  for (const auto& [part, bytes] : group->parts) item.held_bytes += static_cast<int64_t>(bytes.size());
  item.read = [=] { return Needed(*group, ShardPart::kPicture); };
  if (!set.is_datums()) {
    item.describe_sample = [=, &set](const Image& image, SampleRecord& record, RecordWarnings&) {
      DescribeGroup(*group, set, image, record);
    };
    return item;
  }
  try {
    item.label = LabelOf(*group);
  } catch (const Error& e) {
    item.read = [e]() -> std::string { throw Error(e); };
  }
  return item;
}

SampleSchema SchemaOf(const ShardSet& set) {
  SampleSchema schema = NewSchema();
  if (set.parts.contains(ShardPart::kLabel)) schema.add_label()->set_name("class");
  if (set.parts.contains(ShardPart::kMask)) schema.set_mask(true);
  if (set.parts.contains(ShardPart::kText)) schema.add_text("text");
  for (size_t i = 0; i < set.targets; ++i) schema.add_target(StrCat("target", i));
  return schema;
}

}  // namespace

// Imports archives of samples. Without shuffling they are streamed; with it, the samples are held in memory.
ImportReport ImportShards(const std::string& pattern, const fs::path& out, const ImportOptions& options) {
  const std::vector<fs::path> shards = ShardsOf(pattern);
  const ShardSet set = LookThroughShards(shards, options);
  RecordWriter writer(out, options,
                      {.text = StrCat("shards ", pattern),
                       .items = set.samples,
                       .crc32c = set.crc32c,
                       .bytes = set.bytes,
                       .kind = set.is_datums() ? RecordKind::kDatum : RecordKind::kSample});
  std::vector<Group> groups;
  ShardReader reader;
  reader.seen = [&](const std::string&, int64_t) { CheckImportStop(options); };
  reader.is_full = [&] { return writer.full(); };
  reader.Visit(shards, ShardReader::Reading::kAll, [&](Group&& group) {
    if (options.shuffle_seed) {
      groups.push_back(std::move(group));
    } else {
      writer.Add(ItemOf(std::move(group), set));
    }
  });
  if (options.shuffle_seed) {
    for (const int64_t i : ImportOrder(set.samples, options)) {
      writer.Add(ItemOf(std::move(groups[static_cast<size_t>(i)]), set));
    }
  }
  ImportReport report = set.is_datums() ? writer.Finish({}) : writer.FinishSamples(SchemaOf(set));
  report.warnings.insert(report.warnings.end(), set.warnings.begin(), set.warnings.end());
  for (const std::string& extension : set.left_out) {
    report.warnings.push_back(
        StrCat("members ", extension.empty() ? "without an extension" : "." + extension, " are left out"));
  }
  return report;
}

SourceKind ShardsSource() {
  return {.kind = "shards",
          .parts = "NAMES",
          .makes = "WebDataset's tars: data-{000..012}.tar, data-*.tar",
          .least = 1,
          .most = 1,
          .import = [](const SourceParts& parts, const std::filesystem::path& out, const ImportOptions& options) {
            return ImportShards(parts[0], out, options);
          }};
}

}  // namespace moka
