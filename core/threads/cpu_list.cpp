// A range may be any two whole numbers of a machine: more CPUs than Linux can count are refused.
#include "core/threads/cpu_list.h"

#include <charconv>

#include "core/text.h"

namespace moka {

std::optional<int> WholeNumber(std::string_view text) {
  int value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::optional<std::vector<int>> ParseCpuList(std::string_view text) {
  std::vector<int> cpus;
  for (const std::string& part : Split(text, ',')) {
    const size_t dash = part.find('-');
    const auto first = WholeNumber(std::string_view(part).substr(0, dash));
    const auto last = dash == std::string::npos ? first : WholeNumber(std::string_view(part).substr(dash + 1));
    if (!first || !last || *last < *first || *last >= kMostCpus) return std::nullopt;
    for (int cpu = *first; cpu <= *last; ++cpu) cpus.push_back(cpu);
    if (cpus.size() > kMostCpus) return std::nullopt;
  }
  return cpus;
}

std::string CpuListText(const std::vector<int>& cpus) {
  std::string text;
  for (size_t i = 0; i < cpus.size();) {
    size_t end = i + 1;
    while (end < cpus.size() && cpus[end] == cpus[end - 1] + 1) ++end;
    text += StrCat(text.empty() ? "" : ",", cpus[i]);
    if (end - i > 1) text += StrCat("-", cpus[end - 1]);
    i = end;
  }
  return text;
}

}  // namespace moka
