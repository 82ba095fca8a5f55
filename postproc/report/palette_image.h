// A picture of a few colours, some of them translucent, so that it lies well on a light and on a dark page.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace reveal {

struct PaletteColour {
  std::uint8_t red = 0, green = 0, blue = 0, alpha = 255;
};

class PaletteImage {
 public:
  PaletteImage(int width, int height);

  [[nodiscard]] int width() const noexcept { return width_; }
  [[nodiscard]] int height() const noexcept { return height_; }

  /// Points outside of the picture are left out.
  void set(int x, int y, std::uint8_t colour) noexcept;
  void fill(int left, int top, int right, int bottom, std::uint8_t colour) noexcept;
  void line(double from_x, double from_y, double to_x, double to_y, int thickness, std::uint8_t colour) noexcept;

  /// A PNG file; `palette` has a colour for each number that was set. https://www.w3.org/TR/png-3/
  [[nodiscard]] std::string png(std::span<const PaletteColour> palette) const;

 private:
  int width_, height_;
  std::vector<std::uint8_t> pixels_;
};

}  // namespace reveal
