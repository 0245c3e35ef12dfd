// The CPU as a device, and as a rehearsed GPU: each stream is a thread with a queue. Copies, waits and calls run there
// in order, so that order, overlap and reuse can be tested as they are on a GPU.
#include <atomic>
#include <cstring>
#include <optional>
#include <thread>

#include "core/device/device_backend.h"
#include "core/threads/bounded_queue.h"
#include "core/threads/team.h"
#include "core/trace.h"

namespace moka {
namespace {

struct Recorded;

// An event counts its records: asked for by callers, reached by the stream. It is done when the two agree. Streams hold
// the state too: an event may go while work in a queue still names it.
struct EventState {
  std::atomic<uint64_t> asked = 0;
  std::atomic<uint64_t> reached = 0;
  std::atomic<int64_t> micros = 0;  // of the last one reached
  // The recording under way that its last Record is a part of.
  std::atomic<Recorded*> recording = nullptr;

  void WaitUntil(uint64_t count) const {
    for (uint64_t seen = reached; seen < count; seen = reached) reached.wait(seen);
  }
};

class HostEvent : public Event {
 public:
  bool IsDone() const override { return state_->reached >= state_->asked; }
  void Wait() const override { state_->WaitUntil(state_->asked); }
  double MillisSince(const Event& start) const override {
    const EventState& from = *StateOf(start);
    Require(state_->asked > 0 && from.asked > 0 && IsDone() && start.IsDone(), "Event::MillisSince: both are done");
    return static_cast<double>(state_->micros - from.micros) * 1e-3;
  }

  static const std::shared_ptr<EventState>& StateOf(const Event& event) {
    const auto* host = dynamic_cast<const HostEvent*>(&event);
    Require(host != nullptr, "Stream: events are of the stream's kind of device");
    return host->state_;
  }

 private:
  std::shared_ptr<EventState> state_ = std::make_shared<EventState>();
};

// One entry of a queue: what its kind names, the rest stays empty. (Of a variant GCC 12 warns that it is read without
// having been set.)
struct Work {
  enum class Kind { kCopy, kZero, kCall, kRehearse, kRecord, kWait, kFree } kind;
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  int64_t bytes = 0;
  void (*function)(void*) = nullptr;
  void* argument = nullptr;
  std::shared_ptr<const std::function<void()>> rehearsed = nullptr;
  std::shared_ptr<EventState> event = nullptr;
  uint64_t count = 0;                        // of the event's records
  std::shared_ptr<Buffer> memory = nullptr;  // to be freed: goes with the entry
};

void Do(const Work& work) {
  switch (work.kind) {
    case Work::Kind::kCopy: std::memcpy(work.to, work.from, static_cast<size_t>(work.bytes)); break;
    case Work::Kind::kZero: std::memset(work.to, 0, static_cast<size_t>(work.bytes)); break;
    case Work::Kind::kCall: work.function(work.argument); break;
    case Work::Kind::kRehearse: (*work.rehearsed)(); break;
    case Work::Kind::kRecord:
      work.event->micros = NowMicros();
      work.event->reached = work.count;
      work.event->reached.notify_all();
      break;
    case Work::Kind::kWait: work.event->WaitUntil(work.count); break;
    case Work::Kind::kFree: break;
  }
}

using WorkQueue = BoundedQueue<Work>;

class HostStream;

struct RecordedWork {
  HostStream* stream = nullptr;
  Work work;
};

// A recording under way: the work of the stream that began it and of those that have joined it.
struct Recorded {
  std::vector<RecordedWork> works;
  std::vector<HostStream*> joined;

  // Whether another stream waits for the last that this one does, as a GPU demands of those that have joined.
  bool IsWaitedFor(const HostStream* stream) const {
    const EventState* last = nullptr;
    bool is_waited_for = true;
    for (const RecordedWork& one : works) {
      if (one.stream == stream) {
        last = one.work.kind == Work::Kind::kRecord ? one.work.event.get() : nullptr;
        is_waited_for = false;
      } else if (one.work.kind == Work::Kind::kWait && one.work.event.get() == last) {
        is_waited_for = true;
      }
    }
    return is_waited_for;
  }
};

class HostRecording : public Recording {
 public:
  HostRecording(const HostStream* begun_by, std::vector<RecordedWork> works)
      : begun_by_(begun_by), works_(std::move(works)) {}
  void Launch(Stream& stream) const override;

 private:
  const HostStream* begun_by_;
  std::vector<RecordedWork> works_;
};

class HostStream : public Stream {
 public:
  explicit HostStream(const Device& device)
      : Stream(device), queue_(std::make_shared<WorkQueue>(kRoom)), thread_([queue = queue_] {
          LeaveTeamCpus();
          while (const std::optional<Work> work = queue->Pop()) Do(*work);
        }) {}
  ~HostStream() override { queue_->Close(); }  // the thread ends when the queue is empty

