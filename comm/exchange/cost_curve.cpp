// A curve is linear between its points, and noise is taken out by isotonic regression (pool adjacent violators), as a
// planner must never gain by a longer message. Fit is a line by least squares of relative errors, weights 1/y^2, so
// that short messages count as much as long ones.
#include "comm/exchange/cost_curve.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

bool IsCost(const CostPoint& point) { return point.bytes >= 0 && std::isfinite(point.seconds) && point.seconds >= 0; }

// Times that never fall, with the least squared change (pool adjacent violators).
void MakeRising(std::vector<CostPoint>& points) {
  struct Pool {
    double sum;
    size_t count;
    double Mean() const { return sum / static_cast<double>(count); }
  };
  std::vector<Pool> pools;
  for (const CostPoint& point : points) {
    pools.push_back({point.seconds, 1});
    while (pools.size() > 1 && pools[pools.size() - 2].Mean() > pools.back().Mean()) {
      const Pool last = pools.back();
      pools.pop_back();
      pools.back().sum += last.sum;
      pools.back().count += last.count;
    }
  }
  size_t at = 0;
  for (const Pool& pool : pools) {
    for (size_t i = 0; i < pool.count; ++i) points[at++].seconds = pool.Mean();
  }
}

double Slope(const CostPoint& a, const CostPoint& b) {
  return (b.seconds - a.seconds) / static_cast<double>(b.bytes - a.bytes);
}

template <class T>
bool ReadCurveNumber(std::string_view text, T& value) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc() && end == text.data() + text.size();
}

CostPoint ReadPoint(std::string_view text) {
  CostPoint point;
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos || !ReadCurveNumber(text.substr(0, colon), point.bytes) ||
      !ReadCurveNumber(text.substr(colon + 1), point.seconds) || !IsCost(point)) {
    throw Error(ErrorKind::kBadData, {}, StrCat("\"", Printable(text), "\" is no point of a cost curve"),
                "a point is BYTES:SECONDS");
  }
  return point;
}

}  // namespace

CostCurve::CostCurve(std::vector<CostPoint> measured) : points_(std::move(measured)) {
  Require(!points_.empty() && std::ranges::all_of(points_, IsCost), "CostCurve: points with bytes and seconds");
  std::ranges::sort(points_, [](const CostPoint& a, const CostPoint& b) {
    return std::pair(a.bytes, a.seconds) < std::pair(b.bytes, b.seconds);
  });
  const auto is_again = [](const CostPoint& a, const CostPoint& b) { return a.bytes == b.bytes; };
  points_.erase(std::unique(points_.begin(), points_.end(), is_again), points_.end());
  MakeRising(points_);
}

double CostCurve::Seconds(int64_t bytes) const {
  const auto next = std::ranges::lower_bound(points_, bytes, {}, &CostPoint::bytes);
  if (next == points_.begin()) return next->seconds;
  if (next != points_.end()) {
    const CostPoint& before = *(next - 1);
    return before.seconds + Slope(before, *next) * static_cast<double>(bytes - before.bytes);
  }
  const CostPoint& last = points_.back();
  for (size_t i = points_.size(); i-- > 1;) {
    const double slope = Slope(points_[i - 1], points_[i]);
    if (slope > 0) return last.seconds + slope * static_cast<double>(bytes - last.bytes);
  }
  return last.seconds;
}

CostLine CostCurve::Fit() const {
  // Sums of w, wx, wxx, wy, wxy with w = 1 / y^2.
  double w = 0;
  double wx = 0;
  double wxx = 0;
  double wy = 0;
  double wxy = 0;
  const auto weight = [](const CostPoint& p) { return p.seconds > 0 ? 1 / (p.seconds * p.seconds) : 1; };
  for (const CostPoint& p : points_) {
    const double x = static_cast<double>(p.bytes);
    const double a = weight(p);
    w += a;
    wx += a * x;
    wxx += a * x * x;
    wy += a * p.seconds;
    wxy += a * x * p.seconds;
  }
  CostLine line;
  const double spread = w * wxx - wx * wx;
  if (points_.size() > 1 && spread > 0) line.beta_s = std::max(0.0, (w * wxy - wx * wy) / spread);
  line.alpha_s = (wy - line.beta_s * wx) / w;
  if (line.alpha_s < 0) {
    line.alpha_s = 0;
    line.beta_s = wxy / wxx;
  }
  double errors = 0;
  double total = 0;
  for (const CostPoint& p : points_) {
    const double error = p.seconds - line.alpha_s - line.beta_s * static_cast<double>(p.bytes);
    errors += weight(p) * error * error;
    total += weight(p) * (p.seconds - wy / w) * (p.seconds - wy / w);
  }
  line.r_squared = total > 0 ? 1 - errors / total : 1;
  return line;
}

void CostTable::Add(std::string algorithm, CostCurve curve) {
  Require(!algorithm.empty() && algorithm.find_first_of(" \t\n") == std::string::npos &&
              !std::ranges::count(rows_, algorithm, &Row::algorithm),
          "CostTable::Add: a new name without white space");
  rows_.push_back({std::move(algorithm), std::move(curve)});
}

MessageCost CostTable::Cheapest(int64_t bytes) const {
  Require(!rows_.empty(), "CostTable::Cheapest: a curve");
  MessageCost best;
  for (const Row& row : rows_) {
    const double seconds = row.curve.Seconds(bytes);
    if (best.algorithm.empty() || seconds < best.seconds) best = {seconds, row.algorithm};
  }
  return best;
}

CostCurve CostTable::Minimum() const {
  std::set<int64_t> sizes;
  for (const Row& row : rows_) {
    for (const CostPoint& point : row.curve.points()) sizes.insert(point.bytes);
  }
  std::vector<CostPoint> points;
  for (const int64_t bytes : sizes) points.push_back({bytes, Cheapest(bytes).seconds});
  return CostCurve(std::move(points));
}

std::vector<std::string> CostTable::algorithms() const {
  std::vector<std::string> names;
  for (const Row& row : rows_) names.push_back(row.algorithm);
  return names;
}

const CostCurve& CostTable::Of(std::string_view algorithm) const {
  const auto row = std::ranges::find(rows_, algorithm, &Row::algorithm);
  Require(row != rows_.end(), "CostTable::Of: an algorithm that was measured");
  return row->curve;
}

std::string CostTable::ToText() const {
  std::string text;
  for (const Row& row : rows_) {
    text += row.algorithm;
    for (const CostPoint& point : row.curve.points()) text += StrCat(' ', point.bytes, ':', point.seconds);
    text += '\n';
  }
  return text;
}

CostTable CostTable::FromText(std::string_view text) {
  CostTable table;
  int line_number = 0;
  for (const std::string& line : Split(text, '\n')) {
    ++line_number;
    if (line.empty()) continue;
    const std::vector<std::string> words = Split(line, ' ');
    try {
      if (words.size() < 2 || words[0].empty() || std::ranges::count(table.rows_, words[0], &Row::algorithm) > 0) {
        throw Error(ErrorKind::kBadData, StrCat("\"", Printable(line), "\" is no cost curve of a new algorithm"));
      }
      std::vector<CostPoint> points;
      for (size_t i = 1; i < words.size(); ++i) points.push_back(ReadPoint(words[i]));
      table.Add(words[0], CostCurve(std::move(points)));
    } catch (Error& error) {
      error.AddNote(StrCat("in line ", line_number, " of the cost curves"));
      throw;
    }
  }
  return table;
}

}  // namespace moka
