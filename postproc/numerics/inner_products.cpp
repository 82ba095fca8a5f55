#include "postproc/numerics/inner_products.h"

#include <algorithm>
#include <vector>

#include "postproc/numerics/simd.h"

namespace reveal {

namespace {

using Index = Eigen::Index;
REVEAL_VECTOR(Eight, float, 32);

constexpr Index kRows = 16;  // rows of a tile: two times eight
constexpr Index kColumns = 4;
constexpr Index kSumDepth =
    256;  // a tile's rows fit into the first-level cache, all columns of a thousand vectors into the second

/// out[column][16] += the products of 16 by 4 vectors over `depth` elements; `a` is [element][16], `b` [element][4].
REVEAL_WIDE void multiply(const float* a, const float* b, Index depth, float* out, Index stride) {
  const auto at = [&](Index column, Index half) __attribute__((always_inline)) {
    return reinterpret_cast<Eight*>(out + column * stride + half * 8);
  };
  Eight s00 = *at(0, 0);
  Eight s01 = *at(0, 1);
  Eight s10 = *at(1, 0);
  Eight s11 = *at(1, 1);
  Eight s20 = *at(2, 0);
  Eight s21 = *at(2, 1);
  Eight s30 = *at(3, 0);
  Eight s31 = *at(3, 1);
  for (Index k = 0; k < depth; ++k, a += kRows, b += kColumns) {
    const Eight low = *reinterpret_cast<const Eight*>(a);
    const Eight high = *reinterpret_cast<const Eight*>(a + 8);
    s00 += low * b[0];
    s01 += high * b[0];
    s10 += low * b[1];
    s11 += high * b[1];
    s20 += low * b[2];
    s21 += high * b[2];
    s30 += low * b[3];
    s31 += high * b[3];
  }
  *at(0, 0) = s00;
  *at(0, 1) = s01;
  *at(1, 0) = s10;
  *at(1, 1) = s11;
  *at(2, 0) = s20;
  *at(2, 1) = s21;
  *at(3, 0) = s30;
  *at(3, 1) = s31;
}

/// Elements [first, first + depth) of `count` vectors from `from` on, side by side in groups of `width`; zeros beyond.
void pack(const Vectors& vectors, Index from, Index width, Index first, Index depth, float* out) {
  const Index count = std::min(width, vectors.cols() - from);
  if (count < width) std::fill_n(out, width * depth, 0.0F);
  for (Index c = 0; c < count; ++c) {
    const float* vector = vectors.col(from + c).data() + first;
    for (Index k = 0; k < depth; ++k) out[k * width + c] = vector[k];
  }
}

Index tiles(Index vectors, Index width) {
  return (vectors + width - 1) / width;
}

/// `lower`: only tiles that reach the diagonal or lie below it.
Eigen::MatrixXf products(const Vectors& a, const Vectors& b, bool lower) {
  const Index length = a.rows();
  const Index rows = tiles(a.cols(), kRows) * kRows;  // whole tiles, so that none needs care
  const Index columns = tiles(b.cols(), kColumns) * kColumns;
  Eigen::MatrixXf result = Eigen::MatrixXf::Zero(rows, columns);
  std::vector<float> packed_a(static_cast<std::size_t>(kRows * kSumDepth));
  std::vector<float> packed_b(static_cast<std::size_t>(columns * kSumDepth));
  for (Index first = 0; first < length; first += kSumDepth) {
    const Index depth = std::min(kSumDepth, length - first);
    for (Index j = 0; j < columns; j += kColumns) pack(b, j, kColumns, first, depth, packed_b.data() + j * depth);
    for (Index i = 0; i < rows; i += kRows) {
      pack(a, i, kRows, first, depth, packed_a.data());
      const Index last = lower ? std::min(columns, i + kRows) : columns;
      for (Index j = 0; j < last; j += kColumns) {
        multiply(packed_a.data(), packed_b.data() + j * depth, depth, &result(i, j), rows);
      }
    }
  }
  if (rows != a.cols() || columns != b.cols()) result.conservativeResize(a.cols(), b.cols());
  return result;
}

}  // namespace

Eigen::MatrixXf inner_products(const Vectors& a, const Vectors& b) {
  return products(a, b, false);
}

Eigen::MatrixXf inner_products(const Vectors& vectors) {
  Eigen::MatrixXf result = products(vectors, vectors, true);
  result.triangularView<Eigen::StrictlyUpper>() = result.transpose();
  return result;
}

}  // namespace reveal
