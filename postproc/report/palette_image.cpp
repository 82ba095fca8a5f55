#include "postproc/report/palette_image.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "hdf5schema/zlib_text.h"

namespace reveal {
namespace {

std::string big_endian(std::uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>((number >> shift) & 0xFF);
  return bytes;
}

/// Length, name, content, checksum of name and content.
std::string chunk(std::string_view name, std::string_view content) {
  const std::string named = std::string(name).append(content);
  return big_endian(static_cast<std::uint32_t>(content.size())) + named + big_endian(checksum_of(named));
}

}  // namespace

PaletteImage::PaletteImage(int width, int height)
    : width_(width), height_(height), pixels_(static_cast<std::size_t>(width) * static_cast<std::size_t>(height)) {}

void PaletteImage::set(int x, int y, std::uint8_t colour) noexcept {
  if (x < 0 || y < 0 || x >= width_ || y >= height_) return;
  pixels_[static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) + static_cast<std::size_t>(x)] = colour;
}

void PaletteImage::fill(int left, int top, int right, int bottom, std::uint8_t colour) noexcept {
  for (int y = std::max(top, 0); y < std::min(bottom, height_); ++y) {
    for (int x = std::max(left, 0); x < std::min(right, width_); ++x) set(x, y, colour);
  }
}

void PaletteImage::line(double from_x, double from_y, double to_x, double to_y, int thickness,
                        std::uint8_t colour) noexcept {
  const double longer = std::max(std::abs(to_x - from_x), std::abs(to_y - from_y));
  const int steps = std::max(1, static_cast<int>(std::ceil(longer)));
  for (int i = 0; i <= steps; ++i) {
    const double part = static_cast<double>(i) / steps;
    const int x = static_cast<int>(std::lround(from_x + part * (to_x - from_x))) - thickness / 2;
    const int y = static_cast<int>(std::lround(from_y + part * (to_y - from_y))) - thickness / 2;
    fill(x, y, x + thickness, y + thickness, colour);
  }
}

std::string PaletteImage::png(std::span<const PaletteColour> palette) const {
  constexpr std::string_view kHeaderEnd("\x08\x03\x00\x00\x00", 5);  // bits, palette, deflate, filters, no interlacing
  std::string colours;
  std::string alphas;
  for (const PaletteColour& colour : palette) {
    for (const std::uint8_t part : {colour.red, colour.green, colour.blue}) colours += static_cast<char>(part);
    alphas += static_cast<char>(colour.alpha);
  }
  std::string rows;
  rows.reserve(pixels_.size() + static_cast<std::size_t>(height_));
  for (std::size_t begin = 0; begin < pixels_.size(); begin += static_cast<std::size_t>(width_)) {
    rows += '\0';  // the row is not filtered
    rows.append(pixels_.begin() + static_cast<std::ptrdiff_t>(begin),
                pixels_.begin() + static_cast<std::ptrdiff_t>(begin) + width_);
  }
  std::string file("\x89PNG\r\n\x1a\n");
  file += chunk("IHDR", big_endian(static_cast<std::uint32_t>(width_)) +
                            big_endian(static_cast<std::uint32_t>(height_)) + std::string(kHeaderEnd));
  return file + chunk("PLTE", colours) + chunk("tRNS", alphas) + chunk("IDAT", zlib_text(rows)) + chunk("IEND", "");
}

}  // namespace reveal
