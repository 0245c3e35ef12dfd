// Requests of a server whose right answers are known beforehand: each is made of other numbers, pictures or words, and
// its answer comes from the same net in this process, one row at a time, without a server.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moka {

struct SoakRequest {
  std::string kind;   // "binary"
  std::string model;  // as the server calls it
  std::string bytes;  // head and body
  size_t head_bytes = 0;
  size_t id_at = 0;                // of X-Request-Id's kIdDigits digits
  std::vector<float> values = {};  // of all outputs in order; empty: `text` is the answer
  std::string text = {};
  bool may_be_late = false;  // has a timeout so short that it may be refused
};

inline constexpr size_t kIdDigits = 16;

// An answer, as a client reads it.
struct SoakReply {
  int status = 0;  // 0: none came
  std::string head = {};
  std::string body = {};

  // A header's value; empty: there is none. `name` in small letters.
  std::string_view Header(std::string_view name) const;
};

enum class AnswerVerdict : uint8_t { kRight, kWrong, kMixedUp };

class SoakRequests {
 public:
  // `models`: words as moka serve takes them. Errors: those of InferSourceOf and of the nets.
  SoakRequests(const std::vector<std::string>& models, uint64_t seed);

  const std::vector<SoakRequest>& all() const { return all_; }
  // Says whether an answer of status 200 is the request's. `difference`: the largest of its numbers to the right ones,
  // a part of the right one where that is over 1.
  AnswerVerdict Judge(const SoakRequest& request, std::string_view id, const SoakReply& reply,
                      double& difference) const;

 private:
  struct Maker;
  std::vector<SoakRequest> all_;
};

}  // namespace moka
