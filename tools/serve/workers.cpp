// Asio's pool, with a measure of how far it is behind.
#include "tools/serve/workers.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "core/log.h"
#include "core/text.h"
#include "core/threads/team.h"

namespace moka {

struct Workers::State {
  explicit State(int threads) : pool(static_cast<size_t>(threads)) {}
  boost::asio::thread_pool pool;
};

Workers::Workers(int threads) : threads_(threads) {
  // Threads run where the one does that made them: beside the net's team.
  std::thread([&] {
    LeaveTeamCpus();
    state_ = std::make_unique<State>(threads);
  }).join();
}

Workers::~Workers() { state_->pool.join(); }

void Workers::Do(std::function<void()> work) {
  ++waiting_;
  boost::asio::post(state_->pool, [this, work = std::move(work)] {
    const auto begin = std::chrono::steady_clock::now();
    try {
      work();
    } catch (const std::exception& error) {
      LogWarning(StrCat("a request's work failed: ", error.what()));
    }
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    constexpr double kNewPart = 0.05;
    work_ms_ = work_ms_ + kNewPart * (ms - work_ms_);
    --waiting_;
  });
}

double Workers::WaitMs() const {
  return work_ms_ * static_cast<double>(std::max(0, waiting_ - threads_ + 1)) / static_cast<double>(threads_);
}

}  // namespace moka
