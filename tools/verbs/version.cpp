#include <cstdio>

#include "core/text.h"
#include "tools/verbs/verbs.h"
#include "tools/version.h"

namespace moka {

Verb VersionVerb() {
  Verb verb;
  verb.name = "version";
  verb.summary = "print the version and what it was built with";
  verb.examples = {"moka version"};
  verb.run = [](const Arguments&) {
    std::fputs(VersionText().c_str(), stdout);
    return 0;
  };
  return verb;
}

}  // namespace moka
