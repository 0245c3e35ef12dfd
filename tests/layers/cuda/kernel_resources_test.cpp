// Registers, shared memory and stack of each kernel for GPUs, read from the machine code that lies in the program.
// Kernels that stream over whole images are to leave room for as many threads as fill the memory's latency: 64
// registers are four blocks of 256 threads on a multiprocessor, 80 are three.
#include <cxxabi.h>
#include <elf.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/file.h"
#include "core/text.h"

namespace moka {
namespace {

struct Resources {
  int chip = 0;  // 90: sm_90
  std::string kernel;
  int64_t registers = 0;
  int64_t stack_bytes = 0;
  int64_t shared_bytes = 0;
};

// Numbers of NVIDIA's ELF files.
constexpr Elf64_Half kCudaMachine = 190;
constexpr uint8_t kRegisters = 0x2f;  // attributes of .nv.info: a symbol and a number each
constexpr uint8_t kFrame = 0x11;
constexpr uint8_t kWithPayload = 4;

// One program for a chip, at the start of `bytes`.
class ChipCode {
 public:
  explicit ChipCode(std::string_view bytes) : bytes_(bytes), header_(At<Elf64_Ehdr>(0)) {
    for (size_t i = 0; i < header_.e_shnum; ++i)
      sections_.push_back(At<Elf64_Shdr>(header_.e_shoff + i * sizeof(Elf64_Shdr)));
  }

  std::vector<Resources> Kernels() const {
    std::map<std::string, Resources> kernels;
    for (const Elf64_Shdr& section : sections_) {
      if (NameOf(section) == ".nv.info") ReadInfo(section, kernels);
    }
    std::vector<Resources> all;
    for (auto& [name, kernel] : kernels) {
      if (kernel.registers == 0) continue;  // a function that kernels call: a division of the compiler's
      for (const Elf64_Shdr& section : sections_) {
        if (NameOf(section) == ".nv.shared." + name) kernel.shared_bytes = static_cast<int64_t>(section.sh_size);
      }
      kernel.chip = static_cast<int>(header_.e_flags >> 8U & 0xffU);
      kernel.kernel = Demangled(name);
      all.push_back(kernel);
    }
    return all;
  }

 private:
  template <class T>
  T At(size_t place) const {
    T value{};
    if (place <= bytes_.size() && sizeof(T) <= bytes_.size() - place)
      std::memcpy(&value, bytes_.data() + place, sizeof(T));
    return value;
  }
  std::string Text(const Elf64_Shdr& strings, size_t at) const {
    const std::string_view rest = bytes_.substr(std::min<size_t>(strings.sh_offset + at, bytes_.size()));
    return std::string(rest.substr(0, rest.find('\0')));
  }
  std::string NameOf(const Elf64_Shdr& section) const {
    return Text(sections_.at(header_.e_shstrndx), section.sh_name);
  }
  static std::string Demangled(const std::string& name) {
    int status = 0;
    char* const text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
    std::string demangled = status == 0 ? text : name;
    std::free(text);
    for (const std::string_view part : {"moka::", "cuda::", "(anonymous namespace)::"}) {
      for (size_t at = demangled.find(part); at != std::string::npos; at = demangled.find(part, at))
        demangled.erase(at, part.size());
    }
    return demangled;
  }

  void ReadInfo(const Elf64_Shdr& info, std::map<std::string, Resources>& kernels) const {
    const Elf64_Shdr& symbols = sections_.at(info.sh_link);
    const Elf64_Shdr& names = sections_.at(symbols.sh_link);
    for (size_t at = info.sh_offset; at < info.sh_offset + info.sh_size;) {
      const auto form = At<uint8_t>(at);
      const auto attribute = At<uint8_t>(at + 1);
      const auto size = At<uint16_t>(at + 2);
      at += 4;
      if (form != kWithPayload) continue;
      const auto symbol = At<uint32_t>(at);
      const auto value = At<uint32_t>(at + 4);
      at += size;
      if (attribute != kRegisters && attribute != kFrame) continue;
      const auto entry = At<Elf64_Sym>(symbols.sh_offset + symbol * sizeof(Elf64_Sym));
      Resources& kernel = kernels[Text(names, entry.st_name)];
      (attribute == kRegisters ? kernel.registers : kernel.stack_bytes) = value;
    }
  }

