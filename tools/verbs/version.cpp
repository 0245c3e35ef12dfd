// The verb `moka version`.
#include "tools/cli/version.h"
#include "core/text.h"
#include "tools/cli/command_line.h"
#include "tools/cli/print.h"

namespace moka {

Verb VersionVerb() {
  Verb verb;
  verb.name = "version";
  verb.summary = "print the version and what it was built with";
  verb.examples = {"moka version", "moka version --json"};
  verb.options = {{"json", "", "print as JSON, with a hash that is equal where the same build is installed"}};
  verb.computes = false;
  verb.most_words = 0;
  verb.run = [](const Arguments& arguments) {
    arguments.RefuseUnread({"json"});
    PrintLines(arguments.Has("json") ? VersionJson() + "\n" : VersionText());
    return 0;
  };
  return verb;
}

}  // namespace moka
