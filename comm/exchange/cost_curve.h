// The cost of an all-reduce: seconds as a function of its bytes, measured at start-up for each algorithm, and which
// algorithm is the cheapest for a message. Bytes are those of one rank's gradients as they travel (half of float32's
// with a half type on the wire).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moka {

struct CostPoint {
  int64_t bytes = 0;
  double seconds = 0;
};

// seconds = alpha_s + beta_s * bytes.
struct CostLine {
  double alpha_s = 0;    // start-up
  double beta_s = 0;     // a byte
  double r_squared = 1;  // 1: the line goes through every point
};

// A straight line between measured points. Below the first point its time (a message costs no less than its start-up),
// beyond the last the line of the last segment that rises. Never falls: measured times that do are averaged with their
// neighbours (isotonic regression, pool adjacent violators).
class CostCurve {
 public:
  // Requires: at least one point; bytes >= 0; seconds finite and >= 0. Of two times for one size the smaller counts:
  // what disturbs a measurement adds to it.
  explicit CostCurve(std::vector<CostPoint> measured);

  double Seconds(int64_t bytes) const;
  // Least squares of the relative errors, so that kilobytes, which show alpha, count as much as megabytes, which show
  // beta; alpha and beta are not below 0. r_squared has the same weights.
  CostLine Fit() const;
  const std::vector<CostPoint>& points() const { return points_; }  // by bytes, ascending

 private:
  std::vector<CostPoint> points_;
};

struct MessageCost {
  double seconds = 0;
  std::string_view algorithm;  // lives as long as the table
};

// The curves of all algorithms that were measured.
class CostTable {
 public:
  // Requires: a name without white space that is not there yet.
  void Add(std::string algorithm, CostCurve curve);
  bool empty() const { return rows_.empty(); }

  // Returns the cost by the cheapest algorithm; among equally cheap ones, by the one added first. Requires: not empty.
  MessageCost Cheapest(int64_t bytes) const;
  // The least time of any algorithm at every size one of them was measured at. Requires: not empty.
  CostCurve Minimum() const;
  std::vector<std::string> algorithms() const;
  // Errors: kInternal if it was not measured.
  const CostCurve& Of(std::string_view algorithm) const;

  // A line a curve, "ring 1024:1.5e-05 4096:2e-05"; reads back to the same bits.
  std::string ToText() const;
  // Errors: kBadData with the line.
  static CostTable FromText(std::string_view text);

 private:
  struct Row {
    std::string algorithm;
    CostCurve curve;
  };
  std::vector<Row> rows_;
};

}  // namespace moka
