#include "postproc/numerics/gram.h"

#include <algorithm>

#include "postproc/numerics/simd.h"

namespace reveal {

namespace {

constexpr std::size_t kTile = 8;
constexpr std::size_t kDepth = 64;  // features per pass: two tiles of them fit into the first-level cache

/// sums[4][8] += a' b over `depth` features; a holds four of its tile's eight windows.
REVEAL_WIDE void multiply(const double* a, const double* b, std::size_t depth, double* sums) {
  Wide* out = reinterpret_cast<Wide*>(sums);
  Wide s00 = out[0];
  Wide s01 = out[1];
  Wide s10 = out[2];
  Wide s11 = out[3];
  Wide s20 = out[4];
  Wide s21 = out[5];
  Wide s30 = out[6];
  Wide s31 = out[7];
  for (std::size_t f = 0; f < depth; ++f, a += kTile, b += kTile) {
    const Wide b0 = reinterpret_cast<const Wide*>(b)[0];
    const Wide b1 = reinterpret_cast<const Wide*>(b)[1];
    s00 += a[0] * b0;
    s01 += a[0] * b1;
    s10 += a[1] * b0;
    s11 += a[1] * b1;
    s20 += a[2] * b0;
    s21 += a[2] * b1;
    s30 += a[3] * b0;
    s31 += a[3] * b1;
  }
  out[0] = s00;
  out[1] = s01;
  out[2] = s10;
  out[3] = s11;
  out[4] = s20;
  out[5] = s21;
  out[6] = s30;
  out[7] = s31;
}

}  // namespace

Gram::Gram(std::size_t windows)
    : windows_(windows),
      tiles_((windows + kTile - 1) / kTile),
      panel_(tiles_ * kDepth * kTile),
      sums_(tiles_ * (tiles_ + 1) / 2 * kTile * kTile) {}

void Gram::add(std::span<const float> feature) {
  append(feature);
}

void Gram::add(std::span<const double> feature) {
  append(feature);
}

template <typename Value>
void Gram::append(std::span<const Value> feature) {
  for (std::size_t w = 0; w < windows_; ++w) {
    panel_[(w / kTile * kDepth + depth_) * kTile + w % kTile] = static_cast<double>(feature[w]);
  }
  ++features_;
  if (++depth_ == kDepth) flush();
}

void Gram::flush() {
  double* sums = sums_.data();
  for (std::size_t i = 0; i < tiles_; ++i) {
    const double* a = panel_.data() + i * kDepth * kTile;
    for (std::size_t j = 0; j <= i; ++j, sums += kTile * kTile) {
      const double* b = panel_.data() + j * kDepth * kTile;
      multiply(a, b, depth_, sums);
      multiply(a + kWide, b, depth_, sums + kWide * kTile);
    }
  }
  depth_ = 0;
}

Eigen::MatrixXd Gram::take() {
  flush();
  const auto n = static_cast<Eigen::Index>(windows_);
  Eigen::MatrixXd matrix(n, n);
  const double* sums = sums_.data();
  for (std::size_t i = 0; i < tiles_; ++i) {
    for (std::size_t j = 0; j <= i; ++j, sums += kTile * kTile) {
      for (std::size_t r = 0; r < std::min(kTile, windows_ - i * kTile); ++r) {
        for (std::size_t c = 0; c < std::min(kTile, windows_ - j * kTile); ++c) {
          const auto row = static_cast<Eigen::Index>(i * kTile + r);
          const auto column = static_cast<Eigen::Index>(j * kTile + c);
          matrix(row, column) = matrix(column, row) = sums[r * kTile + c];
        }
      }
    }
  }
  std::fill(sums_.begin(), sums_.end(), 0.0);
  features_ = 0;
  return matrix;
}

}  // namespace reveal
