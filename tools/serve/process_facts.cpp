// Reads /proc/self (proc(5)): one line of numbers in stat, and a link for each open file in fd.
#include "tools/serve/process_facts.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace moka {
namespace {

// The fields of stat from the third on, which is the state: the second is the program's name in parentheses, that may
// hold spaces and parentheses itself.
std::vector<std::string> FieldsOfStat() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  std::istringstream words(line.substr(std::min(line.size(), line.rfind(')') + 1)));
  std::vector<std::string> fields;
  for (std::string word; words >> word;) fields.push_back(word);
  return fields;
}

// When the machine started, in seconds since 1970.
double BootSeconds() {
  std::ifstream file("/proc/stat");
  for (std::string word; file >> word;) {
    double seconds = 0;
    if (word == "btime" && file >> seconds) return seconds;
  }
  return 0;
}

int64_t OpenFiles() {
  std::error_code failed;
  int64_t files = 0;
  for (std::filesystem::directory_iterator it("/proc/self/fd", failed), end; !failed && it != end; it.increment(failed))
    ++files;
  return files > 0 ? files - 1 : 0;  // one is that of the folder itself
}

}  // namespace

ProcessFacts ProcessFactsNow() {
  // Numbers as proc(5) counts them, less the three that are not in the vector: state is 3.
  constexpr size_t kUserTicks = 14 - 3;
  constexpr size_t kSystemTicks = 15 - 3;
  constexpr size_t kThreads = 20 - 3;
  constexpr size_t kStartTicks = 22 - 3;
  constexpr size_t kVirtualBytes = 23 - 3;
  constexpr size_t kResidentPages = 24 - 3;
  ProcessFacts facts;
  const std::vector<std::string> fields = FieldsOfStat();
  const auto number = [&](size_t i) { return i < fields.size() ? std::strtoll(fields[i].c_str(), nullptr, 10) : 0; };
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  facts.cpu_seconds = static_cast<double>(number(kUserTicks) + number(kSystemTicks)) / ticks;
  facts.threads = number(kThreads);
  facts.virtual_bytes = number(kVirtualBytes);
  facts.resident_bytes = number(kResidentPages) * sysconf(_SC_PAGESIZE);
  const double boot = BootSeconds();
  facts.start_seconds = boot > 0 ? boot + static_cast<double>(number(kStartTicks)) / ticks : 0;
  facts.open_files = OpenFiles();
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    facts.most_files = static_cast<int64_t>(limit.rlim_cur);
  return facts;
}

}  // namespace moka
