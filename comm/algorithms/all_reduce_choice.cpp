// Parses and prints the names of arrangements ("torus:8x16x8") in one place, so that the command line, the plan files
// and the simulator spell a choice alike. FixedAllReduce is the choice without a measurement.
#include "comm/algorithms/all_reduce_choice.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

// "8x16" as {8, 16}; none if a number is not one.
std::optional<std::vector<int>> Numbers(std::string_view text) {
  std::vector<int> numbers;
  for (const std::string& word : Split(text, 'x')) {
    int& number = numbers.emplace_back();
    const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (code != std::errc() || end != word.data() + word.size() || number < 1) return std::nullopt;
  }
  return numbers;
}

// A host's ranks times hosts, these as near to a square as they go if asked for.
enum class Hosts { kOneDimension, kTwoDimensions };
std::vector<int> Dimensions(int ranks, int ranks_per_host, Hosts form) {
  if (ranks % ranks_per_host != 0) return {ranks};
  std::vector<int> dimensions;
  if (ranks_per_host > 1) dimensions.push_back(ranks_per_host);
  const int hosts = ranks / ranks_per_host;
  int side = 1;
  for (int i = 1; i * i <= hosts && form == Hosts::kTwoDimensions; ++i) side = hosts % i == 0 ? i : side;
  if (side > 1) dimensions.push_back(side);
  if (hosts / side > 1 || dimensions.empty()) dimensions.push_back(hosts / side);
  return dimensions;
}

std::string Name(const AllReduceAlgorithm& algorithm, const Arrangement& arrangement) {
  if (algorithm.has_pieces) return StrCat(algorithm.name, ':', arrangement.group, 'x', arrangement.pieces);
  if (algorithm.has_groups) return StrCat(algorithm.name, ':', arrangement.group);
  if (!algorithm.has_dimensions) return std::string(algorithm.name);
  std::vector<std::string> words;
  for (const int dimension : arrangement.dimensions) words.push_back(StrCat(dimension));
  return StrCat(algorithm.name, ':', Join(words, "x"));
}

}  // namespace

AllReduceChoice ChoiceOfAllReduce(std::string_view name, int ranks, int ranks_per_host) {
  const size_t colon = name.find(':');
  const AllReduceAlgorithm& algorithm = FindAllReduce(name.substr(0, colon));
  Arrangement arrangement{.ranks = ranks,
                          .group = std::min(ranks, ranks_per_host),
                          .dimensions = Dimensions(ranks, ranks_per_host, Hosts::kOneDimension)};
  if (colon != std::string_view::npos) {
    const std::optional<std::vector<int>> numbers = Numbers(name.substr(colon + 1));
    const bool fits = numbers && ((algorithm.has_groups && numbers->size() == 1) ||
                                  (algorithm.has_pieces && numbers->size() == 2) || algorithm.has_dimensions);
    if (!fits) {
      throw Error(ErrorKind::kConfig, {}, StrCat("\"", Printable(name), "\" is no form of \"", algorithm.name, "\""),
                  algorithm.has_pieces   ? StrCat("groups of 4 ranks and 16 pieces are \"", algorithm.name, ":4x16\"")
                  : algorithm.has_groups ? StrCat("groups of 4 ranks are \"", algorithm.name, ":4\"")
                  : algorithm.has_dimensions ? StrCat("dimensions 4 and 8 are \"", algorithm.name, ":4x8\"")
                                             : StrCat("it takes no numbers"));
    }
    if (algorithm.has_groups) {
      arrangement.group = numbers->front();
      arrangement.pieces = numbers->size() == 2 ? numbers->back() : arrangement.pieces;
    } else {
      arrangement.dimensions = *numbers;
    }
  }
  if (const std::string why = algorithm.refuse(arrangement); !why.empty()) {
    throw Error(ErrorKind::kConfig, StrCat("\"", Printable(name), "\" cannot run among ", ranks, " ranks: ", why));
  }
  return {Name(algorithm, arrangement), &algorithm, arrangement};
}

AllReduceChoice FixedAllReduce(int ranks, int ranks_per_host) {
  return ChoiceOfAllReduce(ranks_per_host == ranks ? "direct" : "two_level", ranks, ranks_per_host);
}

std::vector<AllReduceChoice> AllReduceChoices(int ranks, int ranks_per_host, int ranks_per_node) {
  const bool has_nodes = ranks_per_node > 1 && ranks_per_node < ranks_per_host &&
                         ranks_per_host % ranks_per_node == 0 && ranks % ranks_per_host == 0;
  std::vector<AllReduceChoice> choices;
  const auto add = [&](const AllReduceAlgorithm& algorithm, const Arrangement& arrangement) {
    std::string name = Name(algorithm, arrangement);
    if (!algorithm.refuse(arrangement).empty() || std::ranges::count(choices, name, &AllReduceChoice::name) > 0) return;
    choices.push_back({std::move(name), &algorithm, arrangement});
  };
  for (const AllReduceAlgorithm& algorithm : AllReduceAlgorithms()) {
    if (algorithm.has_pieces) {
      for (const int pieces : {4, 16, 64}) {
        add(algorithm, {.ranks = ranks, .group = std::min(ranks, ranks_per_host), .pieces = pieces});
      }
      continue;
    }
    if (has_nodes) {
      std::vector<int> dimensions = Dimensions(ranks, ranks_per_host, Hosts::kOneDimension);
      dimensions[0] /= ranks_per_node;
      dimensions.insert(dimensions.begin(), ranks_per_node);
      add(algorithm, {.ranks = ranks, .group = ranks_per_node, .dimensions = std::move(dimensions)});
    }
    for (const int hosts : {1, 2, 4}) {
      const int group = std::min(ranks, ranks_per_host * hosts);
      for (const Hosts form : {Hosts::kOneDimension, Hosts::kTwoDimensions}) {
        add(algorithm, {.ranks = ranks, .group = group, .dimensions = Dimensions(ranks, ranks_per_host, form)});
      }
    }
  }
  return choices;
}

}  // namespace moka
