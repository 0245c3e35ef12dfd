// New databases from the records of one, which are copied as they are: in another order, or in parts. Keys count anew;
// what follows the number in a key stays. A copy that was interrupted goes on when it is asked for again
// (lmdb_writer.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace moka {

struct CopyOptions {
  uint64_t seed = 1;
  bool restart = false;                                            // an interrupted copy is begun anew
  std::function<void(int64_t done, int64_t total)> progress = {};  // over all parts
  std::function<bool()> wants_stop = {};                           // true ends the copying with kInterrupted
};

// All records in an order drawn by the seed; returns how many. Errors: those of LmdbReader and LmdbWriter,
// kInterrupted.
int64_t ShuffleLmdb(const std::filesystem::path& from, const std::filesystem::path& out, const CopyOptions& options);

struct SplitPart {
  std::string name;
  double share = 0;
};
// "train=0.9,val=0.1". Errors: kUsage for a name that is no file name or comes twice, for shares that are not above 0
// or sum to more than 1.
std::vector<SplitPart> ParseParts(std::string_view text);

// How many of `count` things each share gets, and what is left over: by largest remainders, so that each count is less
// than one away from its share.
std::vector<int64_t> Apportion(int64_t count, const std::vector<SplitPart>& parts);

struct SplitReport {
  std::vector<std::filesystem::path> paths;  // one for each part
  std::vector<int64_t> records;              // one for each part
  int64_t left_out = 0;                      // where shares sum to less than 1
};
// Writes OUT + name for each part (so OUT ends with "/" or "_"). Which record goes where is drawn by the seed, from the
// records of each class apart when `by_class`; records keep their order. A part that is there from the same split is
// left as it is. Errors: as above; kBadData naming a record without a class or a part that would be empty.
SplitReport SplitLmdb(const std::filesystem::path& from, const std::string& out, const std::vector<SplitPart>& parts,
                      bool by_class, const CopyOptions& options);

}  // namespace moka
