// The function that libFuzzer calls, for the one target that is linked with it.
#include <cstddef>
#include <cstdint>

#include "core/log.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const moka::FuzzTarget target = [] {
    moka::SetStderrLevel(moka::LogLevel::kError);
    return moka::FuzzTargets().at(0);
  }();
  moka::ReadOneInput(target, std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
