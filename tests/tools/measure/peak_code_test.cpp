// The loops that measure a processor's limits, as the compiler made them: a chain that it left out or kept on the stack
// would make a limit of something else, and no timing tells it from a slow machine.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "core/text.h"
#include "tests/sanitized.h"
#include "tests/tools/shell.h"

namespace moka {
namespace {

struct Instruction {
  uint64_t address = 0;
  std::string name;
  std::string operands;
};

// Lines such as "  6756e0:\tvfmadd132ps %ymm1,%ymm0,%ymm13".
std::vector<Instruction> InstructionsOf(const std::string& listing) {
  std::vector<Instruction> code;
  std::istringstream lines(listing);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(":\t");
    if (colon == std::string::npos) continue;
    Instruction instruction{.address = std::stoull(line, nullptr, 16), .name = {}, .operands = {}};
    std::istringstream words(line.substr(colon + 2));
    words >> instruction.name;
    std::getline(words >> std::ws, instruction.operands);
    code.push_back(instruction);
  }
  return code;
}

// Where a jump goes; nothing for other instructions and jumps through registers.
std::optional<uint64_t> TargetOf(const Instruction& instruction) {
  if (!instruction.name.starts_with("j") || instruction.operands.starts_with("*")) return std::nullopt;
  return std::stoull(instruction.operands, nullptr, 16);
}

struct Loop {
  int64_t arithmetic = 0;  // its instructions of the wanted name
  std::vector<std::string> of_the_stack;
};

Loop LoopUpTo(const std::vector<Instruction>& code, size_t jump, uint64_t target, const std::string& arithmetic) {
  Loop loop;
  for (size_t i = 0; i < jump; ++i) {
    if (code[i].address < target) continue;
    if (code[i].name.starts_with(arithmetic)) ++loop.arithmetic;
    if (code[i].operands.find("(%rsp") != std::string::npos || code[i].operands.find("(%rbp") != std::string::npos)
      loop.of_the_stack.push_back(StrCat(code[i].name, " ", code[i].operands));
  }
  return loop;
}

// The loop of a function that has the most of the wanted instructions.
Loop BusiestLoop(const std::string& function, const std::string& arithmetic) {
  const std::string command =
      StrCat("objdump -d -C --no-show-raw-insn --disassemble='moka::(anonymous namespace)::", function, "' '",
             MOKA_BINARY, "'");
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "peak_code";
  std::filesystem::create_directories(folder);
  const std::vector<Instruction> code = InstructionsOf(RunShell(command, folder).out);
  Loop busiest;
  for (size_t i = 0; i < code.size(); ++i) {
    const std::optional<uint64_t> target = TargetOf(code[i]);
    if (!target || *target > code[i].address) continue;
    const Loop loop = LoopUpTo(code, i, *target, arithmetic);
    if (loop.arithmetic > busiest.arithmetic) busiest = loop;
  }
  return busiest;
}

struct Measured {
  const char* function;
  const char* arithmetic;
  int64_t count;  // of independent chains in a turn of the loop
};

class LoopsOfLimits : public testing::TestWithParam<Measured> {};

TEST_P(LoopsOfLimits, HaveEveryChainAndKeepItInARegister) {
  if (kIsSanitized) GTEST_SKIP() << "sanitizers add code of their own";
#if !defined(__OPTIMIZE__)
  GTEST_SKIP() << "not optimised";
#endif
  const Loop loop = BusiestLoop(GetParam().function, GetParam().arithmetic);
  EXPECT_GT(loop.arithmetic, 0);
  EXPECT_EQ(loop.arithmetic % GetParam().count, 0) << loop.arithmetic;
  EXPECT_EQ(loop.of_the_stack, std::vector<std::string>());
}

INSTANTIATE_TEST_SUITE_P(
    All, LoopsOfLimits,
    testing::Values(Measured{"WithBaseline(long)", "mulps", 12}, Measured{"WithAvx2(long)", "vfmadd", 12},
                    Measured{"WithAvx512(long)", "vfmadd", 12}, Measured{"WithPairs(long)", "vdpbf16ps", 12},
                    Measured{"WithQuads(long)", "vpdpbusd", 12}, Measured{"WithBFloat16Tiles(long)", "tdpbf16ps", 4},
                    Measured{"WithInt8Tiles(long)", "tdpbusd", 4},
                    Measured{"AddBaseline(float const*, long, long)", "addps", 8},
                    Measured{"AddAvx2(float const*, long, long)", "vaddps", 8},
                    Measured{"AddAvx512(float const*, long, long)", "vaddps", 8}),
    [](const auto& measured) {
      const std::string function = measured.param.function;
      return function.substr(0, function.find('('));
    });

}  // namespace
}  // namespace moka
