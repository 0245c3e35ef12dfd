// A client's connection that does what a test wants of it: sends slowly, leaves, breaks off.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tools/bench/serve/soak_requests.h"

namespace moka {

class SoakConnection {
 public:
  SoakConnection() = default;
  SoakConnection(const SoakConnection&) = delete;
  SoakConnection& operator=(const SoakConnection&) = delete;
  ~SoakConnection() { Close(); }

  // To a port of this machine. Returns whether something listens there.
  bool Connect(uint16_t port);
  bool is_open() const { return socket_ >= 0; }
  // Returns whether all was taken by the system.
  bool Send(std::string_view bytes) const;
  // The next answer; of status 0 where the connection ended or nothing came for a minute. `is_begun`: whether any byte
  // of it came.
  SoakReply Receive(bool& is_begun);
  // Says that no more is sent.
  void EndSending() const;
  void Close();
  // Ends it by a reset rather than an end.
  void Reset();

 private:
  bool More();

  int socket_ = -1;
  std::string buffer_;
};

}  // namespace moka
