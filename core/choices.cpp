// One map for the process under a mutex: what was preferred wins over what the cache has, and all that was used is
// remembered, for the run's folder.
#include "core/choices.h"

#include <mutex>

#include "core/cache.h"

namespace moka {
namespace {

constexpr std::string_view kDigits = "0123456789abcdef";

struct Known {
  std::mutex mutex;
  Choices used;
  Choices preferred;
  bool renews = false;
};

Known& Process() {
  static Known known;
  return known;
}

std::filesystem::path FileOf(const std::string& name) {
  const std::filesystem::path folder = CacheFolder();
  return folder.empty() ? folder : folder / name;
}

}  // namespace

std::optional<std::string> ReadChoice(const std::string& name) {
  Known& known = Process();
  const std::scoped_lock lock(known.mutex);
  const auto it = known.preferred.find(name);
  if (it != known.preferred.end()) return known.used[name] = it->second;
  if (known.renews) {
    const auto chosen = known.used.find(name);
    return chosen == known.used.end() ? std::nullopt : std::optional(chosen->second);
  }
  std::optional<std::string> choice = ReadKept(FileOf(name));
  if (choice) known.used[name] = *choice;
  return choice;
}

void KeepChoice(const std::string& name, std::string_view choice) {
  Known& known = Process();
  const std::scoped_lock lock(known.mutex);
  known.used[name] = choice;
  Keep(FileOf(name), choice);
}

Choices UsedChoices() {
  Known& known = Process();
  const std::scoped_lock lock(known.mutex);
  return known.used;
}

void PreferChoices(const Choices& choices) {
  Known& known = Process();
  const std::scoped_lock lock(known.mutex);
  known.preferred = choices;
}

void RenewChoices() {
  Known& known = Process();
  const std::scoped_lock lock(known.mutex);
  known.renews = true;
}

std::string LineOf(const std::string& name, std::string_view choice) {
  std::string line = name + " ";
  for (const char c : choice) {
    const auto byte = static_cast<unsigned char>(c);
    line += kDigits[byte / 16];
    line += kDigits[byte % 16];
  }
  return line;
}

std::optional<std::pair<std::string, std::string>> ChoiceOf(std::string_view line) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || (line.size() - space) % 2 == 0) return std::nullopt;
  std::pair<std::string, std::string> choice(line.substr(0, space), "");
  for (size_t i = space + 1; i < line.size(); i += 2) {
    const size_t high = kDigits.find(line[i]);
    const size_t low = kDigits.find(line[i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
    choice.second += static_cast<char>(high * 16 + low);
  }
  return choice;
}

}  // namespace moka
