// One thread a rank moves all messages: it polls every peer, serves complete pushes by the strategy's rule, and naps
// where nothing comes. A message is a header and padded floats.
#include "comm/server/parameter_service.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/size.h"
#include "core/text.h"

namespace moka {
namespace {

// How long the thread sleeps at most where nothing comes: a push of this rank waits so long in the worst case.
constexpr std::chrono::microseconds kNap(500);

int64_t PaddedBytes(size_t floats) {
  return RoundUp(static_cast<int64_t>(floats * sizeof(float)), Transport::kUnit).value();
}

}  // namespace

ParameterService::ParameterService(Communicator& communicator, std::vector<int64_t> elements, Rule rule,
                                   int64_t staleness, ServedValues& values)
    : communicator_(communicator),
      elements_(std::move(elements)),
      rule_(rule),
      staleness_(staleness),
      values_(values),
      peers_(static_cast<size_t>(communicator.size())) {
  Require(elements_.size() == peers_.size(), "a number of elements for each server");
  int64_t begin = 0;
  for (const int64_t count : elements_) {
    begin_.push_back(begin);
    begin += count;
  }
  const auto own = static_cast<size_t>(elements_[static_cast<size_t>(communicator.rank())]);
  for (Peer& peer : peers_) {
    peer.outgoing.reserve(3);
    peer.gradients.resize(own);
    peer.sent.resize(own);
  }
  if (rule_ == Rule::kTogether) sum_.resize(own);
  thread_ = std::jthread([this](const std::stop_token& stop) { Work(stop); });
}

ParameterService::~ParameterService() {
  Cancel("it ended while weights were exchanged");
  {
    const std::lock_guard lock(mutex_);  // not between the thread's look and its wait, which would miss it
    thread_.request_stop();
  }
  changed_.notify_all();
}

bool ParameterService::is_entered() const {
  const std::lock_guard lock(mutex_);
  return is_entered_;
}

void ParameterService::Enter(int64_t clock) {
  const std::lock_guard lock(mutex_);
  Require(!is_entered_, "a rank enters once");
  for (Peer& peer : peers_) {
    peer.has_left = false;
    peer.clock = clock - 1;
    peer.loss.reset();
    values_.Read(peer.sent);
  }
  turn_ = 0;
  newest_ = clock - 1;
  signal_at_.reset();
  is_entered_ = true;
  changed_.notify_all();
}

void ParameterService::Await(std::unique_lock<std::mutex>& lock, const std::function<bool()>& is_done,
                             const std::string& what) {
  const auto patience = communicator_.patience();
  const auto is_over = [&] { return is_done() || !failure_.empty(); };
  moved_at_ = std::chrono::steady_clock::now();
  // Others may be far behind where nothing holds ranks together: only silence is a failure.
  while (!changed_.wait_until(lock, moved_at_ + patience, is_over) &&
         std::chrono::steady_clock::now() < moved_at_ + patience) {
  }
  if (!failure_.empty()) throw Error(ErrorKind::kPeer, failure_);
  if (is_done()) return;
  cancelled_for_ = StrCat(communicator_.NameOf(communicator_.rank()), " has waited ",
                          std::chrono::duration<double>(patience).count(), " s for ", what);
  if (communicator_.watch().diagnose) cancelled_for_ = StrCat(communicator_.watch().diagnose(), cancelled_for_);
  changed_.wait(lock, [&] { return !failure_.empty(); });
  throw Error(ErrorKind::kPeer, failure_);
}

ParameterService::Answer ParameterService::Exchange(int64_t clock, double loss, const Signals& signals,
                                                    std::span<const float> gradients, std::span<float> values) {
  std::unique_lock lock(mutex_);
  Require(is_entered_ && !wants_leave_, "gradients are pushed between Enter and Leave");
  push_ = {Kind::kPush, clock, loss, signals};
  gradients_ = gradients;
  received_ = values;
  answers_ = communicator_.size();
  communicator_.BeginCollective();
  wants_push_ = true;
  Await(
      lock, [&] { return answers_ == 0; }, "the weights that other ranks serve");
  return answer_;
}

void ParameterService::Leave() {
  std::unique_lock lock(mutex_);
  Require(is_entered_, "only who has entered leaves");
  wants_leave_ = true;
  Await(
      lock, [&] { return !is_entered_; }, "the others to come as far");
}

void ParameterService::Cancel(const std::string& why) noexcept {
  std::unique_lock lock(mutex_);
  if (!is_entered_ || !failure_.empty()) return;
  if (cancelled_for_.empty()) cancelled_for_ = why;
  changed_.wait(lock, [&] { return !failure_.empty(); });
}

// The lock is held to look at requests and to publish results, never while messages move: the transport belongs to this
// thread between Enter and Leave, so it needs no lock.
void ParameterService::Work(const std::stop_token& stop) {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop.stop_requested() || (is_entered_ && failure_.empty()); });
      if (stop.stop_requested()) return;
    }
    std::string failure;
    bool has_moved = false;
    bool is_over = false;
    try {
      has_moved = Round();
      is_over = HaveAllLeft();
      if (!has_moved && !is_over) communicator_.transport().Idle(std::chrono::steady_clock::now() + kNap, 1);
      failure = communicator_.transport().failure();
    } catch (const std::exception& error) {  // a thread has nobody to throw to
      failure = error.what();
      communicator_.Fail(failure);
    }
    const std::lock_guard lock(mutex_);
    if (has_moved) moved_at_ = std::chrono::steady_clock::now();
    if (failure.empty() && !cancelled_for_.empty()) {
      communicator_.Fail(cancelled_for_);
      failure = cancelled_for_;
    }
    if (!failure.empty()) {
      failure_ = failure;
      changed_.notify_all();
    } else if (is_over) {  // from here on the transport is the other thread's
      is_entered_ = false;
      changed_.notify_all();
    }
  }
}

