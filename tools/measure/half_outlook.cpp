// A step takes the time of its arithmetic, as the rule of kernels has it, or that of moving its bytes, if that is more.
// A conversion reads half types and writes twice as many bytes, which the kernel between reads or writes again.
#include "tools/measure/half_outlook.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <string_view>

#include "core/log.h"
#include "core/text.h"
#include "layers/kernels/cpu/instructions.h"
#include "layers/kernels/cpu/kernel_rule.h"

namespace moka {
namespace {

constexpr double kBytesPerMs = 8e6;  // of one thread, float32
// A byte of half types takes as long as so many of float32: they are widened and rounded, the latter in one instruction
// where the processor multiplies bfloat16. Measured on ResNet-20's and ResNet-50's steps (Zen 4).
constexpr double kRoundedAtOnce = 1.4;
constexpr double kRoundedInSteps = 2.3;
constexpr double kConverted = 3;  // more: read, and twice as many written
constexpr std::string_view kMark = "converted_";

bool IsHalfStep(const StepReport& step) { return step.types.find("float16") != std::string::npos; }
bool IsConverted(const StepReport& step) { return step.kernel.starts_with(kMark); }
bool Counts(const StepReport& step) { return !step.is_constant && step.kernel != "alias"; }

// A heavy step: its count of operations is a product's, above those of its values.
bool Multiplies(const StepReport& step) { return step.flops > step.bytes; }

double Milliseconds(std::string_view row, DType factors, int64_t flops, double bytes) {
  return std::max(static_cast<double>(flops) / FlopsPerMs(row, factors), bytes / kBytesPerMs);
}

// As it is.
double OwnMs(const StepReport& step) {
  const auto bytes = static_cast<double>(step.bytes);
  if (!IsHalfStep(step)) return Milliseconds(step.kernel, step.factors, step.flops, bytes);
  if (IsConverted(step)) {
    const std::string_view row = std::string_view(step.kernel).substr(kMark.size());
    return Milliseconds(row, DType::kFloat32, step.flops, 2 * bytes) + kConverted * bytes / kBytesPerMs;
  }
  const double moved = bytes * (HasBFloat16Pairs() ? kRoundedAtOnce : kRoundedInSteps);
  return Milliseconds(step.kernel, step.factors, step.flops, moved);
}

// The same step on float32. A cast is there for the half types alone.
double WideMs(const StepReport& step) {
  if (!IsHalfStep(step)) return OwnMs(step);
  if (step.op == "cast") return 0;
  const std::string_view row = std::string_view(step.kernel).substr(IsConverted(step) ? kMark.size() : 0);
  return Milliseconds(row, DType::kFloat32, step.flops, 2 * static_cast<double>(step.bytes));
}

HalfOutlook Counted(std::span<const StepReport> half, double wide_ms) {
  HalfOutlook outlook;
  double half_ms = 0;
  std::set<std::string> converted;
  for (const StepReport& step : half) {
    if (!Counts(step)) continue;
    half_ms += OwnMs(step);
    if (IsConverted(step)) {
      ++outlook.converted;
      converted.insert(step.op);
    } else if (IsHalfStep(step) && Multiplies(step) && !HasBFloat16Pairs()) {
      ++outlook.widened;
    }
  }
  if (half_ms > 0) outlook.speedup = wide_ms / half_ms;
  outlook.converted_ops = Join({converted.begin(), converted.end()}, ", ");
  return outlook;
}

}  // namespace

HalfOutlook OutlookOf(std::span<const StepReport> half, std::span<const StepReport> wide) {
  double wide_ms = 0;
  for (const StepReport& step : wide) wide_ms += Counts(step) ? OwnMs(step) : 0;
  return Counted(half, wide_ms);
}

HalfOutlook OutlookOf(std::span<const StepReport> steps) {
  double wide_ms = 0;
  for (const StepReport& step : steps) wide_ms += Counts(step) ? WideMs(step) : 0;
  return Counted(steps, wide_ms);
}

std::string EmulationText(const HalfOutlook& outlook) {
  if (outlook.converted + outlook.widened == 0) return {};
  std::string text;
  if (outlook.widened > 0)
    text = StrCat(outlook.widened, " products widen their factors, as this CPU has no AVX512-BF16");
  if (outlook.converted > 0) {
    text += StrCat(text.empty() ? "" : "; ", outlook.converted, " steps convert to float32 and back (",
                   outlook.converted_ops, ")");
  }
  return text + fmt::format("; expect {:.1f} times the speed of float32", outlook.speedup);
}

void TellEmulation(std::span<const StepReport> steps) {
  static std::atomic<bool> is_told = false;
  const HalfOutlook outlook = OutlookOf(steps);
  const std::string text = EmulationText(outlook);
  if (text.empty() || is_told.exchange(true)) return;
  const std::string line = StrCat("half precision is emulated here: ", text);
  outlook.speedup < 1 ? LogWarning(line) : LogInfo(line);
}

}  // namespace moka
