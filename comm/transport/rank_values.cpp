// Checks the size and the range of what other ranks send: a rank of another build, or one that has gone wrong, is named
// rather than believed.
#include "comm/transport/rank_values.h"

#include <charconv>

#include "core/error.h"
#include "core/text.h"

namespace moka {

void RefuseMessage(const Communicator& world, int rank, std::string_view text) {
  throw Error(ErrorKind::kPeer, SourcePlace{}, StrCat(world.NameOf(rank), " sent ", text),
              "the ranks are not at the same place of one program: start the same moka with the same words on each");
}

void RequireBytes(const Communicator& world, int rank, std::string_view text, size_t bytes) {
  if (text.size() != bytes) RefuseMessage(world, rank, StrCat(text.size(), " bytes where ", bytes, " were due"));
}

template <class Whole>
Whole WholeOfRank(const Communicator& world, int rank, std::string_view text) {
  Whole number{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code == std::errc() && end == text.data() + text.size()) return number;
  constexpr size_t kMostShown = 40;
  RefuseMessage(world, rank, StrCat("\"", Printable(text.substr(0, kMostShown)), "\" where a whole number was due"));
}
template int WholeOfRank<int>(const Communicator& world, int rank, std::string_view text);
template uint64_t WholeOfRank<uint64_t>(const Communicator& world, int rank, std::string_view text);

}  // namespace moka
