// The first rank writes a mark and the others look for it: a folder that has one name on two disks is found before a
// run begins.
#include "tools/train/shared_folder.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

// A file that is there as long as this object.
class Mark {
 public:
  explicit Mark(fs::path file) : file_(std::move(file)) { WriteFileAtomically(file_, ""); }
  ~Mark() {
    std::error_code ignored;
    fs::remove(file_, ignored);
  }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;

 private:
  fs::path file_;
};

}  // namespace

fs::path RequireSharedFolder(Communicator& world, const fs::path& folder) {
  const bool is_first = world.is_first();
  const std::string given = world.Broadcast(folder.string());
  const fs::path whole = world.Broadcast(fs::absolute(folder).string());
  const std::string name = world.Broadcast(StrCat(".reached-by-ranks-of-", getpid()));
  if (is_first) {
    CreateFolders(folder);
    const Mark mark(folder / name);
    world.Barrier();  // it is there
    world.Barrier();  // all have seen it
    return folder;
  }
  world.Barrier();
  std::error_code code;
  const std::array<fs::path, 2> places = {whole, fs::path(given)};
  const auto* const found =
      std::ranges::find_if(places, [&](const fs::path& place) { return fs::exists(place / name, code); });
  if (found == places.end()) {
    throw Error(
        ErrorKind::kCantCreate, {},
        StrCat(world.NameOf(world.rank()), " does not reach ", Printable(whole.string()),
               ", where the first rank keeps the run; it works in ", Printable(fs::current_path(code).string())),
        "ranks need one folder for runs: name one that all reach, --runs=FOLDER");
  }
  world.Barrier();
  return *found;
}

}  // namespace moka
