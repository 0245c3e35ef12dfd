// Workspaces of NVIDIA's libraries inside a kernel's scratch. Scratch is aligned to 64 bytes; cuBLAS since 12.9 asks
// for 256, and what is timed of both libraries is timed on memory at least so aligned.
#pragma once

#include <cstddef>
#include <cstdint>

namespace moka::cuda {

inline constexpr int64_t kWorkspaceAlignment = 256;

// Bytes of scratch for a workspace of that many, wherever the scratch begins; none for none.
inline int64_t WorkspaceRoom(int64_t bytes) { return bytes == 0 ? 0 : bytes + kWorkspaceAlignment; }
// Where it begins in that room.
inline std::byte* WorkspaceIn(std::byte* room) {
  const auto past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(room) % kWorkspaceAlignment);
  return past == 0 ? room : room + (kWorkspaceAlignment - past);
}

}  // namespace moka::cuda