std::span<float> ParameterService::PartOf(std::span<float> all, int server) const {
  const auto s = static_cast<size_t>(server);
  return all.subspan(static_cast<size_t>(begin_[s]), static_cast<size_t>(elements_[s]));
}

// One round never blocks: a full ring or a message that is half there is left for the next round, so that two ranks
// that push to each other cannot wait for each other.
bool ParameterService::Round() {
  const int own = communicator_.rank();
  bool pushes = false;
  bool leaves = false;
  {
    const std::lock_guard lock(mutex_);
    std::swap(pushes, wants_push_);
    std::swap(leaves, wants_leave_);
  }
  if (pushes) {
    for (int server = 0; server < communicator_.size(); ++server) {
      if (server == own) continue;
      const auto s = static_cast<size_t>(server);
      const std::span<const float> part =
          gradients_.subspan(static_cast<size_t>(begin_[s]), static_cast<size_t>(elements_[s]));
      peers_[s].outgoing.push_back({push_, part, 0});
      peers_[s].owes_answer = true;
    }
    Peer& self = peers_[static_cast<size_t>(own)];
    std::ranges::copy(gradients_.subspan(static_cast<size_t>(begin_[static_cast<size_t>(own)]), self.gradients.size()),
                      self.gradients.begin());
    Pushed(own, push_);
  }
  if (leaves) {
    for (int peer = 0; peer < communicator_.size(); ++peer) {
      if (peer != own) peers_[static_cast<size_t>(peer)].outgoing.push_back({{.kind = Kind::kLeave}, {}, 0});
    }
    peers_[static_cast<size_t>(own)].has_left = true;
  }
  bool moved = pushes || leaves;
  for (int peer = 0; peer < communicator_.size(); ++peer) {
    if (peer == own) continue;
    while (SendTo(peer)) moved = true;
    while (ReceiveFrom(peer)) moved = true;
  }
  while (Serve()) moved = true;
  return moved;
}

