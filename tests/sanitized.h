// Whether a sanitizer is in this build: it reserves terabytes of addresses, keeps what was freed and slows a run down,
// so limits of memory and time that hold without it do not hold with it.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MOKA_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MOKA_SANITIZED 1
#endif
#endif

namespace moka {

#ifdef MOKA_SANITIZED
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

}  // namespace moka
