// Sets of CPUs as the kernel and taskset write them: "0-3,8".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moka {

inline constexpr int kMostCpus = 65536;  // more than any system counts

// A number as the kernel and launchers write them. Nothing for another text ("max") and for one below 0.
std::optional<int> WholeNumber(std::string_view text);

// "0-3,8" as 0, 1, 2, 3, 8, in the order given. Nothing if the text is no such list or names more than 65,536 CPUs.
std::optional<std::vector<int>> ParseCpuList(std::string_view text);
// The shortest such list. Requires: ascending.
std::string CpuListText(const std::vector<int>& cpus);

}  // namespace moka
