#include "hdf5schema/zlib_text.h"

#include <libdeflate.h>

#include <algorithm>
#include <memory>
#include <new>

#include "hdf5schema/basics/error.h"

namespace reveal {
namespace {

constexpr char kZlib = 0x78;    // deflate with a window of 32 KiB: the only first byte that libdeflate writes
constexpr int kSmallLevel = 9;  // a few milliseconds for a node's summary, which is read by name over a network
constexpr int kFastLevel = 1;
constexpr std::size_t kUsualRatio = 8;

struct Free {
  void operator()(libdeflate_compressor* compressor) const { libdeflate_free_compressor(compressor); }
  void operator()(libdeflate_decompressor* decompressor) const { libdeflate_free_decompressor(decompressor); }
};

}  // namespace

std::string zlib_text(std::string_view text, Deflating how) {
  const int level = how == Deflating::small ? kSmallLevel : kFastLevel;
  const std::unique_ptr<libdeflate_compressor, Free> compressor(libdeflate_alloc_compressor(level));
  if (!compressor) throw std::bad_alloc();
  std::string stored(libdeflate_zlib_compress_bound(compressor.get(), text.size()), '\0');
  stored.resize(libdeflate_zlib_compress(compressor.get(), text.data(), text.size(), stored.data(), stored.size()));
  return stored;
}

std::uint32_t checksum_of(std::string_view bytes) noexcept {
  return libdeflate_crc32(0, bytes.data(), bytes.size());
}

std::string plain_text(std::string content, std::size_t most) {
  if (content.empty() || content.front() != kZlib) {
    if (content.size() > most) throw Error("the text is longer than reveal allows");
    return content;
  }
  const std::unique_ptr<libdeflate_decompressor, Free> decompressor(libdeflate_alloc_decompressor());
  if (!decompressor) throw std::bad_alloc();
  std::string text;
  for (std::size_t room = std::min(most, kUsualRatio * content.size());; room = std::min(most, 4 * room)) {
    text.resize(room);
    std::size_t length = 0;
    switch (libdeflate_zlib_decompress(decompressor.get(), content.data(), content.size(), text.data(), text.size(),
                                       &length)) {
      case LIBDEFLATE_SUCCESS:
        text.resize(length);
        return text;
      case LIBDEFLATE_INSUFFICIENT_SPACE:
        if (room < most) break;
        throw Error("the compressed text is longer than reveal allows");
      default:
        throw Error("the compressed text is damaged or cut off");
    }
  }
}

}  // namespace reveal
