// The logarithm that brings deviations of any size to a common scale, of many numbers at once.
#pragma once

#include <span>

namespace reveal {

/// out[i] is copysign(log1p(|z|), z) in single precision, z being deviations[i] / scale: equal to the C library to the
/// last bit.
void signed_log(std::span<const double> deviations, double scale, std::span<float> out);

}  // namespace reveal
