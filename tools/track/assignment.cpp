// Rows are added one by one; each finds the cheapest way to a free column by Dijkstra's search over reduced costs,
// which the potentials of rows and columns keep at 0 or more.
#include "tools/track/assignment.h"

#include <algorithm>
#include <limits>

#include "core/error.h"

namespace moka {
namespace {

constexpr int64_t kNone = -1;

// Requires: rows <= columns. `cost(row, column)`.
template <class Cost>
std::vector<int64_t> RowsOfColumns(int64_t rows, int64_t columns, Cost&& cost) {
  const auto count = static_cast<size_t>(columns);
  std::vector<double> of_row(static_cast<size_t>(rows));  // potentials
  std::vector<double> of_column(count);
  std::vector<int64_t> row_of(count, kNone);
  std::vector<double> distance(count);
  std::vector<int64_t> before(count);  // the column that the way to a column comes from
  std::vector<char> is_done(count);
  for (int64_t added = 0; added < rows; ++added) {
    std::ranges::fill(distance, std::numeric_limits<double>::infinity());
    std::ranges::fill(is_done, char{0});
    int64_t row = added;
    int64_t at = kNone;
    double way = 0;
    std::vector<int64_t> visited;
    while (true) {
      int64_t next = kNone;
      for (int64_t c = 0; c < columns; ++c) {
        const auto i = static_cast<size_t>(c);
        if (is_done[i] != 0) continue;
        const double to = way + cost(row, c) - of_row[static_cast<size_t>(row)] - of_column[i];
        if (to < distance[i]) {
          distance[i] = to;
          before[i] = at;
        }
        if (next == kNone || distance[i] < distance[static_cast<size_t>(next)]) next = c;
      }
      at = next;
      way = distance[static_cast<size_t>(at)];
      is_done[static_cast<size_t>(at)] = 1;
      if (row_of[static_cast<size_t>(at)] == kNone) break;
      visited.push_back(at);
      row = row_of[static_cast<size_t>(at)];
    }
    of_row[static_cast<size_t>(added)] += way;
    for (const int64_t c : visited) {
      const double left = way - distance[static_cast<size_t>(c)];
      of_column[static_cast<size_t>(c)] -= left;
      of_row[static_cast<size_t>(row_of[static_cast<size_t>(c)])] += left;
    }
    for (; at != kNone; at = before[static_cast<size_t>(at)]) {
      const int64_t from = before[static_cast<size_t>(at)];
      row_of[static_cast<size_t>(at)] = from == kNone ? added : row_of[static_cast<size_t>(from)];
    }
  }
  return row_of;
}

}  // namespace

std::vector<std::pair<int64_t, int64_t>> LeastAssignment(std::span<const double> costs, int64_t rows, int64_t columns) {
  Require(std::ssize(costs) == rows * columns, "LeastAssignment: a cost for each row and column");
  std::vector<std::pair<int64_t, int64_t>> pairs;
  if (rows <= columns) {
    const auto row_of =
        RowsOfColumns(rows, columns, [&](int64_t r, int64_t c) { return costs[static_cast<size_t>(r * columns + c)]; });
    for (int64_t c = 0; c < columns; ++c) {
      if (row_of[static_cast<size_t>(c)] != kNone) pairs.emplace_back(row_of[static_cast<size_t>(c)], c);
    }
  } else {
    const auto column_of =
        RowsOfColumns(columns, rows, [&](int64_t c, int64_t r) { return costs[static_cast<size_t>(r * columns + c)]; });
    for (int64_t r = 0; r < rows; ++r) {
      if (column_of[static_cast<size_t>(r)] != kNone) pairs.emplace_back(r, column_of[static_cast<size_t>(r)]);
    }
  }
  std::ranges::sort(pairs);
  return pairs;
}

}  // namespace moka
