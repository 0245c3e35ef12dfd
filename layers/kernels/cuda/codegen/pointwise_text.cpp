// A thread takes kWidth neighbouring elements, with vector loads and stores where operands are dense; the last threads
// go element by element.
#include "layers/kernels/cuda/codegen/pointwise_text.h"

#include "core/text.h"
#include "layers/kernels/cuda/codegen/element_text.h"

namespace moka::cuda {
namespace {

// Elements i to i + kLength of the nest, which lie in one row.
std::string ElementsText(const Expression& expression, const Nest& nest) {
  std::string text = "template <int kLength>\ninline void Elements(const Operands& at, Index i) {\n";
  text += SplitText(nest.extents, AllDims(nest), "i", "  ");
  text += SeedsText(expression, nest, "at", "  ") + LoadsText(expression, nest, "at", "  ");
  for (size_t o = 0; o < nest.outputs.size(); ++o) {
    text += StrCat("  Pack<", TypeText(nest.outputs[o].dtype), ", kLength> y", o, ";\n");
  }
  text += "#pragma unroll\n  for (int j = 0; j < kLength; ++j) {\n";
  text += Statements(
      expression, "    ", [&](int input) { return ElementText(nest, input); }, IndexText(expression, nest));
  for (size_t o = 0; o < nest.outputs.size(); ++o) {
    text += StrCat("    Set(y", o, ".at[j], t", expression.results()[o], ");\n");
  }
  text += "  }\n";
  for (size_t o = 0; o < nest.outputs.size(); ++o) {
    const NestOperand& y = nest.outputs[o];
    const std::string to = StrCat("at.y", o, " + (", OffsetText(y.strides, AllDims(nest)), ")");
    if (IsDense(y)) {
      text += StrCat("  Store(", to, ", y", o, ");\n");
    } else {
      const int64_t stride = y.strides.empty() ? 0 : y.strides.back();
      text += StrCat("#pragma unroll\n  for (int j = 0; j < kLength; ++j) (", to, ")[j * ", stride, "u] = y", o,
                     ".at[j];\n");
    }
  }
  return text + "}\n";
}

// Elements `first` to `first` + width of `count`, fewer at the end.
std::string StepText(std::string_view operands, std::string_view count, std::string_view indent) {
  return StrCat(indent, "if (first + kWidth <= ", count, ") {\n", indent, "  Elements<kWidth>(", operands,
                ", first);\n", indent, "} else {\n", indent, "  for (Index i = first; i < ", count,
                "; ++i) Elements<1>(", operands, ", i);\n", indent, "}\n");
}

std::string StartText(const Expression& expression, const Nest& nest, int width) {
  return StrCat(DeclarationsText(expression, nest), "struct Shared {};\nconstexpr int kPhases = 1;\n",
                "constexpr int kWidth = ", width, ";\n", ElementsText(expression, nest));
}

}  // namespace

KernelText PointwiseText(std::string name, const Expression& expression, const Nest& nest, int width) {
  std::string text = StartText(expression, nest, width);
  text += "struct Arguments {\n  Operands at;\n  long long count;\n};\n";
  text += "inline void Phase(const Arguments& a, Shared&, int, unsigned block, int thread) {\n";
  text += "  const Index count = static_cast<Index>(a.count);\n";
  text += StrCat("  const Index first = (static_cast<Index>(block) * ", kBlockThreads, "u + thread) * kWidth;\n");
  return {std::move(name), text + StepText("a.at", "count", "  ") + "}\n"};
}

// Must match the words that TablesOf (codegen/group.cpp) writes.
std::string GroupRowsText() {
  return "struct Member {\n  Operands at;\n  long long count;\n  long long first_chunk;\n  long long chunks;\n};\n"
         "struct Chunk {\n  long long member;\n  long long first;\n};\n";
}

// A block takes several steps of one member, so that its entry of the table is read once for many elements.
KernelText GroupText(std::string name, const Expression& expression, const Nest& nest, int width) {
  std::string text = StartText(expression, nest, width);
  text += GroupRowsText();
  text += "struct Arguments {\n  const Member* members;\n  const Chunk* chunks;\n};\n";
  text += "inline void Phase(const Arguments& a, Shared&, int, unsigned block, int thread) {\n";
  text += "  const Chunk chunk = a.chunks[block];\n";
  text += "  const Member member = a.members[chunk.member];\n";
  text += "  const Index count = static_cast<Index>(member.count);\n";
  text += StrCat("  for (int step = 0; step < ", kChunkSteps, "; ++step) {\n");
  text += StrCat("    const Index first = static_cast<Index>(chunk.first) + (step * ", kBlockThreads,
                 "u + thread) * kWidth;\n");
  return {std::move(name), text + StepText("member.at", "count", "    ") + "  }\n}\n"};
}

}  // namespace moka::cuda
