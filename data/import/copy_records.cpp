// Records are copied as bytes, in the new order, through the writer that imports use, so that a copy that was cut goes
// on, too.
#include "data/import/copy_records.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/checksum.h"
#include "core/error.h"
#include "core/file.h"
#include "core/rng.h"
#include "core/text.h"
#include "data/records/lmdb_file.h"
#include "data/records/lmdb_writer.h"
#include "data/records/record_database.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int64_t kBatchRecords = 16384;

std::string IdentityOf(const RecordDatabase& database, Json what) {
  what["format"] = "moka-copy";
  what["version"] = 1;
  what["source"] = database.reader().path().string();
  what["items"] = database.size();
  what["items_crc32c"] = database.Checksum();
  // Pictures that go into a net trained on the copy are brought to the same sides.
  const fs::path import = database.reader().path() / "import.json";
  std::error_code ignored;
  if (fs::is_regular_file(import, ignored)) {
    const Json made = Json::parse(ReadFile(import), nullptr, /*allow_exceptions=*/false);
    if (made.is_object() && made.contains("sides")) what["sides"] = made["sides"];
  }
  return what.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

bool IsFinished(const fs::path& out, const std::string& identity) {
  std::error_code ignored;
  const fs::path file = out / "import.json";
  return fs::is_regular_file(file, ignored) && ReadFile(file) == identity;
}

struct Progress {
  const CopyOptions& options;
  int64_t total = 0;
  int64_t done = 0;

  void Step() {
    if (options.wants_stop && options.wants_stop()) {
      throw Error(ErrorKind::kInterrupted, {}, StrCat("interrupted after ", done, " of ", total, " records"),
                  "the same command goes on");
    }
    constexpr int64_t kStep = 256;
    ++done;
    if (options.progress && (done % kStep == 0 || done == total)) options.progress(done, total);
  }
};

std::string_view ValueToCopy(const LmdbReader& reader, int64_t i) {
  try {
    return reader.value(i);
  } catch (const Error& e) {
    throw Error(e.kind(), {}, StrCat(reader.NameOf(i), ": ", e.text()), e.hint());
  }
}

void CopyRecords(const LmdbReader& reader, const std::vector<int64_t>& order, const fs::path& out,
                 const std::string& identity, Progress& progress) {
  LmdbWriter::Options options;
  options.identity = identity;
  options.restart = progress.options.restart;
  options.batch_records = kBatchRecords;
  for (const int64_t i : order) options.expected_bytes += reader.value_bytes(i);
  LmdbWriter writer(out, options);
  progress.done += writer.entries();
  for (auto n = static_cast<size_t>(writer.entries()); n < order.size(); ++n) {
    progress.Step();
    writer.Put(LmdbKey(static_cast<int64_t>(n), NameInKey(reader.key(order[n]))), ValueToCopy(reader, order[n]));
  }
  for (const char* name : {"labels.txt", kSchemaFile}) {
    const fs::path file = reader.path() / name;
    std::error_code ignored;
    if (fs::exists(fs::symlink_status(file, ignored))) writer.PutFile(name, ReadFile(file));
  }
  writer.Finish();
}

// Indices drawn into groups of the given sizes, one after the other.
void DrawGroups(const std::vector<int64_t>& from, const std::vector<int64_t>& sizes, uint64_t seed, uint64_t stream,
                std::vector<std::vector<int64_t>>& groups) {
  if (from.empty()) return;
  const Permutation permutation(from.size(), seed, stream);
  uint64_t next = 0;
  for (size_t part = 0; part < groups.size(); ++part) {
    for (int64_t i = 0; i < sizes[part]; ++i) groups[part].push_back(from[permutation(next++)]);
  }
}

int64_t ClassAt(const RecordDatabase& database, int64_t i, RecordDatabase::Scratch& scratch) {
  try {
    if (const std::optional<int64_t> label = database.ClassOf(i, scratch)) return *label;
  } catch (const Error& e) {
    throw Error(e.kind(), {}, StrCat(database.NameOf(i), " has no class: ", e.text()), e.hint());
  }
  throw Error(ErrorKind::kBadData, StrCat(database.NameOf(i), " has no class: its kind of record has no single label"));
}

}  // namespace

int64_t ShuffleLmdb(const fs::path& from, const fs::path& out, const CopyOptions& options) {
  const RecordDatabase database(from, LmdbReader::Access::kShuffled);
  const LmdbReader& reader = database.reader();
  if (reader.size() == 0) throw Error(ErrorKind::kBadData, StrCat(from.string(), ": no records"));
  const Permutation permutation(static_cast<uint64_t>(reader.size()), options.seed, StableHash("shuffle"));
  std::vector<int64_t> order(static_cast<size_t>(reader.size()));
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(permutation(i));
  Progress progress{options, reader.size()};
  CopyRecords(reader, order, out, IdentityOf(database, {{"shuffle", options.seed}}), progress);
  return reader.size();
}