  void CopyToDevice(std::byte* to, const std::byte* from, int64_t bytes) override {
    Add({.kind = Work::Kind::kCopy, .to = to, .from = from, .bytes = bytes});
  }
  void CopyToHost(std::byte* to, const std::byte* from, int64_t bytes) override { CopyToDevice(to, from, bytes); }
  void CopyOnDevice(std::byte* to, const std::byte* from, int64_t bytes) override { CopyToDevice(to, from, bytes); }
  void Call(void (*function)(void*), void* argument) override {
    Add({.kind = Work::Kind::kCall, .function = function, .argument = argument});
  }
  void Zero(std::byte* to, int64_t bytes) override { Add({.kind = Work::Kind::kZero, .to = to, .bytes = bytes}); }
  void* native() const override { return nullptr; }
  void Rehearse(std::function<void()> function) override {
    Add({.kind = Work::Kind::kRehearse,
         .rehearsed = std::make_shared<const std::function<void()>>(std::move(function))});
  }
  void BeginRecording() override {
    Require(recorded_ == nullptr, "Stream: one recording at a time");
    own_ = std::make_unique<Recorded>();
    recorded_ = own_.get();
  }
  std::unique_ptr<Recording> EndRecording() override {
    Require(own_ != nullptr, "Stream: a recording was begun");
    const std::unique_ptr<Recorded> ended = std::move(own_);
    recorded_ = nullptr;
    for (HostStream* joined : ended->joined) joined->recorded_ = nullptr;
    for (const RecordedWork& one : ended->works) {
      if (one.work.event) one.work.event->recording = nullptr;
    }
    for (const HostStream* joined : ended->joined) {
      Require(ended->IsWaitedFor(joined), "Stream: what joins a recording is waited for before it ends");
    }
    return std::make_unique<HostRecording>(this, std::move(ended->works));
  }
  void Record(Event& event) override {
    const std::shared_ptr<EventState>& state = HostEvent::StateOf(event);
    state->recording = recorded_;
    Add({.kind = Work::Kind::kRecord, .event = state});
  }
  void WaitFor(const Event& event) override {
    const std::shared_ptr<EventState>& state = HostEvent::StateOf(event);
    Recorded* recording = state->recording;
    if (recording != nullptr && recorded_ == nullptr) {
      recorded_ = recording;
      recording->joined.push_back(this);
    }
    Require(recorded_ == recording, "Stream: a recording waits for its own events");
    Add({.kind = Work::Kind::kWait, .event = state});
  }
  void Synchronize() override {
    Record(end_);
    end_.Wait();
  }
  DeviceBuffer Allocate(int64_t bytes) override {
    auto memory = std::make_shared<Buffer>(Buffer::Allocate(bytes));
    std::byte* data = memory->data();
    // A queue that is closed refuses: the stream is gone and its work done, so the memory may go at once.
    const auto give_back = [queue = queue_, kept = std::move(memory)](std::byte*) mutable {
      queue->Push({.kind = Work::Kind::kFree, .memory = std::move(kept)});
    };
    return {std::shared_ptr<std::byte>(data, give_back), bytes};
  }

 private:
  static constexpr size_t kRoom = 1024;  // about what a GPU's queue holds; a full one makes the caller wait

  friend HostRecording;

  void Add(Work work) {
    if (recorded_ != nullptr) {
      recorded_->works.push_back({this, std::move(work)});
    } else {
      Queue(std::move(work));
    }
  }
  // Events count when work is queued, so what a recording holds counts anew each time.
  void Queue(Work work) {
    if (work.kind == Work::Kind::kRecord) work.count = ++work.event->asked;
    if (work.kind == Work::Kind::kWait) work.count = work.event->asked;
    queue_->Push(std::move(work));
  }

  std::unique_ptr<Recorded> own_;  // begun by this stream
  Recorded* recorded_ = nullptr;   // that its work goes into: its own, or one that it has joined
  std::shared_ptr<WorkQueue> queue_;
  HostEvent end_;
  std::jthread thread_;  // last: joined first
};

void HostRecording::Launch(Stream& stream) const {
  auto* host = dynamic_cast<HostStream*>(&stream);
  Require(host != nullptr, "Recording: a stream of the recording's device");
  for (const RecordedWork& one : works_) {
    HostStream* joined = one.stream;
    (joined == begun_by_ ? host : joined)->Queue(one.work);
  }
}

}  // namespace

std::unique_ptr<Event> MakeHostEvent() { return std::make_unique<HostEvent>(); }
std::unique_ptr<Stream> MakeHostStream(const Device& device) { return std::make_unique<HostStream>(device); }

DeviceBuffer AllocateHostPinned(int64_t bytes) {
  const auto memory = std::make_shared<Buffer>(Buffer::Allocate(bytes));
  return {std::shared_ptr<std::byte>(memory, memory->data()), bytes};
}

}  // namespace moka
