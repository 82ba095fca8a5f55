#include "postproc/numerics/signed_log.h"

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "postproc/numerics/simd.h"

namespace reveal {
namespace {

REVEAL_VECTOR(Words, std::uint64_t, 32);
constexpr std::uint64_t kSign = std::uint64_t{1} << 63U;
constexpr std::uint64_t kMantissa = (std::uint64_t{1} << 52U) - 1;
constexpr std::uint64_t kOfOne = std::uint64_t{1023} << 52U;  // exponent
constexpr std::uint64_t kOfLarge = std::uint64_t{1075}
                                   << 52U;  // exponent of 2^52, behind which whole numbers stand as they are
constexpr double kLog2 = 0.6931471805599453;
constexpr double kRoot2 = 1.4142135623730951;
/// Far more than the relative error of this code, or of the C library.
constexpr double kError = 1e-12;

float of_one(double deviation, double scale) {
  const double z = deviation / scale;
  return static_cast<float>(std::copysign(std::log1p(std::abs(z)), z));
}

/// Where a number is so near to the middle between two singles that the error matters, the C library decides.
REVEAL_WIDE void of_four_each(const double* deviations, std::size_t n, double scale, float* out) {
  for (std::size_t i = 0; i + kWide <= n; i += kWide) {
    const Wide z = *reinterpret_cast<const Wide*>(deviations + i) / scale;
    const Words sign = reinterpret_cast<const Words&>(z) & kSign;
    const Words size = reinterpret_cast<const Words&>(z) & ~kSign;
    const Wide& x = reinterpret_cast<const Wide&>(size);
    const Wide u = 1.0 + x;
    const Wide lost = (x - (u - 1.0)) / u;  // log(1 + x) - log(u)
    // u = m * 2^e, m from the root of one half to that of 2.
    const Words& bits = reinterpret_cast<const Words&>(u);
    const Words exponent_bits = (bits >> std::uint64_t{52}) | kOfLarge;
    const Words mantissa_bits = (bits & kMantissa) | kOfOne;
    Wide m = reinterpret_cast<const Wide&>(mantissa_bits);
    Wide e = reinterpret_cast<const Wide&>(exponent_bits) - (0x1p52 + 1023);
    const Wide root = Wide{} + kRoot2;
    e = m > root ? e + 1.0 : e;
    m = m > root ? m * 0.5 : m;
    const Wide s = (m - 1.0) / (m + 1.0);
    const Wide q = s * s;
    Wide series = q * (1.0 / 19) + 1.0 / 17;
    series = series * q + 1.0 / 15;
    series = series * q + 1.0 / 13;
    series = series * q + 1.0 / 11;
    series = series * q + 1.0 / 9;
    series = series * q + 1.0 / 7;
    series = series * q + 1.0 / 5;
    series = series * q + 1.0 / 3;
    const Wide log = e * kLog2 + (2.0 * s + 2.0 * s * q * series) + lost;
    const WideFloats least = __builtin_convertvector(log * (1 - kError), WideFloats);
    const WideFloats most = __builtin_convertvector(log * (1 + kError), WideFloats);
    const Words with_sign = reinterpret_cast<const Words&>(log) | sign;
    const WideFloats result = __builtin_convertvector(reinterpret_cast<const Wide&>(with_sign), WideFloats);
    *reinterpret_cast<WideFloats*>(out + i) = result;
    const auto differ = least != most;  // also where they are no numbers
    if ((differ[0] | differ[1] | differ[2] | differ[3]) == 0) continue;
    for (unsigned lane = 0; lane < kWide; ++lane) {
      if (differ[lane] != 0) out[i + lane] = of_one(deviations[i + lane], scale);
    }
  }
}

}  // namespace

void signed_log(std::span<const double> deviations, double scale, std::span<float> out) {
  of_four_each(deviations.data(), deviations.size(), scale, out.data());
  for (std::size_t i = deviations.size() / kWide * kWide; i < deviations.size(); ++i) {
    out[i] = of_one(deviations[i], scale);
  }
}

}  // namespace reveal
