#include "tools/verbs/verbs.h"

namespace moka {

const std::vector<Verb>& AllVerbs() {
  static const std::vector<Verb> verbs = {CompletionVerb(), DataVerb(), DeviceVerb(), ExplainVerb(), InferVerb(),
                                          ModelVerb(),      TestVerb(), TimeVerb(),   TrainVerb(),   VersionVerb()};
  return verbs;
}

}  // namespace moka
