// The inner loops of embed_sum and its gradient: weighed rows of a table added up, and a row added to rows of a table.
// No std in this header: loops of every instruction set are built from it.
#pragma once

#include <cstdint>

namespace moka {

// A word of a sentence: where its row of the table begins, and the line over the columns that weighs it.
struct EmbedWord {
  int64_t at = 0;
  float first = 1;
  float slope = 0;
};

struct EmbedRows {
  const EmbedWord* words = nullptr;
  int64_t count = 0;
  int64_t begin = 0;  // columns [begin, end)
  int64_t end = 0;
  const float* ramp = nullptr;  // 1, 2, .. for all columns
};

struct EmbedLoops {
  // Whether any of so many values is another than this one.
  bool (*has_other)(const float* values, int64_t count, float than);
  // y[k] = the sum of (first + slope * ramp[k]) * table[at + k], word after word.
  void (*sum)(const EmbedRows& rows, const float* table, float* y);
  // table[at + k] += (first + slope * ramp[k]) * dy[k], word after word.
  void (*add)(const EmbedRows& rows, const float* dy, float* table);
};

// Returns the loops for the widest registers here; all give the same bits.
EmbedLoops BestEmbedLoops();

}  // namespace moka
