// A moka serve of its own: started, looked at and ended by whoever measures it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace moka {

struct ServerFacts {
  double resident_mib = 0;
  int64_t open_files = 0;
  int64_t threads = 0;
};

// One thread starts and ends it; any may look.
class SoakServer {
 public:
  // `words` follow "moka serve". What it says goes to `log`.
  SoakServer(std::string moka, std::vector<std::string> words, std::filesystem::path log);
  SoakServer(const SoakServer&) = delete;
  SoakServer& operator=(const SoakServer&) = delete;
  ~SoakServer();  // ends it at once

  // Waits until it is ready; the port of the first start is kept. Errors: kPeer with the log's end where it is not.
  void Start();
  void Signal(int signal) const;
  // Returns the exit code, 128 and the signal's number for one that was killed.
  int Wait();
  uint16_t port() const { return port_; }
  ServerFacts Facts() const;

 private:
  std::string moka_;
  std::vector<std::string> words_;
  std::filesystem::path log_;
  pid_t process_ = -1;
  uint16_t port_ = 0;
};

}  // namespace moka