// Writes as much of the first parcel as the ring has room for; `at` remembers the rest. Header, values and padding are
// three pieces that are copied straight into the ring.
bool ParameterService::SendTo(int peer) {
  std::vector<Parcel>& parcels = peers_[static_cast<size_t>(peer)].outgoing;
  if (parcels.empty()) return false;
  Transport& transport = communicator_.transport();
  const std::span<std::byte> room = transport.Reserve(peer);
  if (room.empty()) return false;
  Parcel& parcel = parcels.front();
  constexpr auto kHead = static_cast<int64_t>(sizeof(Header));
  const int64_t end = kHead + PaddedBytes(parcel.values.size());
  int64_t used = 0;
  const auto put = [&](const void* from, int64_t begin, int64_t size) {  // the part of the parcel at [begin, + size)
    const int64_t offset = parcel.at - begin;
    const int64_t count = std::min(size - offset, static_cast<int64_t>(room.size()) - used);
    if (offset < 0 || count <= 0) return;
    std::memcpy(room.data() + used, static_cast<const std::byte*>(from) + offset, static_cast<size_t>(count));
    used += count;
    parcel.at += count;
  };
  constexpr std::array<std::byte, Transport::kUnit> kPadding{};
  const auto bytes = static_cast<int64_t>(parcel.values.size_bytes());
  put(&parcel.header, 0, kHead);
  put(parcel.values.data(), kHead, bytes);
  put(kPadding.data(), kHead + bytes, end - kHead - bytes);
  transport.Commit(peer, used);
  if (parcel.at == end) parcels.erase(parcels.begin());
  return true;
}

void ParameterService::CheckHeader(int peer) const {
  const Peer& from = peers_[static_cast<size_t>(peer)];
  const Header& header = from.incoming;
  const auto refuse = [&](const std::string& text) {
    throw Error(ErrorKind::kPeer, StrCat(communicator_.NameOf(peer), " sent ", text));
  };
  switch (header.kind) {
    case Kind::kPush:
      if (from.has_left || from.is_waiting) refuse("gradients before it was answered, or after it left");
      if (header.clock != from.clock + 1)
        refuse(StrCat("gradients of clock ", header.clock, ", expected those of clock ", from.clock + 1));
      return;
    case Kind::kAnswer:
      if (!from.owes_answer) refuse("an answer to nothing");
      if (header.clock != push_.clock)
        refuse(StrCat("an answer to clock ", header.clock, ", expected one to clock ", push_.clock));
      return;
    case Kind::kLeave:
      if (from.has_left || from.is_waiting) refuse("that it leaves before it was answered, or twice");
      return;
  }
  refuse("what is no message of a parameter server");
}

// Values go from the ring to their place at once: gradients to the peer's buffer, served weights into the caller's own
// array.
bool ParameterService::ReceiveFrom(int peer) {
  Peer& from = peers_[static_cast<size_t>(peer)];
  // Who has left pushes no more but answers who has not; once both have, what follows is not the service's.
  if (from.has_left && peers_[static_cast<size_t>(communicator_.rank())].has_left) return false;
  Transport& transport = communicator_.transport();
  const std::span<const std::byte> come = transport.Peek(peer);
  if (come.empty()) return false;
  constexpr auto kHead = static_cast<int64_t>(sizeof(Header));
  const auto available = static_cast<int64_t>(come.size());
  if (from.at < kHead) {
    const int64_t count = std::min(kHead - from.at, available);
    std::memcpy(reinterpret_cast<std::byte*>(&from.incoming) + from.at, come.data(), static_cast<size_t>(count));
    from.at += count;
    transport.Consume(peer, count);
    if (from.at == kHead) {
      CheckHeader(peer);
      Take(peer);
    }
    return true;
  }
  const std::span<float> to =
      from.incoming.kind == Kind::kPush ? std::span<float>(from.gradients) : PartOf(received_, peer);
  const auto bytes = static_cast<int64_t>(to.size_bytes());
  const int64_t offset = from.at - kHead;
  const int64_t count = std::min(PaddedBytes(to.size()) - offset, available);
  if (offset < bytes) {
    std::memcpy(reinterpret_cast<std::byte*>(to.data()) + offset, come.data(),
                static_cast<size_t>(std::min(count, bytes - offset)));
  }
  from.at += count;
  transport.Consume(peer, count);
  Take(peer);
  return true;
}

// Takes the message that has come from a peer, if it is complete.
void ParameterService::Take(int peer) {
  Peer& from = peers_[static_cast<size_t>(peer)];
  const Kind kind = from.incoming.kind;
  size_t floats = 0;
  if (kind == Kind::kPush) floats = from.gradients.size();
  if (kind == Kind::kAnswer) floats = static_cast<size_t>(elements_[static_cast<size_t>(peer)]);
  if (from.at < static_cast<int64_t>(sizeof(Header)) + PaddedBytes(floats)) return;
  from.at = 0;
  switch (kind) {
    case Kind::kPush: return Pushed(peer, from.incoming);
    case Kind::kAnswer: return Answered(peer, from.incoming);
    case Kind::kLeave: from.has_left = true;
  }
}

