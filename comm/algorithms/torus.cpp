// A torus of any number of dimensions p_1 x p_2 x ... (Cho et al., "PowerAI DDL", 2017, and "BlueConnect", 2019): for
// each dimension in turn a ring reduce-scatter of the shard that the one before has left, then ring all-gathers in
// reverse. 2 sum (p_d - 1) rounds; through dimension d a rank sends 2 (p_d - 1)/p_d of the message divided by p_1 ...
// p_(d-1).
#include "comm/algorithms/algorithm.h"
#include "core/text.h"

namespace moka {
namespace {

std::string RefuseTorus(const Arrangement& arrangement) {
  int64_t product = 1;
  for (const int p : arrangement.dimensions) product *= p;
  if (arrangement.dimensions.empty() || product != arrangement.ranks) {
    return StrCat("the dimensions of the torus hold ", product, " ranks, and there are ", arrangement.ranks);
  }
  return {};
}

// A ring over the ranks of one dimension, of a shard of `each` * p chunks that begins at `first`.
struct Line {
  int ranks = 1;
  int place = 0;   // this rank's
  int stride = 1;  // between neighbours
  int64_t first = 0;
  int64_t each = 1;
};

// Step `step` of the reduce-scatter; the all-gather of the same line goes on with the steps behind it. A rank ends the
// reduce-scatter with the chunks of its place.
Round StepOf(const Line& line, int rank, int step) {
  const int p = line.ranks;
  const int next = rank + ((line.place + 1) % p - line.place) * line.stride;
  const int before = rank + ((line.place + p - 1) % p - line.place) * line.stride;
  const int sent = ((line.place - 1 - step) % p + 2 * p) % p;
  const int received = ((line.place - 2 - step) % p + 2 * p) % p;
  return {.sends = {{.peer = next, .first = line.first + sent * line.each, .count = line.each}},
          .receives = {
              {.peer = before, .first = line.first + received * line.each, .count = line.each, .adds = step < p - 1}}};
}

Schedule MakeTorus(const Arrangement& arrangement, int rank) {
  Schedule schedule{.rank = rank, .size = arrangement.ranks, .chunks = arrangement.ranks};
  std::vector<Line> lines;
  Line line{.first = 0, .each = arrangement.ranks};
  int rest = rank;
  for (const int p : arrangement.dimensions) {
    line.ranks = p;
    line.place = rest % p;
    line.each /= p;
    lines.push_back(line);
    line.first += line.place * line.each;
    line.stride *= p;
    rest /= p;
  }
  for (const Line& l : lines) {
    for (int step = 0; step < l.ranks - 1; ++step) schedule.rounds.push_back(StepOf(l, rank, step));
  }
  for (size_t d = lines.size(); d-- > 0;) {
    const Line& l = lines[d];
    for (int step = l.ranks - 1; step < 2 * (l.ranks - 1); ++step) schedule.rounds.push_back(StepOf(l, rank, step));
  }
  return schedule;
}

}  // namespace

AllReduceAlgorithm TorusAllReduce() {
  return {.name = "torus",
          .doc = "rings along each dimension in turn, and back: for machines with a fast and a slow direction",
          .has_dimensions = true,
          .refuse = RefuseTorus,
          .make = MakeTorus};
}

}  // namespace moka
