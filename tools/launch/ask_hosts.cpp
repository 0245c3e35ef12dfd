// Runs `moka launch --facts` on every host at the same time and reads one line of each; a login's other output is
// passed over.
#include "tools/launch/ask_hosts.h"

#include <netdb.h>

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "tools/launch/child.h"
#include "tools/launch/command.h"

namespace moka {
namespace {

constexpr int kNotThere = 127;  // what a shell answers when there is no such program

// The command that asks one host. ssh hands one string to a shell there.
std::vector<std::string> SshWords(const std::string& host, const std::vector<std::string>& command,
                                  const AskOptions& options) {
  return {options.ssh, "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", host, ShellLine(command)};
}

std::vector<std::string> FactsWords(const AskOptions& options, const std::vector<std::string>& reach = {}) {
  std::vector<std::string> words = {options.moka, "launch", "--facts"};
  if (!reach.empty()) words.push_back("--reach=" + Join(reach, ","));
  return words;
}

bool Resolves(const std::string& name) {
  const std::string host = name.substr(name.find('@') + 1);
  addrinfo* list = nullptr;
  const bool resolves = getaddrinfo(host.c_str(), nullptr, nullptr, &list) == 0;
  if (resolves) freeaddrinfo(list);
  return resolves;
}

std::string LastLine(const std::string& text) {
  const std::vector<std::string> lines = Split(Trim(text), '\n');
  return Printable(Trim(lines.back()));
}

std::string WhyMissing(const std::string& host, const CommandOutput& output, const AskOptions& options) {
  if (output.code == kNotThere && !output.err.starts_with("cannot start")) return StrCat("there is no ", options.moka);
  std::string why = output.err.empty() ? StrCat(options.ssh, " ended with ", output.code) : LastLine(output.err);
  if (output.code == 124) why = StrCat("no answer within ", options.timeout_s, " s");
  if (!Resolves(host)) why += "; the name does not resolve";
  return why;
}

// The line of facts among what a command printed (a login may print more), and where the host's clock stands.
HostFacts FactsOf(const std::string& line, const CommandOutput& output) {
  HostFacts facts = ParseHostFacts(line);
  facts.clock_ahead_s = facts.time_s - (output.begin_s + output.end_s) / 2;
  facts.clock_error_s = (output.end_s - output.begin_s) / 2;
  return facts;
}

HostFacts AnswerOf(const std::string& host, const CommandOutput& output, const AskOptions& options) {
  HostFacts facts;
  try {
    if (output.code == 0) {
      facts = FactsOf(Split(Trim(output.out), '\n').back(), output);
    } else {
      facts.missing = WhyMissing(host, output, options);
    }
  } catch (const Error& error) {
    facts.missing = error.text();
  }
  facts.host = host;
  return facts;
}

// Returns each host's answer to its command; this host answers by itself (an empty command).
std::vector<HostFacts> Answers(const std::vector<std::string>& hosts,
                               const std::vector<std::vector<std::string>>& asked, const AskOptions& options) {
  std::vector<std::vector<std::string>> commands;
  std::vector<size_t> others;
  std::vector<HostFacts> facts(hosts.size());
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (asked[i].empty()) {
      facts[i] = ReadHostFacts({});
      facts[i].host = hosts[i];
    } else {
      others.push_back(i);
      commands.push_back(asked[i]);
    }
  }
  const std::vector<CommandOutput> outputs = RunCommands(commands, options.timeout_s);
  for (size_t i = 0; i < others.size(); ++i) facts[others[i]] = AnswerOf(hosts[others[i]], outputs[i], options);
  return facts;
}

}  // namespace

std::vector<HostFacts> AskHosts(const std::vector<HostSlots>& hosts, const AskOptions& options) {
  std::vector<std::string> names;
  std::vector<std::vector<std::string>> asked;
  for (const HostSlots& host : hosts) {
    names.push_back(host.name);
    asked.push_back(IsThisHost(host.name) ? std::vector<std::string>()
                                          : SshWords(host.name, FactsWords(options), options));
  }
  return Answers(names, asked, options);
}

std::vector<HostFacts> AskNodes(int nodes, const AskOptions& options) {
  std::vector<std::string> words = {options.srun, "--ntasks-per-node=1", StrCat("--ntasks=", nodes),
                                    StrCat("--nodes=", nodes)};
  for (const std::string& word : FactsWords(options)) words.push_back(word);
  const CommandOutput output = RunCommands({words}, options.timeout_s).at(0);
  if (output.code != 0) {
    throw Error(ErrorKind::kUnavailable, {},
                StrCat("srun does not start on ", nodes, nodes == 1 ? " node: " : " nodes: ", LastLine(output.err)),
                "try: " + ShellLine(words));
  }
  std::vector<HostFacts> facts;
  for (const std::string& line : Split(Trim(output.out), '\n')) {
    if (line.starts_with('{')) facts.push_back(FactsOf(line, output));
  }
  std::ranges::sort(facts, {}, &HostFacts::host);
  return facts;
}

void ProbePairs(const std::vector<std::string>& addresses, const AskOptions& options, std::vector<HostFacts>& facts) {
  Require(addresses.size() == facts.size(), "an address a host");
  std::vector<std::vector<std::string>> commands;
  std::vector<size_t> others;
  for (size_t i = 0; i < facts.size(); ++i) {
    if (IsThisHost(facts[i].host)) continue;  // ssh has shown that way
    std::vector<std::string> reach = addresses;
    reach.erase(reach.begin() + static_cast<std::ptrdiff_t>(i));
    others.push_back(i);
    commands.push_back(SshWords(facts[i].host, FactsWords(options, reach), options));
  }
  const std::vector<CommandOutput> outputs = RunCommands(commands, options.timeout_s);
  for (size_t i = 0; i < others.size(); ++i)
    facts[others[i]].unreached = AnswerOf(facts[others[i]].host, outputs[i], options).unreached;
}

}  // namespace moka
