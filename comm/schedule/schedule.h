// A collective as data: what each rank sends and receives, round by round, in pieces of the message called chunks. One
// engine runs it over any transport (comm/schedule/runner.h), the simulator in virtual time, and before either a check
// proves that every chunk ends as the sum of all ranks (comm/schedule/schedule_check.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moka {

// Chunks [first, first + count) to or from a peer. Chunk i of n elements: ChunkBegin(n, chunks, i) and on.
struct Transfer {
  int peer = 0;
  int64_t first = 0;
  int64_t count = 1;
  bool adds = false;  // of a receive: added to what lies there, instead of replacing it
};

// Transfers that go on at the same time; the next round begins when all have ended. What is sent is as it was before
// the round's receives. Receives that add to the same chunks are summed in the order of the ranks, with this rank's own
// values in its place, so the sum does not depend on who arrives first.
struct Round {
  std::vector<Transfer> sends = {};
  std::vector<Transfer> receives = {};
};

// One rank's part in a collective.
struct Schedule {
  int rank = 0;
  int size = 1;
  int64_t chunks = 1;
  std::vector<Round> rounds = {};
  // Where chunks begin, and their end, for messages of one size; empty: as ChunkBegin has it for any.
  std::vector<int64_t> bounds = {};
  // The rounds for messages of at most `short_elements`: the same sums, added in the same order, in fewer rounds of
  // more elements.
  std::vector<Round> short_rounds = {};
  int64_t short_elements = 0;

  int64_t Begin(int64_t elements, int64_t chunk) const;
  const std::vector<Round>& RoundsOf(int64_t elements) const {
    return elements <= short_elements ? short_rounds : rounds;
  }
};

// First element of chunk i: multiples of 16 elements, so that no two ranks write to one cache line; the last chunks of
// a short message are empty. ChunkBegin(n, chunks, chunks) = n.
int64_t ChunkBegin(int64_t elements, int64_t chunks, int64_t i);

// The elements this rank sends over all rounds.
int64_t SentElements(const Schedule& schedule, int64_t elements);

}  // namespace moka
