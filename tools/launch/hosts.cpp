// Parses "a:2,b:2" and hostfiles into one list, each host once, and refuses names that a shell or ssh would take for
// options.
#include "tools/launch/hosts.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

constexpr int kMostSlots = 4096;
constexpr size_t kMostHosts = 65536;  // the slots of all are counted as an int

std::optional<int> SlotsOf(std::string_view text) {
  int slots = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), slots);
  if (code != std::errc() || end != text.data() + text.size() || slots < 1 || slots > kMostSlots) return std::nullopt;
  return slots;
}

// ssh and mpirun get the name as a word of their command lines: it must not be one of their options.
bool IsHostName(std::string_view name) {
  return !name.empty() && name.front() != '-' && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_' || c == '@';
  });
}

// "a:2" or "a"; nothing if it is neither.
std::optional<HostSlots> HostOf(std::string_view text) {
  const size_t colon = text.find(':');
  HostSlots host{std::string(text.substr(0, colon)), 1};
  if (!IsHostName(host.name)) return std::nullopt;
  if (colon == std::string_view::npos) return host;
  const std::optional<int> slots = SlotsOf(text.substr(colon + 1));
  if (!slots) return std::nullopt;
  host.slots = *slots;
  return host;
}

// Hosts by what they are called, each once.
class UniqueHosts {
 public:
  // False for a name that is there.
  bool Add(HostSlots host) {
    if (!names_.insert(host.name).second) return false;
    hosts_.push_back(std::move(host));
    return true;
  }
  bool is_full() const { return hosts_.size() == kMostHosts; }
  std::vector<HostSlots> Take() { return std::move(hosts_); }

 private:
  std::vector<HostSlots> hosts_;
  std::set<std::string> names_;
};

// A line of a hostfile without its comment. Errors: kBadData at `place` where it says no host, or two counts of slots.
HostSlots HostOfLine(std::string_view line, const SourcePlace& place) {
  std::optional<HostSlots> host;
  std::optional<int> given;
  std::optional<int> most;
  bool is_host = true;
  // "slots=4": false if it is no count or has been said before.
  const auto take = [](std::string_view word, std::optional<int>& count) {
    if (count) return false;
    count = SlotsOf(Trim(word.substr(word.find('=') + 1)));
    return count.has_value();
  };
  bool has_colon = false;
  for (const std::string& word : Split(line, ' ')) {
    if (Trim(word).empty() || !is_host) continue;
    if (!host) {
      host = HostOf(Trim(word));
      has_colon = word.find(':') != std::string::npos;
      is_host = host.has_value();
    } else if (word.starts_with("slots=")) {
      is_host = take(word, given);
    } else {
      is_host = (word.starts_with("max_slots=") || word.starts_with("max-slots=")) && take(word, most);
    }
  }
  if (!host || !is_host) {
    throw Error(ErrorKind::kBadData, place,
                "a hostfile has lines such as \"node1 slots=4 max_slots=8\", each word once");
  }
  if (given && has_colon) {
    throw Error(
        ErrorKind::kBadData, place,
        StrCat(host->name, ":", host->slots, " and slots=", *given, " both say its slots; leave one of them out"));
  }
  if (given) host->slots = *given;
  if (most && *most < host->slots) {
    throw Error(ErrorKind::kBadData, place,
                StrCat(host->name, " has ", host->slots, host->slots == 1 ? " slot" : " slots",
                       ", more than its max_slots of ", *most));
  }
  return *host;
}

}  // namespace

std::vector<HostSlots> ParseHosts(std::string_view text) {
  UniqueHosts hosts;
  for (const std::string& part : Split(text, ',')) {
    const std::optional<HostSlots> host = HostOf(Trim(part));
    if (!host) {
      throw Error(ErrorKind::kUsage,
                  StrCat("--hosts wants NAME:SLOTS,... as in a:2,b:2, found \"", Printable(part), "\""));
    }
    if (hosts.is_full()) throw Error(ErrorKind::kUsage, StrCat("--hosts names more than ", kMostHosts, " hosts"));
    if (!hosts.Add(*host)) {
      throw Error(ErrorKind::kUsage,
                  StrCat("--hosts names ", host->name, " twice; say its slots once, as in ", host->name, ":2"));
    }
  }
  return hosts.Take();
}

std::vector<HostSlots> ParseHostfile(std::string_view text, const std::string& file) {
  UniqueHosts list;
  int number = 0;
  for (std::string line : Split(text, '\n')) {
    ++number;
    line = line.substr(0, line.find('#'));
    std::ranges::replace(line, '\t', ' ');
    if (Trim(line).empty()) continue;
    const SourcePlace place{file, number, 1, static_cast<int>(line.size())};
    const HostSlots host = HostOfLine(Trim(line), place);
    if (list.is_full()) {
      throw Error(ErrorKind::kBadData, SourcePlace{file, number, 1}, StrCat("more than ", kMostHosts, " hosts"));
    }
    if (!list.Add(host)) {
      throw Error(ErrorKind::kBadData, place, StrCat(host.name, " stands here a second time; say its slots once"));
    }
  }
  std::vector<HostSlots> hosts = list.Take();
  if (hosts.empty()) throw Error(ErrorKind::kBadData, StrCat(Printable(file), " names no host"));
  return hosts;
}

std::string HostfileText(const std::vector<HostSlots>& hosts) {
  std::string text;
  for (const HostSlots& host : hosts) text += StrCat(host.name, " slots=", host.slots, "\n");
  return text;
}

int SlotCount(const std::vector<HostSlots>& hosts) {
  int slots = 0;
  for (const HostSlots& host : hosts) slots += host.slots;
  return slots;
}

std::vector<std::string> PlaceRanks(const std::vector<HostSlots>& hosts, int ranks) {
  if (SlotCount(hosts) < ranks) {
    throw Error(ErrorKind::kUsage, {},
                StrCat(ranks, " ranks are wanted, and the hosts have ", SlotCount(hosts), " slots"),
                "give a host more of them, as in --hosts a:4,b:4");
  }
  std::vector<std::string> places;
  for (const HostSlots& host : hosts) {
    for (int i = 0; i < host.slots && static_cast<int>(places.size()) < ranks; ++i) places.push_back(host.name);
  }
  return places;
}

std::vector<HostSlots> WithoutSlot(std::vector<HostSlots> hosts, const std::string& host) {
  Require(SlotCount(hosts) > 1, "WithoutSlot leaves a slot");
  auto it = std::ranges::find(hosts, host, &HostSlots::name);
  if (it == hosts.end()) it = hosts.end() - 1;
  if (--it->slots == 0) hosts.erase(it);
  return hosts;
}

bool IsThisHost(const std::string& name) {
  if (name == "localhost" || name == "127.0.0.1") return true;
  std::array<char, 256> own{};
  if (gethostname(own.data(), own.size() - 1) != 0) return false;
  const std::string full = own.data();
  return name == full || name == full.substr(0, full.find('.'));
}

}  // namespace moka
