// Lists and files of hosts, right and wrong.
#include "tools/launch/hosts.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

#include "core/error.h"
#include "core/text.h"
#include "tools/launch/command.h"

namespace moka {
namespace {

using Hosts = std::vector<HostSlots>;

template <class Function>
std::string ErrorOf(Function function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(HostsTest, AreReadFromTheCommandLine) {
  EXPECT_EQ(ParseHosts("a:2,b"), (Hosts{{"a", 2}, {"b", 1}}));
  EXPECT_EQ(ParseHosts("me@node-1.lan:16"), (Hosts{{"me@node-1.lan", 16}}));
}

TEST(HostsTest, WrongListsAreRefused) {
  for (const char* text : {"", "a,,b", "a:0", "a:two", "a:2:3", "-oProxyCommand=x", "a b", "$(x)"})
    EXPECT_NE(ErrorOf([&] { ParseHosts(text); }).find("--hosts wants NAME:SLOTS"), std::string::npos) << text;
  EXPECT_NE(ErrorOf([] { ParseHosts("a,b,a"); }).find("names a twice"), std::string::npos);
}

TEST(HostsTest, AreReadFromAHostfile) {
  const Hosts hosts =
      ParseHostfile("# the rack\nnode1 slots=4 max_slots=8\n\n\tnode2\tslots=2  # half\nnode3:3\nnode4\n", "f");
  EXPECT_EQ(hosts, (Hosts{{"node1", 4}, {"node2", 2}, {"node3", 3}, {"node4", 1}}));
  EXPECT_EQ(ParseHostfile(HostfileText(hosts), "f"), hosts);
}

TEST(HostsTest, ErrorsOfAHostfileNameTheLine) {
  EXPECT_NE(ErrorOf([] { ParseHostfile("a slots=2\nb slot=2\n", "my.hosts"); }).find("my.hosts:2:1"),
            std::string::npos);
  EXPECT_NE(ErrorOf([] { ParseHostfile("a\nb\na\n", "my.hosts"); }).find("my.hosts:3:1"), std::string::npos);
  for (const char* line : {"a slots=2 slots=3", "a slots=4 max_slots=3", "a max_slots=8 max-slots=9",
                           "a max_slots=", "a:2 max_slots=1", "a max_slots=many", "a:2 slots=4"}) {
    const std::string said = ErrorOf([&] { ParseHostfile(StrCat("b\n", line, "\n"), "my.hosts"); });
    EXPECT_NE(said.find("my.hosts:2:1"), std::string::npos) << line << ": " << said;
  }
  EXPECT_NE(ErrorOf([] { ParseHostfile("a:2 slots=4\n", "f"); }).find("a:2 and slots=4 both say its slots"),
            std::string::npos);
  EXPECT_NE(ErrorOf([] { ParseHostfile("a slots=4 max_slots=3\n", "f"); }).find("a has 4 slots, more than"),
            std::string::npos);
  EXPECT_NE(ErrorOf([] { ParseHostfile("# none\n", "my.hosts"); }).find("names no host"), std::string::npos);
}

TEST(HostsTest, RanksFillSlotsInOrder) {
  const Hosts hosts = {{"a", 2}, {"b", 2}};
  EXPECT_EQ(PlaceRanks(hosts, 3), (std::vector<std::string>{"a", "a", "b"}));
  EXPECT_NE(ErrorOf([&] { PlaceRanks(hosts, 5); }).find("5 ranks are wanted, and the hosts have 4 slots"),
            std::string::npos);
}

TEST(HostsTest, ALostRankTakesASlotOfItsHost) {
  EXPECT_EQ(WithoutSlot({{"a", 2}, {"b", 1}}, "a"), (Hosts{{"a", 1}, {"b", 1}}));
  EXPECT_EQ(WithoutSlot({{"a", 2}, {"b", 1}}, "b"), (Hosts{{"a", 2}}));
  EXPECT_EQ(WithoutSlot({{"a", 2}, {"b", 2}}, ""), (Hosts{{"a", 2}, {"b", 1}}));
}

TEST(HostsTest, ThisHostIsKnownByItsNames) {
  std::array<char, 256> own{};
  ASSERT_EQ(gethostname(own.data(), own.size() - 1), 0);
  EXPECT_TRUE(IsThisHost("localhost") && IsThisHost("127.0.0.1") && IsThisHost(own.data()));
  EXPECT_FALSE(IsThisHost("some-other-host"));
}

LaunchPlan SmallPlan() {
  LaunchPlan plan;
  plan.program = "mpirun";
  plan.moka = "/opt/moka/moka";
  plan.ranks = 4;
  plan.hosts = {{"localhost", 4}};
  plan.words = {"train", "models/lenet", "layer[*].param[0].lr_mult=0"};
  return plan;
}

TEST(CommandTest, MpirunOnThisHostIsShort) {
  EXPECT_EQ(ShellLine(LaunchWords(SmallPlan())),
            "mpirun -n 4 --oversubscribe --bind-to none /opt/moka/moka train models/lenet "
            "'layer[*].param[0].lr_mult=0'");
}

TEST(CommandTest, MpirunOnSeveralHostsKeepsToOneNetwork) {
  LaunchPlan plan = SmallPlan();
  plan.hosts = {{"a", 2}, {"b", 2}};
  plan.network = "10.0.0.0/24";
  plan.is_root = true;
  plan.words = {"version"};
  const std::string end =
      " --mca btl_tcp_if_include 10.0.0.0/24 --mca oob_tcp_if_include 10.0.0.0/24 /opt/moka/moka version";
  const std::string begin = "mpirun -n 4 --allow-run-as-root --oversubscribe --bind-to none ";
  EXPECT_EQ(ShellLine(MpirunWords(plan)), begin + "--host a:2,b:2" + end);
  plan.hostfile = "/tmp/x/hostfile";
  EXPECT_EQ(ShellLine(MpirunWords(plan)), begin + "--hostfile /tmp/x/hostfile" + end);
}

TEST(CommandTest, SrunSpeaksPmix) {
  LaunchPlan plan = SmallPlan();
  plan.uses_srun = true;
  plan.program = "srun";
  plan.nodes = 2;
  plan.cpus_per_task = 3;
  plan.words = {"version"};
  EXPECT_EQ(ShellLine(LaunchWords(plan)), "srun --mpi=pmix -n 4 -N 2 --cpus-per-task=3 /opt/moka/moka version");
}

TEST(CommandTest, AShellSplitsTheLineIntoTheSameWords) {
  EXPECT_EQ(ShellLine({"a b", "it's", "", "$x", "plain-1.0"}), R"('a b' 'it'\''s' '' '$x' plain-1.0)");
  EXPECT_EQ(ShellLine({"a b\x1b'\n\xff"}), R"($'a b\033\047\012\377')") << "no byte of it commands a terminal";
}

// Half a million lines are read or refused at once, and their slots never overflow.
TEST(Hosts, ManyHostsAreRefused) {
  std::string file;
  for (int i = 0; i <= 65536; ++i) file += StrCat("n", i, " slots=4096\n");
  try {
    ParseHostfile(file, "hosts");
    FAIL() << "too many hosts";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBadData);
    EXPECT_EQ(error.place().line, 65537);
    EXPECT_EQ(error.text(), "more than 65536 hosts");
  }
  file.resize(file.rfind("n65536"));
  EXPECT_EQ(SlotCount(ParseHostfile(file, "hosts")), 1 << 28);
}

}  // namespace
}  // namespace moka
