#include "tools/verbs/verbs.h"

#include <algorithm>

namespace moka {

const std::vector<Verb>& AllVerbs() {
  static const std::vector<Verb> verbs = [] {
    std::vector<Verb> all = CaffeTools();
    for (Verb (*verb)() : {BenchVerb, CompareVerb, CompletionVerb, DataVerb, DeviceVerb, ExplainVerb, FrechetVerb,
                           GenerateVerb, InferVerb, LaunchVerb, ModelVerb, QuantiseVerb, SimulateVerb, TestVerb,
                           TimeVerb, TraceVerb, TrainVerb, VersionVerb, ZooVerb}) {
      all.push_back(verb());
    }
    std::ranges::sort(all, {}, &Verb::name);
    return all;
  }();
  return verbs;
}

}  // namespace moka
