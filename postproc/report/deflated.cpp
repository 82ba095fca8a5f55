#include "postproc/report/deflated.h"

#include <libdeflate.h>

#include <memory>
#include <new>

namespace reveal {
namespace {

constexpr int kLevel = 9;  // the highest is 12: above it, a page takes five times as long and is 2 % smaller

template <typename Bound, typename Compress>
std::string deflated(std::string_view bytes, Bound bound, Compress compress) {
  const std::unique_ptr<libdeflate_compressor, decltype(&libdeflate_free_compressor)> compressor(
      libdeflate_alloc_compressor(kLevel), libdeflate_free_compressor);
  if (!compressor) throw std::bad_alloc();
  std::string made(bound(compressor.get(), bytes.size()), '\0');
  made.resize(compress(compressor.get(), bytes.data(), bytes.size(), made.data(), made.size()));
  return made;
}

}  // namespace

std::string zlib_stream(std::string_view bytes) {
  return deflated(bytes, libdeflate_zlib_compress_bound, libdeflate_zlib_compress);
}

std::string gzip_file(std::string_view bytes) {
  return deflated(bytes, libdeflate_gzip_compress_bound, libdeflate_gzip_compress);
}

std::uint32_t crc32_of(std::string_view bytes) noexcept {
  return libdeflate_crc32(0, bytes.data(), bytes.size());
}

}  // namespace reveal
