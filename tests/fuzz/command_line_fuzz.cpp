// Words of a command line: the first byte chooses the verb, and the words are split at line ends.
#include "core/text.h"
#include "tests/fuzz/fuzz_target.h"
#include "tools/cli/command_line.h"

namespace moka {

FuzzTarget CommandLineFuzz() {
  return {"command_line", [](std::string_view text) {
            if (text.empty()) return;
            const std::vector<Verb>& verbs = AllVerbs();
            const Verb& verb = verbs[static_cast<uint8_t>(text.front()) % verbs.size()];
            const Arguments arguments = ParseArguments(verb, Split(text.substr(1), '\n'));
            for (const auto& [name, value] : arguments.options) {
              try {
                arguments.Number(name, 0, -1e9, 1e9);
                arguments.Int(name, 0, -9, 9);
              } catch (const Error& error) {
                if (error.kind() == ErrorKind::kInternal) throw;
              }
            }
            arguments.RefuseUnread();
          }};
}

}  // namespace moka
