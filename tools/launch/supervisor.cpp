// Judges the end of a job by exit codes and by what ranks wrote of themselves, and starts it again only where a rank
// was lost: an error that would come back is not tried twice.
#include "tools/launch/supervisor.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <limits>
#include <optional>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/text.h"
#include "core/wall_clock.h"
#include "optim/ranks/rank_states.h"
#include "tools/launch/child.h"
#include "tools/launch/preflight.h"

namespace moka {
namespace {

constexpr int kSignalled = 128;
constexpr int kLastSysexit = 78;

// The traces that the ranks of a job left of its end.
struct JobVerdict {
  std::optional<Culprit> culprit;  // the rank that ended it, which has been said on stderr
  int code = 0;                    // of a rank that failed with an error that comes again; 0: none did
};

// `batch`: as they say. States from before `since_s` are not of this job; it is moved behind those that were read,
// which are not of the next.
JobVerdict JudgeJob(const std::optional<std::filesystem::path>& run, double& since_s, int ranks, int64_t& batch) {
  JobVerdict verdict;
  if (!run) return verdict;
  const std::vector<RankState> states = ReadRankStates(*run, since_s);
  if (!states.empty()) batch = states[0].batch;
  for (const RankState& state : states) {
    since_s = std::max(since_s, std::nextafter(state.updated_s, std::numeric_limits<double>::infinity()));
    const bool is_explained = state.state == RankState::kFailed && state.exit_code != 0 && !IsRankLost(state.exit_code);
    if (is_explained && verdict.code == 0) verdict.code = state.exit_code;
  }
  verdict.culprit = FindCulprit(states, ranks);
  if (verdict.culprit) LogWarning(verdict.culprit->text);
  return verdict;
}

// One rank fewer, or as many fewer as it takes for the batch to divide; the first is taken from the culprit's host.
void GiveUpRank(LaunchPlan& plan, const std::optional<Culprit>& culprit, int64_t batch) {
  const int former = plan.ranks--;
  while (batch > 0 && batch % plan.ranks != 0) --plan.ranks;
  if (plan.uses_srun) return;
  for (int gone = plan.ranks; gone < former; ++gone)
    plan.hosts = WithoutSlot(plan.hosts, gone == plan.ranks && culprit ? culprit->host : "");
  if (!plan.hostfile.empty()) WriteFileAtomically(plan.hostfile, HostfileText(plan.hosts));
}

}  // namespace

bool IsRankLost(int code) {
  if (code == static_cast<int>(ErrorKind::kPeer)) return true;
  const bool is_explained = code == static_cast<int>(ErrorKind::kDiverged) ||
                            code == static_cast<int>(ErrorKind::kTargetMissed) ||
                            code == static_cast<int>(ErrorKind::kVerification) ||
                            (code >= static_cast<int>(ErrorKind::kUsage) && code <= kLastSysexit);
  return code != 0 && !is_explained && code != kSignalled + SIGINT;
}

std::string EndText(int code, const std::optional<std::filesystem::path>& run) {
  if (code == 0) return "the job is done";
  if (code == static_cast<int>(ErrorKind::kInterrupted)) {
    return !run                  ? "the job was interrupted (exit code 75)"
           : HasCheckpoint(*run) ? StrCat("the job was interrupted; its checkpoint is complete in ", run->string())
                                 : StrCat("the job was interrupted before its first checkpoint in ", run->string());
  }
  if (code == static_cast<int>(ErrorKind::kPeer)) return "a rank lost its peers (exit code 76)";
  if (code > kSignalled && code < kSignalled + NSIG) {
    const int signal = code - kSignalled;
    return StrCat("a rank was ended by signal ", signal, " (", strsignal(signal),
                  ")");  // NOLINT(concurrency-mt-unsafe): no other thread asks
  }
  return StrCat("the job ended with exit code ", code);
}

int Supervise(LaunchPlan plan, const LaunchedVerb& verb, const RestartOptions& options) {
  std::optional<std::filesystem::path> run;
  double since_s = SecondsSince1970() - kClockLimitS;
  int64_t batch = 0;
  for (int again = 0;; ++again) {
    const RunWatch watch(verb);  // of no training it finds none
    LogInfo(ShellLine(LaunchWords(plan)));
    const JobEnd end = RunJob(LaunchWords(plan));
    if (const std::optional<std::filesystem::path> found = watch.Find()) run = found;
    if (end.code != 0) LogInfo(EndText(end.code, run));
    if (!IsRankLost(end.code) || end.was_stopped) return end.code;
    const JobVerdict verdict = JudgeJob(run, since_s, plan.ranks, batch);
    if (verdict.code != 0) {  // a rank that lost this one ended first
      LogInfo(StrCat("it failed with an error that a restart would meet again (exit code ", verdict.code, ")"));
      return verdict.code;
    }
    if (again == options.restarts) {
      if (run) LogInfo(StrCat("to go on: moka launch -n ", plan.ranks, " -- train --resume=", run->string()));
      return end.code;
    }
    if (options.shrinks && plan.ranks > 1) GiveUpRank(plan, verdict.culprit, batch);
    const bool has_checkpoint = run && HasCheckpoint(*run);
    if (run) plan.words = ResumingWords(verb, *run);
    LogInfo(StrCat("restart ", again + 1, " of ", options.restarts, " with ", plan.ranks,
                   plan.ranks == 1 ? " rank, " : " ranks, ",
                   has_checkpoint ? "from the newest checkpoint of " + run->string() : "from the beginning"));
  }
}

}  // namespace moka
