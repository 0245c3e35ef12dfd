// The checked 64-bit size type: every product and sum of dimensions, counts and bytes goes through it, so an
// overflow is an error with its operands and never a small number.
#pragma once

#include <compare>
#include <cstdint>

namespace moka {

[[noreturn]] void ThrowSizeOverflow(const char* operation, int64_t a, int64_t b);

class Size {
 public:
  constexpr Size() = default;
  constexpr Size(int64_t value) : value_(value) {}  // NOLINT(google-explicit-constructor): a number is a size
  constexpr int64_t value() const { return value_; }

  friend constexpr Size operator+(Size a, Size b) {
    int64_t r = 0;
    if (__builtin_add_overflow(a.value_, b.value_, &r)) ThrowSizeOverflow("+", a.value_, b.value_);
    return r;
  }
  friend constexpr Size operator-(Size a, Size b) {
    int64_t r = 0;
    if (__builtin_sub_overflow(a.value_, b.value_, &r)) ThrowSizeOverflow("-", a.value_, b.value_);
    return r;
  }
  friend constexpr Size operator*(Size a, Size b) {
    int64_t r = 0;
    if (__builtin_mul_overflow(a.value_, b.value_, &r)) ThrowSizeOverflow("*", a.value_, b.value_);
    return r;
  }
  // Rounds towards minus infinity; a zero divisor is an overflow.
  friend constexpr Size operator/(Size a, Size b) {
    if (b.value_ == 0 || (b.value_ == -1 && a.value_ == INT64_MIN)) ThrowSizeOverflow("/", a.value_, b.value_);
    const int64_t q = a.value_ / b.value_;
    return (a.value_ % b.value_ != 0 && (a.value_ < 0) != (b.value_ < 0)) ? q - 1 : q;
  }
  Size& operator+=(Size b) { return *this = *this + b; }
  Size& operator*=(Size b) { return *this = *this * b; }
  friend constexpr std::strong_ordering operator<=>(Size a, Size b) { return a.value_ <=> b.value_; }
  friend constexpr bool operator==(Size, Size) = default;

 private:
  int64_t value_ = 0;
};

// Smallest multiple of step that is >= value. Requires: step > 0.
constexpr Size RoundUp(Size value, Size step) { return (value + step - 1) / step * step; }
// Ceiling of a / b. Requires: b > 0.
constexpr Size CeilDiv(Size a, Size b) { return (a + b - 1) / b; }

}  // namespace moka
