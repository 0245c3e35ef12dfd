// Calls of moka new that are refused: each with its exit code and its words, and with nothing left behind.
#pragma once

#include <gmock/gmock.h>

#include <tuple>
#include <vector>

#include "tests/tools/cli_fixture.h"

namespace moka {

class NewModelTest : public CliTest {
 protected:
  // A command whose model would be the folder "a", its exit code, and a part of its error.
  using Refusal = std::tuple<const char*, int, const char*>;

  static void ExpectRefused(const std::vector<Refusal>& refusals) {
    for (const auto& [line, code, text] : refusals) {
      const Outcome outcome = Moka(line);
      EXPECT_EQ(outcome.code, code) << line << "\n" << outcome.err;
      EXPECT_THAT(outcome.err, testing::HasSubstr(text)) << line;
      EXPECT_FALSE(fs::exists(folder_ / "a")) << line;
      EXPECT_FALSE(fs::exists(folder_ / "a.partial")) << line;
    }
  }
};

}  // namespace moka
