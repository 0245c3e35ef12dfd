// Keeps arrivals in a fixed table that thins itself by halves, so that a training of any length has a bounded log, and
// compares the tables of all ranks on a common clock. The median rank is the measure: a mean would move with the
// straggler it is to show.
#include "comm/exchange/arrivals.h"

#include <algorithm>
#include <cmath>

#include "comm/transport/rank_values.h"
#include "core/text.h"
#include "core/text_table.h"

namespace moka {
namespace {

constexpr int kMostColumns = 8;

double Seconds(int64_t micros) { return static_cast<double>(micros) * 1e-6; }

// The ninth decile by rank order; changes the order of `values`.
double NinthDecile(std::vector<double>& values) {
  const size_t at = (values.size() * 9 + 9) / 10 - 1;
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(at));
  return values[at];
}

}  // namespace

void ArrivalLog::Start(int buckets) {
  width_ = buckets + 1;
  numbers_.assign(static_cast<size_t>(std::max<int64_t>(kNumbers / width_, 2) * width_), 0);
  Clear();
}

void ArrivalLog::Clear() noexcept {
  rows_ = iterations_ = 0;
  stride_ = 1;
  is_kept_ = false;
}

void ArrivalLog::BeginIteration() noexcept {
  const int64_t index = iterations_++;
  is_kept_ = index % stride_ == 0;
  if (!is_kept_) return;
  if (rows_ * width_ == static_cast<int64_t>(numbers_.size())) {
    for (int64_t row = 1; 2 * row < rows_; ++row) {
      std::copy_n(numbers_.begin() + 2 * row * width_, width_, numbers_.begin() + row * width_);
    }
    rows_ = (rows_ + 1) / 2;
    stride_ *= 2;
    is_kept_ = index % stride_ == 0;
    if (!is_kept_) return;
  }
  std::fill_n(numbers_.begin() + rows_ * width_, width_, 0);
  ++rows_;
}

void ArrivalLog::Arrive(int bucket, int64_t micros) noexcept {
  if (is_kept_) numbers_[static_cast<size_t>((rows_ - 1) * width_ + bucket)] = micros;
}

void ArrivalLog::AddExposed(int64_t micros) noexcept {
  if (is_kept_) numbers_[static_cast<size_t>(rows_ * width_ - 1)] += micros;
}

ArrivalReport CompareArrivals(const std::vector<std::vector<int64_t>>& rows, int buckets) {
  const size_t ranks = rows.size();
  const auto width = static_cast<size_t>(buckets) + 1;
  const size_t iterations = rows[0].size() / width;
  ArrivalReport report;
  report.iterations = static_cast<int64_t>(iterations);
  report.ranks.resize(ranks);
  for (RankArrivals& rank : report.ranks) rank.buckets.resize(static_cast<size_t>(buckets));
  if (iterations == 0 || buckets == 0) return report;
  std::vector<int64_t> moments(ranks);
  std::vector<std::vector<double>> late(ranks, std::vector<double>(iterations));
  for (size_t b = 0; b < static_cast<size_t>(buckets); ++b) {
    const bool is_end = b + 1 == static_cast<size_t>(buckets);
    for (size_t i = 0; i < iterations; ++i) {
      for (size_t r = 0; r < ranks; ++r) moments[r] = rows[r][i * width + b];
      const auto [first, last] = std::ranges::minmax(moments);
      for (size_t r = 0; r < ranks; ++r) {
        late[r][i] = Seconds(moments[r] - first);
        if (!is_end) continue;
        const int64_t exposed = rows[r][i * width + width - 1];
        report.ranks[r].last_part += moments[r] == last ? 1 : 0;
        report.ranks[r].exposed_s += Seconds(exposed);
        report.ranks[r].wait_s += Seconds(std::min(exposed, last - moments[r]));
      }
      if (!is_end) continue;
      std::vector<int64_t> sorted = moments;
      std::ranges::sort(sorted);
      const int64_t median = sorted[(ranks - 1) / 2];
      double mean = 0;
      for (size_t r = 0; r < ranks; ++r) mean += Seconds(moments[r] - median) / static_cast<double>(ranks);
      for (size_t r = 0; r < ranks; ++r) {
        const double behind = Seconds(moments[r] - median);
        report.ranks[r].behind_median_s += behind;
        report.ranks[r].behind_mean_s += behind - mean;
        report.ranks[r].error_s += (behind - mean) * (behind - mean);
      }
    }
    for (size_t r = 0; r < ranks; ++r) {
      double sum = 0;
      for (const double seconds : late[r]) sum += seconds;
      report.ranks[r].buckets[b] = {sum / static_cast<double>(iterations), NinthDecile(late[r])};
    }
  }
  for (RankArrivals& rank : report.ranks) {
    const auto count = static_cast<double>(iterations);
    for (double* sum :
         {&rank.behind_median_s, &rank.behind_mean_s, &rank.error_s, &rank.last_part, &rank.exposed_s, &rank.wait_s}) {
      *sum /= count;
    }
    const double variance = std::max(rank.error_s - rank.behind_mean_s * rank.behind_mean_s, 0.0);
    rank.error_s = std::sqrt(variance / std::max(count - 1, 1.0));
  }
  report.latest = static_cast<int>(std::ranges::max_element(report.ranks, {}, &RankArrivals::behind_median_s) -
                                   report.ranks.begin());
  return report;
}