  std::string_view bytes_;
  Elf64_Ehdr header_;
  std::vector<Elf64_Shdr> sections_;
};

std::vector<Resources> KernelsOf(const std::string& program) {
  std::vector<Resources> all;
  const std::string_view bytes = program;
  for (size_t at = bytes.find(ELFMAG); at != std::string_view::npos; at = bytes.find(ELFMAG, at + 1)) {
    Elf64_Ehdr header{};
    if (bytes.size() - at < sizeof(header)) break;
    std::memcpy(&header, bytes.data() + at, sizeof(header));
    if (header.e_machine != kCudaMachine) continue;
    for (Resources& kernel : ChipCode(bytes.substr(at)).Kernels()) all.push_back(std::move(kernel));
  }
  return all;
}

// A row of kernels whose names hold all these parts, and the most that each may take.
struct Budget {
  std::vector<std::string> parts;
  int64_t registers;
};

const std::vector<Budget>& Budgets() {
  static const std::vector<Budget> all = {
      {{"LastChannelKernel<8", "Normalize<"}, 80},
      {{"ChannelKernel<8", "BatchStatistics<"}, 64},
      {{"ChannelKernel<8", "GradientSums<", "FewGradients<", "(Mask)0"}, 64},
      {{"ChannelKernel<8", "GradientSums<", "FewGradients<", "(Mask)1, 1>"}, 80},
      {{"ChannelKernel<8", "GradientSums<", "FewGradients<", "(Mask)1, 2>"}, 128},
      {{"ChannelKernel<8", "GradientSums<", "FewGradients<", "(Mask)2, 1>"}, 64},
      {{"ChannelKernel<8", "GradientSums<", "FewGradients<", "(Mask)2, 2>"}, 80},
      {{"LastChannelKernel<8", "InputGradient<", "FewGradients<", "(Mask)0"}, 64},
      {{"LastChannelKernel<8", "InputGradient<", "FewGradients<", "(Mask)1"}, 80},
      {{"LastChannelKernel<8", "InputGradient<", "FewGradients<", "(Mask)2"}, 64},
      {{"MaxBackwardEach<", ", 8>"}, 80},
      {{"MaxEach<", ", 8>"}, 80},
  };
  return all;
}

bool IsOf(const Resources& kernel, const Budget& budget) {
  return std::ranges::all_of(budget.parts,
                             [&](const std::string& part) { return kernel.kernel.find(part) != std::string::npos; });
}
bool IsStreaming(const Resources& kernel) {
  return std::ranges::any_of(Budgets(), [&](const Budget& budget) { return IsOf(kernel, budget); });
}

class KernelResources : public testing::Test {
 protected:
  static const std::vector<Resources>& Kernels() {
    static const std::vector<Resources> all = KernelsOf(ReadFile(MOKA_BINARY, int64_t{1} << 30));
    return all;
  }
};

TEST_F(KernelResources, NoKernelSpillsItsRegisters) {
  ASSERT_GT(Kernels().size(), 500U) << "the program holds no code for GPUs, or it is packed otherwise";
  for (const Resources& kernel : Kernels()) {
    EXPECT_LE(kernel.registers, 255) << kernel.kernel;
    EXPECT_LE(kernel.shared_bytes, 48 << 10) << kernel.kernel;
    // Arrays that are indexed by what is not known before lie there: of windows, boxes and the like.
    if (kernel.stack_bytes == 0 || !IsStreaming(kernel)) continue;
    ADD_FAILURE() << kernel.kernel << " has a stack of " << kernel.stack_bytes << " bytes on sm_" << kernel.chip;
  }
}

TEST_F(KernelResources, StreamingKernelsStayWithinTheirRegisters) {
  for (const Budget& budget : Budgets()) {
    int found = 0;
    for (const Resources& kernel : Kernels()) {
      if (!IsOf(kernel, budget)) continue;
      ++found;
      EXPECT_LE(kernel.registers, budget.registers) << kernel.kernel << " on sm_" << kernel.chip;
    }
    EXPECT_GE(found, 4) << "no kernel of half numbers on two chips is called " << Join(budget.parts, " .. ");
  }
}

}  // namespace
}  // namespace moka
