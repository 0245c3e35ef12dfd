// Who is late: when each rank had the gradients of each bucket. How long an all-reduce takes does not tell, since all
// ranks end it together: the others' time grows by what one of them is late. So each rank keeps the moments at which it
// was ready, without a message, and when a report is made they are gathered and compared on one clock.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comm/transport/communicator.h"
#include "core/clock_offset.h"

namespace moka {

// The arrivals that one rank keeps: a row an iteration, with the moment (NowMicros) of each bucket and behind them the
// microseconds for which the program waited for communication. Where there are more than kNumbers, every second row is
// dropped and from then on only every second iteration kept, on all ranks alike. One thread at a time.
class ArrivalLog {
 public:
  static constexpr int64_t kNumbers = 4096;

  // Forgets all; allocates as the only one.
  void Start(int buckets);
  void Clear() noexcept;
  void BeginIteration() noexcept;
  void Arrive(int bucket, int64_t micros) noexcept;
  void AddExposed(int64_t micros) noexcept;

  int buckets() const { return static_cast<int>(width_) - 1; }
  int64_t iterations() const { return iterations_; }  // since Start or Clear, kept or not
  std::span<const int64_t> rows() const { return std::span(numbers_).first(static_cast<size_t>(rows_ * width_)); }

 private:
  std::vector<int64_t> numbers_;
  int64_t width_ = 1;
  int64_t rows_ = 0;
  int64_t iterations_ = 0;
  int64_t stride_ = 1;  // iterations a row
  bool is_kept_ = false;
};

// Behind the first rank to have the bucket.
struct Lateness {
  double mean_s = 0;
  double p90_s = 0;  // nine of ten iterations are below
};

struct RankArrivals {
  std::vector<Lateness> buckets;
  // At the end of the backward pass, the last bucket: behind the median of the ranks (of an even number the earlier of
  // the two), on average; negative for early ones.
  double behind_median_s = 0;
  // At the same place behind the mean of all ranks, and by how much that mean over iterations may be off (its standard
  // error): ranks of which now one and now another comes late are none of them slow.
  double behind_mean_s = 0;
  double error_s = 0;
  double last_part = 0;  // of the iterations, in which no rank came later
  double exposed_s = 0;  // the program waited for communication in an iteration
  double wait_s = 0;     // of this until the last rank had come: no network could have shortened it
};

struct ArrivalReport {
  int64_t iterations = 0;  // looked at
  std::vector<RankArrivals> ranks;
  int latest = -1;           // the rank furthest behind the median; -1: no iteration was kept
  double clock_error_s = 0;  // two ranks' times may be wrong by so much against each other
};

// rows[r]: what rank r kept, on one clock. Requires: equally many of each.
ArrivalReport CompareArrivals(const std::vector<std::vector<int64_t>>& rows, int buckets);
// All ranks, between iterations. `before` and `after`: this rank's clock before the first of the iterations and now.
// No iterations where the ranks did not keep the same ones. Errors: kPeer.
ArrivalReport GatherArrivals(Communicator& world, const ArrivalLog& log, const ClockOffset& before,
                             const ClockOffset& after);
// A table of mean and ninth decile, a line a rank and a column a bucket; where there are many, the first and the last.
std::string ArrivalTable(const ArrivalReport& report);

}  // namespace moka