ArrivalReport GatherArrivals(Communicator& world, const ArrivalLog& log, const ClockOffset& before,
                             const ClockOffset& after) {
  // The error of the clock, the width of a row, rows.
  const int64_t width = log.buckets() + 1;
  std::vector<int64_t> mine = {std::max(before.error_micros, after.error_micros), width};
  mine.insert(mine.end(), log.rows().begin(), log.rows().end());
  for (size_t i = 2; i < mine.size(); ++i) {
    const bool is_moment = static_cast<int64_t>(i - 1) % width != 0;
    if (is_moment) mine[i] = OnCommonClock(mine[i], before, after);
  }
  std::vector<std::vector<int64_t>> rows;
  std::vector<int64_t> errors;
  const std::vector<std::string> all = world.AllGather(BytesOfValues(std::span<const int64_t>(mine)));
  for (int rank = 0; rank < world.size(); ++rank) {
    std::vector<int64_t> numbers(all[static_cast<size_t>(rank)].size() / sizeof(int64_t));
    TakeValues(world, rank, all[static_cast<size_t>(rank)], std::span(numbers));
    const bool is_alike = numbers.size() == mine.size() && numbers[1] == width;
    if (!is_alike) return {.iterations = 0, .ranks = std::vector<RankArrivals>(static_cast<size_t>(world.size()))};
    const auto is_time = [](int64_t micros) { return micros > -kMostMicros && micros < kMostMicros; };
    if (!std::ranges::all_of(numbers, is_time)) RefuseMessage(world, rank, "a time that is none");
    errors.push_back(numbers[0]);
    rows.emplace_back(numbers.begin() + 2, numbers.end());
  }
  ArrivalReport report = CompareArrivals(rows, log.buckets());
  std::ranges::sort(errors, std::greater<>());
  report.clock_error_s = Seconds(errors[0] + (errors.size() > 1 ? errors[1] : 0));
  return report;
}

std::string ArrivalTable(const ArrivalReport& report) {
  if (report.latest < 0) return {};
  const int buckets = static_cast<int>(report.ranks[0].buckets.size());
  std::vector<int> shown;
  for (int b = 0; b < buckets; ++b) {
    if (b < kMostColumns - 1 || b == buckets - 1) shown.push_back(b);
  }
  std::vector<std::vector<std::string>> table = {{"rank"}};
  for (const int b : shown) table[0].push_back(StrCat("bucket ", b));
  for (size_t r = 0; r < report.ranks.size(); ++r) {
    std::vector<std::string>& row = table.emplace_back();
    row.push_back(StrCat(r));
    for (const int b : shown) {
      const Lateness& late = report.ranks[r].buckets[static_cast<size_t>(b)];
      row.push_back(StrCat(MillisecondsText(late.mean_s), " (", MillisecondsText(late.p90_s), ")"));
    }
  }
  return TextTable(table);
}

}  // namespace moka
