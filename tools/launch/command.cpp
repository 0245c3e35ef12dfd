// Each launcher's flags with the reason for each. Words are quoted so that what is shown can be pasted into a shell.
#include "tools/launch/command.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"

namespace moka {
namespace {

void Add(std::vector<std::string>& words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
}

bool IsPlain(const std::string& word) {
  return !word.empty() && std::ranges::all_of(word, [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("_-+=./:,@%").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

// $'word' with every byte that is no letter, digit or plain sign in three octal digits, which end where they end.
std::string DollarQuoted(const std::string& word) {
  std::string quoted = "$'";
  for (const char c : word)
    quoted += IsPlain(std::string(1, c)) || c == ' ' ? std::string(1, c)
                                                     : fmt::format("\\{:03o}", static_cast<unsigned char>(c));
  return quoted + "'";
}

// 'word', where a quote inside is closed, escaped and opened again. What is shown escaped becomes $'word', which bash
// and other shells read back to the same bytes.
std::string Quoted(const std::string& word) {
  if (Printable(word) != word) return DollarQuoted(word);
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// "a:2,b:2".
std::string HostList(const std::vector<HostSlots>& hosts) {
  std::vector<std::string> texts;
  texts.reserve(hosts.size());
  for (const HostSlots& host : hosts) texts.push_back(StrCat(host.name, ":", host.slots));
  return Join(texts, ",");
}

}  // namespace

bool NeedsHosts(const LaunchPlan& plan) {
  return !plan.uses_srun && std::ranges::any_of(plan.hosts, [&](const HostSlots& host) {
    return plan.hosts.size() > 1 || !IsThisHost(host.name);
  });
}

std::vector<std::string> MpirunWords(const LaunchPlan& plan) {
  std::vector<std::string> words = {plan.program, "-n", std::to_string(plan.ranks)};
  if (plan.is_root) words.emplace_back("--allow-run-as-root");
  Add(words, {"--oversubscribe", "--bind-to", "none"});
  if (!plan.hostfile.empty()) {
    Add(words, {"--hostfile", plan.hostfile});
  } else if (NeedsHosts(plan)) {
    Add(words, {"--host", HostList(plan.hosts)});
  }
  if (!plan.network.empty()) {
    Add(words, {"--mca", "btl_tcp_if_include", plan.network, "--mca", "oob_tcp_if_include", plan.network});
  }
  words.push_back(plan.moka);
  Add(words, plan.words);
  return words;
}

std::vector<std::string> SrunWords(const LaunchPlan& plan) {
  std::vector<std::string> words = {plan.program, "--mpi=pmix", "-n", std::to_string(plan.ranks)};
  if (plan.nodes > 0) Add(words, {"-N", std::to_string(plan.nodes)});
  if (plan.cpus_per_task > 0) words.push_back(StrCat("--cpus-per-task=", plan.cpus_per_task));
  words.push_back(plan.moka);
  Add(words, plan.words);
  return words;
}

std::vector<std::string> LaunchWords(const LaunchPlan& plan) {
  return plan.uses_srun ? SrunWords(plan) : MpirunWords(plan);
}

std::string ShellLine(const std::vector<std::string>& words) {
  std::vector<std::string> parts;
  parts.reserve(words.size());
  for (const std::string& word : words) parts.push_back(IsPlain(word) ? word : Quoted(word));
  return Join(parts, " ");
}

}  // namespace moka