// A signal (to stop, to save) must reach all workers in the same iteration, though they are at different clocks: it is
// held back until a clock that none has passed.
void ParameterService::Pushed(int worker, const Header& header) {
  Peer& peer = peers_[static_cast<size_t>(worker)];
  peer.is_waiting = true;
  peer.clock = header.clock;
  peer.loss = header.loss;
  newest_ = std::max(newest_, header.clock);
  const bool has_signal = std::ranges::any_of(header.signals, [](double s) { return s != 0; });
  if (!has_signal || (signal_at_ && newest_ >= *signal_at_)) return;  // too late: it is pushed again
  // No worker has had an answer to a later clock than the newest, so all of them meet the next one.
  if (!signal_at_) {
    signal_at_ = newest_ + 1;
    pending_ = {};
  }
  for (size_t i = 0; i < pending_.size(); ++i) pending_[i] += header.signals[i];
}

// Does one thing that the rule allows.
bool ParameterService::Serve() {
  const auto size = static_cast<size_t>(communicator_.size());
  if (rule_ == Rule::kTogether) {
    if (!std::ranges::all_of(peers_, &Peer::is_waiting)) return false;
    Update(-1);
    for (size_t w = 0; w < size; ++w) AnswerTo(static_cast<int>(w));
    return true;
  }
  if (rule_ == Rule::kTurn) {
    if (!peers_[static_cast<size_t>(turn_)].is_waiting) return false;
    Update(turn_);
    AnswerTo(turn_);
    turn_ = (turn_ + 1) % static_cast<int>(size);
    return true;
  }
  bool served = false;
  for (size_t w = 0; w < size; ++w) {
    Peer& peer = peers_[w];
    if (!peer.is_waiting) continue;
    if (!peer.gradients_applied) {
      Update(static_cast<int>(w));
      peer.gradients_applied = served = true;
    }
    const auto is_behind = [&](const Peer& other) { return other.clock < peer.clock - staleness_; };
    if (rule_ == Rule::kBounded && std::ranges::any_of(peers_, is_behind)) continue;
    AnswerTo(static_cast<int>(w));
    served = true;
  }
  return served;
}

// One worker's gradients as they are, or, with all together, their sum in the order of ranks: the same bits as a sum in
// one process would have.
void ParameterService::Update(int worker) {
  if (worker >= 0) {
    Peer& peer = peers_[static_cast<size_t>(worker)];
    return values_.Apply(peer.clock, *peer.loss, peer.gradients, peer.sent);
  }
  double loss = 0;
  std::ranges::fill(sum_, 0.0F);
  for (const Peer& peer : peers_) {  // in the order of ranks
    for (size_t i = 0; i < sum_.size(); ++i) sum_[i] += peer.gradients[i];
    loss += *peer.loss;
  }
  values_.Apply(newest_, loss, sum_, {});
}

// The loss of an answer is the mean over the last push of each worker; who has not pushed counts as this one.
void ParameterService::AnswerTo(int worker) {
  Peer& peer = peers_[static_cast<size_t>(worker)];
  peer.is_waiting = peer.gradients_applied = false;
  values_.Read(peer.sent);
  Header header{Kind::kAnswer, peer.clock, 0, {}};
  for (const Peer& other : peers_) header.loss += other.loss.value_or(*peer.loss);
  header.loss /= static_cast<double>(peers_.size());
  if (signal_at_ && peer.clock >= *signal_at_) header.signals = pending_;
  if (worker != communicator_.rank()) return peer.outgoing.push_back({header, peer.sent, 0});
  std::ranges::copy(peer.sent, PartOf(received_, worker).begin());
  Answered(worker, header);
}

void ParameterService::Answered(int server, const Header& header) {
  peers_[static_cast<size_t>(server)].owes_answer = false;
  const std::lock_guard lock(mutex_);
  if (server == 0) answer_ = {header.loss, header.signals};
  if (--answers_ == 0) changed_.notify_all();
}

bool ParameterService::HaveAllLeft() const {
  return std::ranges::all_of(peers_, [](const Peer& peer) { return peer.has_left && peer.outgoing.empty(); });
}

}  // namespace moka
