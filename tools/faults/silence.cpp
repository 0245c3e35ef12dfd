// Wraps the world's transport in a ShapedTransport whose condition is that a file exists.
#include "tools/faults/silence.h"

#include <unistd.h>

#include <cstdlib>

#include "comm/transport/shaped_transport.h"
#include "core/error.h"
#include "core/text.h"

namespace moka {

std::unique_ptr<Communicator> WithFault(std::unique_ptr<Communicator> world) {
  const char* text = std::getenv("MOKA_SILENCE");  // NOLINT(concurrency-mt-unsafe): before threads start
  if (text == nullptr) return world;
  char* end = nullptr;
  const long rank = std::strtol(text, &end, 10);
  if (end == text || *end != ':' || end[1] == '\0')
    throw Error(ErrorKind::kUsage, StrCat("MOKA_SILENCE wants RANK:FILE, found \"", Printable(text), "\""));
  LinkShape shape;
  shape.host_of.assign(static_cast<size_t>(world->size()), 0);
  if (rank == world->rank()) shape.falls_silent = [file = std::string(end + 1)] { return unlink(file.c_str()) == 0; };
  std::vector<std::string> hosts = world->hosts();
  const std::chrono::nanoseconds patience = world->patience();
  return std::make_unique<Communicator>(std::make_unique<ShapedTransport>(world->TakeTransport(), std::move(shape)),
                                        std::move(hosts), patience);
}

}  // namespace moka
