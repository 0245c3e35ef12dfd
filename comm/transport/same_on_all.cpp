// Gathers fields as lines of text and tells the difference by majority: the rank that differs from most others is
// named, with both values.
#include "comm/transport/same_on_all.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "core/checksum.h"
#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "core/text_table.h"

namespace moka {
namespace {

constexpr const char* kHint = "start the same moka with the same solver, net, data and flags on every host";
constexpr size_t kMostTold = 8;
constexpr size_t kMostShown = 120;  // bytes of a value
// Neither is part of a field: Printable has made other characters of them.
constexpr char kBetween = '\x1f';
constexpr char kEnd = '\x1e';

std::string TextOf(const std::vector<RankField>& fields) {
  std::string text;
  for (const RankField& field : fields) {
    text += StrCat(Printable(field.path), std::string(1, kBetween), Printable(field.value), std::string(1, kBetween),
                   field.may_differ ? "1" : "0", std::string(1, kEnd));
  }
  return text;
}

std::vector<RankField> FieldsFrom(const std::string& text) {
  std::vector<RankField> fields;
  for (const std::string& each : Split(text, kEnd)) {
    const std::vector<std::string> parts = Split(each, kBetween);
    if (parts.size() == 3) fields.push_back({parts[0], parts[1], parts[2] == "1"});
  }
  return fields;
}

std::string Shown(const std::string& value) {
  return value.size() <= kMostShown ? value : StrCat(value.substr(0, kMostShown), " ..");
}

std::string RanksText(const std::vector<int>& ranks) {
  constexpr size_t kMostNamed = 6;
  std::vector<std::string> numbers;
  for (const int rank : ranks) numbers.push_back(std::to_string(rank));
  return StrCat(ranks.size() == 1 ? "rank " : "ranks ", SomeOf(std::move(numbers), kMostNamed));
}

// "rank 2: solver.momentum is 0.8, the other ranks have 0.9". Of two values held by equally many that of the first rank
// is the one that others are held to.
std::string Told(const std::string& path, const std::map<std::string, std::vector<int>>& ranks_of) {
  const auto usual = std::ranges::max_element(ranks_of, [](const auto& a, const auto& b) {
    if (a.second.size() != b.second.size()) return a.second.size() < b.second.size();
    return a.second.front() > b.second.front();
  });
  std::string text;
  for (const auto& [value, ranks] : ranks_of) {
    if (value == usual->first) continue;
    text += StrCat(text.empty() ? "" : "; ", RanksText(ranks), ": ", path, " is ", Shown(value));
  }
  const std::string others = usual->second.size() == 1 ? RanksText(usual->second) : std::string("the other ranks");
  return StrCat(text, ", ", others, usual->second.size() == 1 ? " has " : " have ", Shown(usual->first));
}

}  // namespace

void RequireSame(Communicator& world, const std::string& lines, std::string_view what) {
  const std::vector<std::string> all = world.AllGather(lines);
  for (int rank = 1; rank < world.size(); ++rank) {
    if (all[static_cast<size_t>(rank)] == all[0]) continue;
    const std::vector<std::string> first = Split(all[0], '\n');
    const std::vector<std::string> other = Split(all[static_cast<size_t>(rank)], '\n');
    const auto at = static_cast<size_t>(std::ranges::mismatch(first, other).in1 - first.begin());
    const auto line = [&](const std::vector<std::string>& texts) {
      return at < texts.size() && !texts[at].empty() ? texts[at] : std::string("no more");
    };
    throw Error(ErrorKind::kConfig, SourcePlace{},
                StrCat("the ranks do not train the same program: ", what, " ", at, " is \"", line(first), "\" on ",
                       world.NameOf(0), " and \"", line(other), "\" on ", world.NameOf(rank)),
                kHint);
  }
}

std::vector<std::string> DifferencesOf(const std::vector<std::vector<RankField>>& all, bool may_differ) {
  std::vector<std::string> paths;  // in the order of the ranks' own lists
  std::map<std::string, std::vector<const std::string*>> values;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    for (const RankField& field : all[rank]) {
      if (field.may_differ != may_differ) continue;
      auto& of_ranks = values[field.path];
      if (of_ranks.empty()) {
        paths.push_back(field.path);
        of_ranks.resize(all.size());
      }
      of_ranks[rank] = &field.value;
    }
  }
  std::vector<std::string> told;
  std::string missing;  // the last path that some rank does not have: what is below it is not told again
  for (const std::string& path : paths) {
    if (!missing.empty() && path.starts_with(missing + ".")) continue;
    std::map<std::string, std::vector<int>> ranks_of;
    bool is_missing = false;
    for (size_t rank = 0; rank < all.size(); ++rank) {
      const std::string* value = values[path][rank];
      is_missing = is_missing || value == nullptr;
      ranks_of[value == nullptr ? "nothing" : *value].push_back(static_cast<int>(rank));
    }
    if (ranks_of.size() < 2) continue;
    if (is_missing) missing = path;
    told.push_back(Told(path, ranks_of));
  }
  return told;
}

void RequireSameFields(Communicator& world, const std::vector<RankField>& fields) {
  const std::string own = TextOf(fields);
  const std::vector<std::string> hashes = world.AllGather(std::to_string(Hash64(own)));
  if (std::ranges::adjacent_find(hashes, std::ranges::not_equal_to()) == hashes.end()) return;
  std::vector<std::vector<RankField>> all;
  for (const std::string& each : world.AllGather(own)) all.push_back(FieldsFrom(each));
  for (const std::string& difference : DifferencesOf(all, true)) {
    if (world.is_first()) LogWarning(difference);
  }
  std::vector<std::string> told = DifferencesOf(all, false);
  if (told.empty()) return;
  const size_t count = told.size();
  told.resize(std::min(count, kMostTold));
  if (count > told.size()) told.push_back(StrCat("and ", count - told.size(), " more"));
  if (!world.is_first()) world.Barrier();  // the first rank speaks for all: what it says ends this wait
  Error error(ErrorKind::kConfig, SourcePlace{}, StrCat("the ranks do not run the same: ", told.front()), kHint);
  for (size_t i = 1; i < told.size(); ++i) error.AddNote(told[i]);
  throw error;
}

}  // namespace moka