std::vector<SplitPart> ParseParts(std::string_view text) {
  std::vector<SplitPart> parts;
  double sum = 0;
  for (const std::string& word : Split(text, ',')) {
    const size_t equals = word.find('=');
    SplitPart part{.name = word.substr(0, equals)};
    const char* end = word.data() + word.size();
    const char* begin = equals == std::string::npos ? end : word.data() + equals + 1;
    const auto read = std::from_chars(begin, end, part.share);
    if (read.ec != std::errc() || read.ptr != end || !(part.share > 0 && part.share <= 1)) {
      throw Error(ErrorKind::kUsage, {}, StrCat("a part is NAME=SHARE, found \"", Printable(word), "\""),
                  "for example --parts train=0.9,val=0.1");
    }
    if (part.name.empty() || part.name.starts_with('.') || part.name.find('/') != std::string::npos) {
      throw Error(ErrorKind::kUsage, StrCat("a part's name is a file's name, found \"", Printable(part.name), "\""));
    }
    for (const SplitPart& other : parts) {
      if (other.name == part.name) throw Error(ErrorKind::kUsage, StrCat("part \"", part.name, "\" is named twice"));
    }
    sum += part.share;
    parts.push_back(std::move(part));
  }
  constexpr double kRounding = 1e-9;
  if (sum > 1 + kRounding) throw Error(ErrorKind::kUsage, StrCat("the parts' shares sum to ", sum, ", above 1"));
  return parts;
}

std::vector<int64_t> Apportion(int64_t count, const std::vector<SplitPart>& parts) {
  double rest = 1;
  std::vector<double> shares;
  for (const SplitPart& part : parts) {
    shares.push_back(part.share);
    rest -= part.share;
  }
  constexpr double kRounding = 1e-9;
  shares.push_back(rest > kRounding ? rest : 0);
  std::vector<int64_t> counts;
  std::vector<double> remainders;
  for (const double share : shares) {
    const double exact = share * static_cast<double>(count);
    counts.push_back(static_cast<int64_t>(std::floor(exact + kRounding)));
    remainders.push_back(exact - static_cast<double>(counts.back()));
  }
  std::vector<size_t> order(shares.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return remainders[a] > remainders[b]; });
  int64_t left = count - std::accumulate(counts.begin(), counts.end(), int64_t{0});
  for (size_t i = 0; left > 0; ++i, --left) ++counts[order[i]];
  return counts;
}

SplitReport SplitLmdb(const fs::path& from, const std::string& out, const std::vector<SplitPart>& parts, bool by_class,
                      const CopyOptions& options) {
  const RecordDatabase database(from);
  const LmdbReader& reader = database.reader();
  std::map<int64_t, std::vector<int64_t>> classes;  // one, unless by class
  RecordDatabase::Scratch scratch;
  for (int64_t i = 0; i < reader.size(); ++i) classes[by_class ? ClassAt(database, i, scratch) : 0].push_back(i);
  std::vector<std::vector<int64_t>> groups(parts.size());
  for (const auto& [label, indices] : classes) {
    const std::vector<int64_t> sizes = Apportion(static_cast<int64_t>(indices.size()), parts);
    DrawGroups(indices, sizes, options.seed, StableHash(StrCat("split ", label)), groups);
  }
  SplitReport report;
  Json what = {{"seed", options.seed}, {"by_class", by_class}};
  for (size_t i = 0; i < parts.size(); ++i) {
    what["parts"][parts[i].name] = parts[i].share;
    report.paths.emplace_back(out + parts[i].name);
    report.records.push_back(static_cast<int64_t>(groups[i].size()));
    if (groups[i].empty()) {
      throw Error(ErrorKind::kBadData, StrCat("part \"", parts[i].name, "\" would be empty: ", from.string(), " has ",
                                              reader.size(), " records"));
    }
  }
  const int64_t total = std::accumulate(report.records.begin(), report.records.end(), int64_t{0});
  report.left_out = reader.size() - total;
  Progress progress{options, total};
  for (size_t i = 0; i < parts.size(); ++i) {
    std::sort(groups[i].begin(), groups[i].end());
    what["part"] = parts[i].name;
    const std::string identity = IdentityOf(database, what);
    if (IsFinished(report.paths[i], identity)) {
      progress.done += report.records[i];
    } else {
      CopyRecords(reader, groups[i], report.paths[i], identity, progress);
    }
  }
  return report;
}

}  // namespace moka
