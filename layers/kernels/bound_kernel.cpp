// The sentences of refusals, worded once so that all rows say the same thing alike, and the strides by which one loop
// walks plain, blocked and channels-last planes.
#include "layers/kernels/bound_kernel.h"

#include <algorithm>

namespace moka {
namespace {

// The first sentence `check` gives for a tensor of the query.
template <class Check>
std::string FirstRefusal(const KernelQuery& query, Check&& check) {
  for (const auto& types : {query.inputs, query.outputs}) {
    for (const TensorType& type : types) {
      if (std::string reason = check(type); !reason.empty()) return reason;
    }
  }
  return {};
}

}  // namespace

std::string RefuseUnlessFloat32(const KernelQuery& query) {
  return FirstRefusal(query, [](const TensorType& type) {
    if (!IsFloat(type.dtype) || type.dtype == DType::kFloat32) return std::string();
    return StrCat("it computes in float32, not ", NameOf(type.dtype));
  });
}

std::string RefuseUnlessFilledFloat32(const KernelQuery& query) {
  return FirstRefusal(query, [](const TensorType& type) {
    if (type.dtype != DType::kFloat32) return StrCat("it is for float32, not ", NameOf(type.dtype));
    return type.shape.Count() != 0 ? std::string() : StrCat("the tensor ", type.ToString(), " is empty");
  });
}

std::string RefuseUnlessPlain(const KernelQuery& query) {
  return FirstRefusal(query, [](const TensorType& type) {
    return type.layout.is_plain() ? std::string() : StrCat("it works on plain tensors, not ", type.ToString());
  });
}

std::string RefuseUnlessSameLayout(const KernelQuery& query) {
  const TensorType& first = query.inputs[0];
  return FirstRefusal(query, [&](const TensorType& type) {
    const bool follows = type.shape.rank() == first.shape.rank();
    if (type.layout == (follows ? first.layout : Layout{})) return std::string();
    return StrCat("the layout of ", type.ToString(), " is not the one of ", first.ToString());
  });
}

Layout ChannelsLast(int rank) {
  Require(rank >= 3 && rank <= 5, "ChannelsLast: a rank from 3 to 5");
  static constexpr std::string_view kNames[] = {"acb", "acdb", "acdeb"};
  return Layout::Parse(kNames[rank - 3]);
}

bool IsPlainOrChannelsLast(const TensorType& type) {
  const int rank = type.shape.rank();
  return type.layout.is_plain() || (rank >= 3 && rank <= 5 && type.layout == ChannelsLast(rank));
}

std::vector<Layout> PlainLayouts(std::span<const TensorType> types) { return std::vector<Layout>(types.size()); }

std::optional<LayoutProposal> ProposeFirstLayout(const KernelQuery& query) {
  const TensorType& first = query.inputs[0];
  const auto layout_of = [&](const TensorType& type) {
    return type.shape.rank() == first.shape.rank() ? first.layout : Layout{};
  };
  LayoutProposal proposal;
  for (const TensorType& type : query.inputs) proposal.inputs.push_back(layout_of(type));
  for (const TensorType& type : query.outputs) proposal.outputs.push_back(layout_of(type));
  return proposal;
}

// The last block of channels (or images) may have padding lanes, which hold nothing to visit.
int64_t PlaneView::LanesOf(int64_t outer_index) const {
  if (inner == 1) return 1;
  const int64_t blocks = (lanes + inner - 1) / inner;
  return std::min(inner, lanes - outer_index / neighbors % blocks * inner);
}

// Plain memory is planes of one lane each; blocks are planes of as many lanes as the block has; channels last is one
// plane an image with all channels as lanes. A kernel then has one loop for the three.
std::optional<PlaneView> ViewPlanes(const TensorType& type) {
  const Shape& shape = type.shape;
  const int rank = shape.rank();
  if (rank < 3 || rank > 5) return std::nullopt;
  PlaneView view;
  view.lanes = shape[1];
  view.width = shape[rank - 1];
  if (rank > 3) view.height = shape[rank - 2];
  if (rank > 4) view.depth = shape[2];
  const Layout& layout = type.layout;
  const auto order = [&](int i) { return int{layout.order[static_cast<size_t>(i)]}; };
  if (layout.is_plain()) {
    view.outer = shape[0] * shape[1];
    return view;
  }
  if (layout.block_count == 1 && layout.blocks[0].axis <= 1) {
    for (int i = 0; i < rank; ++i) {
      if (order(i) != i) return std::nullopt;
    }
    view.inner = layout.blocks[0].size;
    view.outer = layout.Padded(shape).Count(0, 2) / view.inner;
    if (layout.blocks[0].axis == 0) {
      view.lanes = shape[0];
      view.neighbors = shape[1];
    }
    return view;
  }
  if (layout.block_count != 0 || order(0) != 0 || order(rank - 1) != 1) return std::nullopt;
  for (int i = 1; i + 1 < rank; ++i) {
    if (order(i) != i + 1) return std::nullopt;
  }
  view.inner = shape[1];
  view.outer = shape[0];
  return view;
}

}  // namespace moka
