// Words of a command line: the first byte chooses the verb, and the words are split at line ends.
#include "core/text.h"
#include "tests/fuzz/one_input.h"
#include "tools/cli/command_line.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return moka::RunOneInput(data, size, [](std::string_view text) {
    if (text.empty()) return;
    const std::vector<moka::Verb>& verbs = moka::AllVerbs();
    const moka::Verb& verb = verbs[static_cast<uint8_t>(text.front()) % verbs.size()];
    const moka::Arguments arguments = moka::ParseArguments(verb, moka::Split(text.substr(1), '\n'));
    for (const auto& [name, value] : arguments.options) {
      try {
        arguments.Number(name, 0, -1e9, 1e9);
        arguments.Int(name, 0, -9, 9);
      } catch (const moka::Error& error) {
        if (error.kind() == moka::ErrorKind::kInternal) throw;
      }
    }
    arguments.RefuseUnread();
  });
}
