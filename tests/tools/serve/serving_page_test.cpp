// docs/serving_quickstart.md is typed by this test, line by line: what its blocks say is a shell's script in a folder
// of its own, where programs that change a machine (sudo, systemctl) are told apart: they keep to that folder, and
// start what the unit starts, again when it dies, as systemd does.
#include <gmock/gmock.h>

#include <iostream>

#include "tests/tools/cli_fixture.h"
#include "tests/tools/serve/server_process.h"

namespace moka {
namespace {

// Paths of the machine as those of the folder.
constexpr const char* kSudo = R"sh(#!/bin/bash
words=()
for word in "$@"; do
  case "$word" in
    /etc/*|/srv/*) word=$ROOT$word ;;
    /usr/share/doc/moka/*) word=$SOURCE/${word#/usr/share/doc/moka/} ;;
  esac
  words+=("$word")
done
for word in "${words[@]:1}"; do
  case "$word" in
    "$ROOT"/*/) mkdir -p "$word" ;;
    "$ROOT"/*) mkdir -p "$(dirname "$word")" ;;
  esac
done
exec "${words[@]}"
)sh";

// Starts the unit's line, again a second after it has died, until it is disabled.
constexpr const char* kSystemctl = R"sh(#!/bin/bash
set -e
case "$1" in
  daemon-reload) exit 0 ;;
  enable)
    unit=$ROOT/etc/systemd/system/$3.service
    line=$(sed -n 's/^ExecStart=//p' "$unit")
    line=${line//\/usr\/bin\/moka/moka}
    line=${line//\/srv\//$ROOT/srv/}
    line=${line//8000/$PORT}
    pause=$(sed -n 's/^RestartSec=//p' "$unit")
    grep -q '^Restart=on-failure$' "$unit"
    grep -q '^LoadCredential=tokens:/etc/moka/tokens$' "$unit"
    cat > "$ROOT/supervise" <<END
export CREDENTIALS_DIRECTORY=$ROOT/etc/moka
while :; do
  $line &
  echo \$! > $ROOT/pid
  wait \$! && break
  [ -e $ROOT/ended ] && break
  sleep $pause
done
touch $ROOT/over
END
    setsid bash "$ROOT/supervise" > "$ROOT/journal" 2>&1 < /dev/null & ;;
  kill) kill "-${2#--signal=}" "$(cat "$ROOT/pid")" ;;
  disable)
    touch "$ROOT/ended"
    kill -TERM "$(cat "$ROOT/pid")"
    until [ -e "$ROOT/over" ]; do sleep 0.1; done ;;
  *) exit 64 ;;
esac
)sh";

// Both are known by the files that they are given.
constexpr const char* kFileReader = R"sh(#!/bin/bash
set -e
for word in "$@"; do
  case "$word" in
    /usr/share/doc/moka/*) test -f "$SOURCE/${word#/usr/share/doc/moka/}" ;;
    --from-file=*) test -f "${word#--from-file=}" ;;
  esac
done
)sh";

struct Block {
  std::string language;
  std::string text;
};

std::vector<Block> BlocksOf(const std::string& page) {
  std::vector<Block> blocks;
  bool is_inside = false;
  for (const std::string& line : Split(page, '\n')) {
    if (line.starts_with("```")) {
      is_inside = !is_inside;
      if (is_inside) blocks.push_back({.language = line.substr(3), .text = {}});
    } else if (is_inside) {
      blocks.back().text += line + "\n";
    }
  }
  return blocks;
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

class ServingPageTest : public CliTest {
 protected:
  static bool Runs(const std::string& line) { return RunShell(line, folder_).code == 0; }
  static void WriteProgram(const std::string& name, const std::string& text) {
    const fs::path file = folder_ / "bin" / name;
    WriteFileAtomically(file, text);
    fs::permissions(file, fs::perms::owner_all);
  }
  // A Python with the package and numpy; empty: none.
  static std::string Python() {
    const std::string folder = (fs::path(MOKA_BINARY).parent_path() / "python").string();
    for (const char* python : {"python3", "/usr/bin/python3"}) {
      if (Runs(StrCat("PYTHONPATH='", folder, "' ", python, " -c 'import moka.client'")))
        return StrCat("PYTHONPATH='", folder, "' ", python);
    }
    return {};
  }
};

TEST_F(ServingPageTest, EveryCommandDoesWhatThePageSays) {
  const std::string port = StrCat(int64_t{FreePort()});
  fs::create_directories(folder_ / "bin");
  WriteProgram("moka", StrCat("#!/bin/bash\nexec '", MOKA_BINARY, "' \"$@\"\n"));
  WriteProgram("sudo", kSudo);
  WriteProgram("systemctl", kSystemctl);
  WriteProgram("podman", kFileReader);
  WriteProgram("kubectl", kFileReader);
  const bool has_curl = Runs("command -v curl");
  if (!has_curl) {
    std::cout << "the page's lines of curl are not run: there is none\n";
    WriteProgram("curl", "#!/bin/bash\n");
  }
  const std::string python = Python();
  if (python.empty()) std::cout << "the page's Python is not run: the package or numpy is missing\n";
  std::string script = "set -e\n";
  int number = 0;
  for (const Block& block : BlocksOf(ReadFile(fs::path(MOKA_SOURCE_DIR) / "docs/serving_quickstart.md"))) {
    ++number;
    const std::string text = Replaced(block.text, "8000", port);
    script += StrCat("echo '== block ", number, "'\n");
    if (block.language.empty()) {
      script += text;
    } else if (block.language == "python" && !python.empty()) {
      WriteFileAtomically(folder_ / "page.py", text);
      script += python + " page.py\n";
    }
  }
  EXPECT_GE(number, 10);
  WriteFileAtomically(folder_ / "page.sh", script);
  const std::string folder = folder_.string();
  const Outcome outcome =
      RunShell(StrCat("cd '", folder, "' && OMP_NUM_THREADS=1 PORT=", port, " ROOT='", folder, "/machine' SOURCE='",
                      MOKA_SOURCE_DIR, "' PATH='", folder, "/bin':\"$PATH\" bash page.sh"),
               folder_);
  const fs::path journal = folder_ / "machine/journal";
  const std::string log = fs::exists(journal) ? ReadFile(journal) : "";
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err << log;
  if (outcome.code != 0 && fs::exists(folder_ / "machine/pid"))
    Runs(StrCat("touch '", folder, "/machine/ended'; kill -KILL $(cat '", folder, "/machine/pid')"));
  // The outcome of the lines.
  const Outcome inferred = Moka("infer runs/quickstart-0001 runs/quickstart-0001/samples --json --batch 1");
  EXPECT_EQ(ReadFile(folder_ / "answers.json"), inferred.out);
  EXPECT_THAT(outcome.out, testing::ContainsRegex("digits +1 +READY"));
  EXPECT_THAT(outcome.out, testing::ContainsRegex("digits +2 +READY"));
  if (has_curl) {
    EXPECT_THAT(outcome.out, testing::HasSubstr("\"platform\":\"moka_prototxt\""));
  }
  const std::string sample = fs::relative(ListFiles(folder_ / "runs/quickstart-0001/samples", ".png").at(0), folder_);
  if (!python.empty()) {
    EXPECT_THAT(outcome.out, testing::HasSubstr(StrCat("\n", sample, " ")));
  }
  size_t starts = 0;
  for (size_t at = log.find("listening at"); at != std::string::npos; at = log.find("listening at", at + 1)) ++starts;
  EXPECT_EQ(starts, 2U) << log;
}

}  // namespace
}  // namespace moka
