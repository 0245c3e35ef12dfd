// Trainer: leaving a test or an accumulation before its end, where a signal or the clock asks for it. What is left is
// made anew by the run that goes on, so that it ends as one that was never stopped.
#include <algorithm>
#include <charconv>
#include <chrono>

#include "core/log.h"
#include "core/text.h"
#include "optim/optimizers/update.h"
#include "optim/run/trainer.h"
#include "optim/signals.h"

namespace moka {
namespace {

// Ranks ask each other in a test about as often as this: the exchange of a few bytes is nothing beside it.
constexpr double kAskSeconds = 0.25;

// The message from a rank to the others between the batches of a test: "WISH STRIDE".
struct TestWord {
  int wish = 0;  // 0: to go on; else the end as a number, and one
  int64_t stride = 1;
};

TestWord TestWordOf(const std::string& text) {
  TestWord word;
  const char* const end = text.data() + text.size();
  const auto [space, code] = std::from_chars(text.data(), end, word.wish);
  if (code == std::errc() && space != end) std::from_chars(space + 1, end, word.stride);
  return word;
}

}  // namespace

std::optional<TrainEnd> Trainer::AskedEnd() const {
  // A wish that was heard as the iteration began is told to the others only behind the tests.
  if (wants_stop_ || (options_.take_signals && SignalRequests::WantsStop())) return TrainEnd::kInterrupted;
  if (IsTimeUp()) return TrainEnd::kTimeUp;
  return std::nullopt;
}

void Trainer::AskInAccumulations() {
  if (processes() > 1 || solver_.iter_size() == 1) return;  // ranks meet where their iterations end
  if (!options_.take_signals && time_limit_s_ == 0) return;
  std::vector<std::string> states;
  std::vector<std::string> sums;
  for (const NetBlob& blob : train_->blobs()) {
    if (blob.shared) continue;
    if (blob.role == ParameterRole::kStatistic) states.push_back(blob.name);
    if (std::string sum = SlotName(blob.name, kSumSlot); store_.Has(sum)) sums.push_back(std::move(sum));
  }
  for (const SlotState& slot : train_->states().slots()) {
    if (slot.blob.empty()) states.push_back(slot.name);  // what layers keep
  }
  train_->cut().Ask(store_, std::move(states), std::move(sums), [this] {
    cut_ = AskedEnd();
    return cut_.has_value();
  });
}

// All ranks run as many batches and hear the same words, so all leave the test after the same batch.
bool Trainer::LeavesTest(int64_t done) {
  if (processes() == 1) {
    cut_ = AskedEnd();
    return cut_.has_value();
  }
  if (done == 1) {
    test_ask_ = {.batch = 1, .stride = 1, .asked = Clock::now()};
  } else if (done < test_ask_.batch + test_ask_.stride) {
    return false;
  }
  if (GradientExchange* exchange = train_->exchange(); exchange != nullptr) exchange->Drain();
  const double passed_s = std::chrono::duration<double>(Clock::now() - test_ask_.asked).count();
  std::optional<TrainEnd> own = AskedEnd();
  if (own == TrainEnd::kTimeUp && !is_first()) own.reset();  // the first rank's clock counts
  const int64_t stride = passed_s < kAskSeconds ? 2 * test_ask_.stride : std::max<int64_t>(test_ask_.stride / 2, 1);
  const std::vector<std::string> words =
      options_.world->AllGather(StrCat(own ? static_cast<int>(*own) + 1 : 0, " ", stride));
  int wish = 0;
  for (const std::string& word : words) wish = std::max(wish, TestWordOf(word).wish);
  test_ask_ = {.batch = done, .stride = TestWordOf(words.front()).stride, .asked = Clock::now()};
  if (wish > 0) cut_ = static_cast<TrainEnd>(wish - 1);
  return cut_.has_value();
}

void Trainer::DropTest(const TrainerState& before, bool was_target_reached) {
  state_ = before;
  state_.is_test_due = true;
  is_target_reached_ = was_target_reached;
  if (is_first()) LogInfo(StrCat("the test at iteration ", state_.iteration, " is left; it is made anew on resume"));
}

}  // namespace moka
