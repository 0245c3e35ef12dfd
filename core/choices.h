// Choices made by trial among the ways a library offers for a problem (a plan of cuDNN, say), by the problem's name:
// kept in the user's cache to be quicker the next time, and in a run's folder, so that a resumed run computes as it
// did. Any thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace moka {

using Choices = std::map<std::string, std::string, std::less<>>;

// Returns the preferred choice, else the one kept in the cache; none if neither is there. A name must be fit for a
// file's.
std::optional<std::string> ReadChoice(const std::string& name);
// Keeps a choice in the cache.
void KeepChoice(const std::string& name, std::string_view choice);

// All that this process has read or kept.
Choices UsedChoices();
// Choices that come before those of the cache from now on.
void PreferChoices(const Choices& choices);
// From now on the cache is written to and not read: all is chosen anew, once.
void RenewChoices();

// "name 00ff.." for a choice and its bytes, and back; none if it is no such line.
std::string LineOf(const std::string& name, std::string_view choice);
std::optional<std::pair<std::string, std::string>> ChoiceOf(std::string_view line);

}  // namespace moka
