// Each key of a topology's file is a row with its reader; errors stand at the line, and a rate of 0 is refused as it
// would make no end of time.
#include "comm/simulate/topology.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>

#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

struct Line {
  SourcePlace place;
  std::string key;
  std::vector<std::string> values;
};

double NumberOf(const Line& line, const std::string& word, double least) {
  double value = 0;
  const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (code == std::errc() && end == word.data() + word.size() && std::isfinite(value) && value >= least) return value;
  throw Error(ErrorKind::kConfig, line.place,
              StrCat(line.key, " is \"", Printable(word), "\", must be a number of at least ", least));
}

// The line's only value.
double NumberOf(const Line& line, double least) {
  if (line.values.size() == 1) return NumberOf(line, line.values[0], least);
  throw Error(ErrorKind::kConfig, line.place, StrCat(line.key, " has ", line.values.size(), " values, must have one"));
}

constexpr double kLeastRate = 1e-6;  // a rate of 0 would make no end of time
constexpr int kMostDevices = 1 << 20;

int Devices(const Line& line, const std::string& word) {
  const double value = NumberOf(line, word, 1);
  if (value == std::floor(value) && value <= kMostDevices) return static_cast<int>(value);
  throw Error(ErrorKind::kConfig, line.place,
              StrCat(line.key, " is \"", Printable(word), "\", must be a whole number up to ", kMostDevices));
}

struct Key {
  std::string_view name;
  bool must_be = true;
  void (*read)(const Line&, Topology&) = nullptr;
};

constexpr std::array<Key, 10> kKeys = {{
    {"name", true, [](const Line& line, Topology& t) { t.name = Join(line.values, " "); }},
    {"devices_per_node", true,
     [](const Line& line, Topology& t) { t.devices_per_node = Devices(line, Join(line.values, " ")); }},
    {"inside_alpha_us", true, [](const Line& line, Topology& t) { t.inside.alpha_s = NumberOf(line, 0) * 1e-6; }},
    {"inside_gb_s", true,
     [](const Line& line, Topology& t) { t.inside.bytes_per_s = NumberOf(line, kLeastRate) * 1e9; }},
    {"network_alpha_us", true, [](const Line& line, Topology& t) { t.network.alpha_s = NumberOf(line, 0) * 1e-6; }},
    {"network_gb_s", true,
     [](const Line& line, Topology& t) { t.network.bytes_per_s *= NumberOf(line, kLeastRate) * 1e9; }},
    {"network_efficiency", false,
     [](const Line& line, Topology& t) { t.network.bytes_per_s *= NumberOf(line, kLeastRate); }},
    {"add_ns", false, [](const Line& line, Topology& t) { t.add_s = NumberOf(line, 0) * 1e-9; }},
    {"call_us", false, [](const Line& line, Topology& t) { t.call_s = NumberOf(line, 0) * 1e-6; }},
    {"devices", true,
     [](const Line& line, Topology& t) {
       for (const std::string& word : line.values) t.devices.push_back(Devices(line, word));
       std::ranges::sort(t.devices);
     }},
}};

const Key& FindKey(const Line& line) {
  std::vector<std::string> known;
  for (const Key& key : kKeys) {
    if (key.name == line.key) return key;
    known.emplace_back(key.name);
  }
  const std::string near = DidYouMean(line.key, known);
  throw Error(ErrorKind::kConfig, line.place, StrCat("a topology has no \"", Printable(line.key), "\""),
              near.empty() ? StrCat("known are ", Join(known, ", ")) : near);
}

}  // namespace

Topology TopologyOfText(std::string_view text, const std::string& file) {
  Topology topology;
  std::set<std::string_view> seen;
  Line line{{file, 0}, {}, {}};
  for (const std::string& whole : Split(text, '\n')) {
    ++line.place.line;
    line.values.clear();
    for (const std::string& word : Split(whole.substr(0, whole.find('#')), ' ')) {
      if (!Trim(word).empty()) line.values.emplace_back(Trim(word));
    }
    if (line.values.empty()) continue;
    line.key = line.values[0];
    line.values.erase(line.values.begin());
    const Key& key = FindKey(line);
    if (line.values.empty()) throw Error(ErrorKind::kConfig, line.place, StrCat(line.key, " has no value"));
    if (!seen.insert(key.name).second) throw Error(ErrorKind::kConfig, line.place, StrCat(line.key, " stands twice"));
    key.read(line, topology);
  }
  for (const Key& key : kKeys) {
    if (key.must_be && !seen.contains(key.name)) {
      throw Error(ErrorKind::kConfig, {file, 0}, StrCat("the topology does not say ", key.name));
    }
  }
  return topology;
}

}  // namespace moka
