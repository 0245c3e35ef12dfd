// Whether a team beside other programs does better on fewer CPUs. Where each of its threads shares a CPU with another
// program, it waits at the end of each region for the one that runs last: two threads that have half a CPU each make
// less than one CPU's progress. Gathered on half of the CPUs its threads take turns there, and the system moves the
// other programs to the CPUs that were given back. The number of threads stays, and with it each result.
//
// The better of the two depends on what the others do, so it is tried: the better one is that in which the calling
// thread runs for more of the time.
#pragma once

namespace moka {

class TeamGathering {
 public:
  // The measurements of some time, a tenth of a second or so.
  struct Window {
    double seconds = 0;
    double run_share = 0;   // of the time that the calling thread ran
    double idle_share = 0;  // of the time of the CPUs that the team is not on now, or of all where it is on all
  };

  // `kept_share`: the CPUs that a gathered team keeps, as a part of its threads.
  explicit TeamGathering(double kept_share) : kept_share_(kept_share) {}

  // Takes what was seen since the last call, while other programs want the CPUs; says whether the team belongs gathered
  // from now on.
  bool Look(const Window& window);

 private:
  enum class State { kSpread, kTried, kGathered };

  bool SpreadFor(double seconds);
  void Begin(State state);

  double kept_share_;
  State state_ = State::kSpread;
  bool is_settling_ = false;  // the window in which the threads moved tells nothing
  double spread_share_ = 0;   // what the calling thread ran of the time when the team was spread
  double pause_s_ = 0;        // until the next trial
  double next_pause_s_ = 0;   // after a trial that did not help
  Window seen_;               // of this state so far, shares times seconds
};

}  // namespace moka
