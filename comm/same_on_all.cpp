#include "comm/same_on_all.h"

#include <algorithm>
#include <map>

#include "core/checksum.h"
#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

constexpr char kFactEnd = '\n';  // names and values are printable, so neither holds these
constexpr char kNameEnd = '\t';

// A line for each of the first facts that differ from those of rank 0.
std::vector<std::string> DifferencesOf(const std::vector<RankFact>& facts, const std::string& first_text) {
  std::map<std::string, std::string> mine;
  for (const RankFact& fact : facts) mine[Printable(fact.name)] = Printable(fact.value);
  std::vector<std::string> differences;
  for (const std::string& line : Split(first_text, kFactEnd)) {
    const size_t end = line.find(kNameEnd);
    if (end == std::string::npos) continue;
    const std::string name = line.substr(0, end);
    const std::string value = line.substr(end + 1);
    const auto own = mine.find(name);
    if (own == mine.end() || own->second != value) {
      const std::string is = own == mine.end() ? std::string("not set") : own->second;
      differences.push_back(StrCat(name, " is ", is, ", rank 0 has ", value));
    }
    if (own != mine.end()) mine.erase(own);
  }
  for (const RankFact& fact : facts) {
    const auto own = mine.find(Printable(fact.name));
    if (own != mine.end()) differences.push_back(StrCat(own->first, " is ", own->second, ", rank 0 has it not set"));
  }
  return differences;
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
                "start the same moka with the same solver, net and flags on every host");
  }
}

void RequireSameFacts(Communicator& world, const std::vector<RankFact>& facts) {
  constexpr size_t kMostShown = 3;
  std::string text;
  for (const RankFact& fact : facts) {
    text += StrCat(Printable(fact.name), std::string(1, kNameEnd), Printable(fact.value), std::string(1, kFactEnd));
  }
  const std::vector<std::string> hashes = world.AllGather(std::to_string(Hash64(text)));
  if (std::ranges::all_of(hashes, [&](const std::string& hash) { return hash == hashes[0]; })) return;
  const std::vector<std::string> own = DifferencesOf(facts, world.Broadcast(text));
  std::string shown =
      Join({own.begin(), own.begin() + static_cast<std::ptrdiff_t>(std::min(kMostShown, own.size()))}, "; ");
  if (own.size() > kMostShown) shown += StrCat("; and ", own.size() - kMostShown, " more");
  const std::vector<std::string> all = world.AllGather(shown);
  std::map<std::string, std::vector<std::string>> ranks_of;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].empty()) ranks_of[all[rank]].push_back(std::to_string(rank));
  }
  std::vector<std::string> lines;
  for (const auto& [line, ranks] : ranks_of) {
    lines.push_back(StrCat(ranks.size() == 1 ? "rank " : "ranks ", Join(ranks, ", "), ": ", line));
  }
  throw Error(ErrorKind::kConfig, SourcePlace{}, Join(lines, "; "),
              "ranks train one program: start the same moka with the same solver, net, data and flags on every host");
}

}  // namespace moka
