// Clients of a server, most of them well-behaved: some leave, some break off, some are slow, some send what they should
// not. Each answer is judged; what has no answer is told.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tools/bench/serve/hostile_requests.h"
#include "tools/bench/serve/soak_requests.h"

namespace moka {

// How the server may end while it is asked.
enum class ServerEnds : uint8_t {
  kNot,
  kDrains,  // what it has begun to read it answers; other requests are sent again
  kKilled   // any request may be broken off, and is sent again
};

struct ClientPlan {
  uint16_t port = 0;
  int64_t clients = 64;
  int64_t requests = 0;  // in all; 0: until Stop
  uint64_t seed = 1;
  ServerEnds ends = ServerEnds::kNot;
  // Parts of all requests.
  double cancels = 0.02;
  double resets = 0.01;
  double hostile = 0.01;
  double slow = 0.002;
  double pipelined = 0.02;
};

// Counts by name, and examples of what went wrong.
struct ClientCounts {
  std::map<std::string, int64_t> counts = {};
  std::map<std::string, int64_t> kinds = {};  // right answers
  std::vector<std::string> faults = {};       // the first of each thread
  std::vector<float> ms = {};                 // of right answers
  double most_difference = 0;
};

class SoakClients {
 public:
  SoakClients(const ClientPlan& plan, const SoakRequests& requests);
  SoakClients(const SoakClients&) = delete;
  SoakClients& operator=(const SoakClients&) = delete;
  ~SoakClients();

  void Stop() { stops_ = true; }
  int64_t begun() const { return begun_; }
  bool is_done() const { return left_ == 0; }
  // Waits for all clients. Returns their counts together.
  ClientCounts Wait();

 private:
  struct Client;

  ClientPlan plan_;
  const SoakRequests& requests_;
  std::vector<HostileRequest> hostile_;
  std::atomic<bool> stops_ = false;
  std::atomic<int64_t> begun_ = 0;
  std::atomic<int64_t> left_ = 0;
  std::vector<std::unique_ptr<Client>> clients_;
};

}  // namespace moka
