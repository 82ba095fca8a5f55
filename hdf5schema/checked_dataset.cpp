#include "hdf5schema/checked_dataset.h"

#include <H5Cpp.h>
#include <libdeflate.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "hdf5schema/chunk_codec.h"
#include "hdf5schema/hdf5_access.h"

namespace reveal {
namespace {

constexpr std::size_t kMostFilters = 3;
/// Deflate makes at most so many bytes of one.
constexpr Hdf5Size kMostInflated = 1032;

struct Filter {
  H5Z_filter_t id = 0;
  std::size_t input = 0;  // bytes it was given; 0: behind deflate, which makes any number
};

/// Every link on the way must be one of this file's own: others lead into other files, or around in circles.
void need_hard_links(const H5::H5File& file, const std::string& path) {
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    H5L_info_t link;
    check_hdf5(H5Lget_info(file.getId(), part.c_str(), &link, H5P_DEFAULT), "H5Lget_info");
    if (link.type != H5L_TYPE_HARD) throw Error(part + " is a link, which no trace has");
    if (end == std::string::npos) return;
  }
}

struct FreeDecompressor {
  void operator()(libdeflate_decompressor* decompressor) const { libdeflate_free_decompressor(decompressor); }
};

void inflate_exactly(std::span<const unsigned char> from, std::span<unsigned char> to) {
  thread_local const std::unique_ptr<libdeflate_decompressor, FreeDecompressor> decompressor(
      libdeflate_alloc_decompressor());
  if (!decompressor) throw std::bad_alloc();
  // Without a place for the length, libdeflate fails unless it is exactly this one.
  if (libdeflate_zlib_decompress(decompressor.get(), from.data(), from.size(), to.data(), to.size(), nullptr) !=
      LIBDEFLATE_SUCCESS)
    throw Error("a chunk does not inflate to its length");
}

/// Byte 0 of all elements, then byte 1 of all, ... back into elements. Bytes that do not fill an element are at the
/// end.
void unshuffle(std::span<const unsigned char> from, std::size_t width, unsigned char* to) {
  const std::size_t count = from.size() / width;
  if (width == sizeof(std::uint64_t)) {
    unshuffle_numbers(from.first(count * width), std::as_writable_bytes(std::span(to, count * width)));
  } else {
    for (std::size_t byte = 0; byte < width; ++byte) {
      for (std::size_t i = 0; i < count; ++i) to[i * width + byte] = from[byte * count + i];
    }
  }
  std::copy(from.begin() + static_cast<std::ptrdiff_t>(count * width), from.end(), to + count * width);
}

/// The bytes that the checksum at the end covers. Throws Error if the checksum differs.
/// https://docs.hdfgroup.org/hdf5/v1_14/_f_m_t3.html
std::span<const unsigned char> checked(std::span<const unsigned char> bytes) {
  if (bytes.size() < kChecksumBytes) throw Error("a chunk is too short for its checksum");
  const auto rest = bytes.first(bytes.size() - kChecksumBytes);
  if (fletcher32(rest) != checksum_of(bytes)) throw Error("the checksum of a chunk is wrong");
  return rest;
}

bool points_elsewhere(const H5::DataType& type) {
  return H5Tdetect_class(type.getId(), H5T_VLEN) != 0 || H5Tdetect_class(type.getId(), H5T_REFERENCE) != 0 ||
         H5Tis_variable_str(type.getId()) != 0;
}

/// Bytes of the chunk in the file; 0: it is not stored.
hsize_t stored_bytes(const H5::DataSet& dataset, const hsize_t* offset) {
  hsize_t bytes = 0;
  if (H5Dget_chunk_storage_size(dataset.getId(), offset, &bytes) >= 0) return bytes;
  // HDF5 1.10 fails for a chunk that was never written; later versions return 0. Damage has other reasons.
  // https://docs.hdfgroup.org/hdf5/v1_14/group___h5_d.html (H5Dget_chunk_storage_size)
  if (last_hdf5_reason() == "chunk storage is not allocated") return 0;
  throw H5::Exception("H5Dget_chunk_storage_size");
}

/// The same of a dataset without filters, where H5Dget_chunk_storage_size gives the length that a chunk ought to have,
/// and H5Dread_chunk reads the one that the file states.
hsize_t unfiltered_bytes(const H5::DataSet& dataset, const hsize_t* offset) {
  unsigned skipped = 0;
  haddr_t address = 0;
  hsize_t bytes = 0;
  check_hdf5(H5Dget_chunk_info_by_coord(dataset.getId(), offset, &skipped, &address, &bytes),
             "H5Dget_chunk_info_by_coord");
  return address == HADDR_UNDEF ? 0 : bytes;
}

/// Reused by each thread; a chunk of a trace is a megabyte.
ByteBuffer& scratch(int which) {
  thread_local ByteBuffer buffers[2];
  return buffers[which];
}

}  // namespace

struct CheckedDataset::Impl {
  enum class Holds : std::uint8_t { other, int64, float64, text };
  static Holds kind_of(hid_t type) {
    if (H5Tequal(type, H5T_STD_I64LE) > 0) return Holds::int64;
    if (H5Tequal(type, H5T_IEEE_F64LE) > 0) return Holds::float64;
    return H5Tget_class(type) == H5T_STRING ? Holds::text : Holds::other;
  }

  H5::DataSet dataset;
  H5::DataType type;
  Holds holds = Holds::other;
  std::size_t width = 0;
  std::size_t rank = 0;
  hsize_t extent[2] = {0, 0};
  hsize_t chunk[2] = {0, 0};
  std::size_t chunk_bytes = 0;  // 0: not in chunks
  std::vector<Filter> filters;

  void check_layout();
  void check_filters(const H5::DSetCreatPropList& created);
  bool load(const hsize_t* offset, ByteBuffer& stored, std::uint32_t& skipped) const;
  /// Undoes the filters, except for shuffling where that is the last step: returns whether it is left to be undone.
  bool decode(std::span<const unsigned char> stored, std::uint32_t skipped, ByteBuffer& bytes) const;
  void unshuffle_whole(std::span<const unsigned char>& from, ByteBuffer& bytes) const;
  /// Negative if there is none.
  [[nodiscard]] int member_if_any(const char* name) const;
  [[nodiscard]] std::size_t member(const char* name) const;
};

CheckedDataset::CheckedDataset(const H5::H5File& file, const std::string& path) {
  const Hdf5Access access;
  // A local is destroyed before `access`, a member after it: where this throws, its objects are closed under the lock.
  auto impl = std::make_unique<Impl>();
  need_hard_links(file, path);
  impl->dataset = file.openDataSet(path, access_without_cache());
  impl->type = H5::DataType(H5Dget_type(impl->dataset.getId()));
  H5Idec_ref(impl->type.getId());  // the object holds its own reference
  impl->width = impl->type.getSize();
  if (points_elsewhere(impl->type)) throw Error("elements of variable length, which no trace has");
  impl->holds = Impl::kind_of(impl->type.getId());
  impl->check_layout();
  impl_ = std::move(impl);
}

CheckedDataset::~CheckedDataset() {  // NOLINT(bugprone-exception-escape): possible failures are in the constructor
  const Hdf5Access access;
  impl_.reset();
}
CheckedDataset::CheckedDataset(CheckedDataset&&) noexcept = default;

void CheckedDataset::Impl::check_layout() {
  const H5::DSetCreatPropList created = dataset.getCreatePlist();
  const H5D_layout_t layout = created.getLayout();
  // First of all: a virtual dataset opens its sources to determine its size.
  if (layout == H5D_VIRTUAL || H5Pget_external_count(created.getId()) != 0)
    throw Error("its data is in another file, which no trace has");
  if (layout != H5D_CHUNKED && layout != H5D_CONTIGUOUS && layout != H5D_COMPACT) throw Error("an unknown layout");
  const H5::DataSpace space = dataset.getSpace();
  const int dimensions = space.getSimpleExtentNdims();
  if (dimensions < 1 || dimensions > 2) throw Error("has the wrong shape");
  rank = static_cast<std::size_t>(dimensions);
  space.getSimpleExtentDims(extent);
  if (width == 0 || width > kLargestChunk) throw Error("its elements are too large");
  if (layout != H5D_CHUNKED) return;
  if (created.getChunk(dimensions, chunk) != dimensions) throw Error("has the wrong shape");
  chunk_bytes = width;
  for (std::size_t i = 0; i < rank; ++i) {
    if (chunk[i] == 0 || chunk[i] > kLargestChunk / chunk_bytes) throw Error("its chunks are too large");
    chunk_bytes *= chunk[i];
  }
  check_filters(created);
}

void CheckedDataset::Impl::check_filters(const H5::DSetCreatPropList& created) {
  const int count = created.getNfilters();
  if (count < 0 || count > static_cast<int>(kMostFilters)) throw Error("has too many filters");
  std::size_t input = chunk_bytes;
  for (int i = 0; i < count; ++i) {
    unsigned flags = 0;
    unsigned values[4] = {};
    std::size_t value_count = std::size(values);
    unsigned config = 0;
    const H5Z_filter_t id =
        H5Pget_filter2(created.getId(), static_cast<unsigned>(i), &flags, &value_count, values, 0, nullptr, &config);
    check_hdf5(id, "H5Pget_filter2");
    const auto same = [id](const Filter& filter) { return filter.id == id; };
    const bool known = id == H5Z_FILTER_SHUFFLE || id == H5Z_FILTER_DEFLATE || id == H5Z_FILTER_FLETCHER32;
    if (!known || std::any_of(filters.begin(), filters.end(), same) || (input == 0 && id != H5Z_FILTER_FLETCHER32) ||
        (id == H5Z_FILTER_SHUFFLE && (value_count < 1 || values[0] != width)))
      throw Error("HDF5 filter " + std::to_string(id) + ", which no trace has (shuffle, deflate, fletcher32)");
    filters.push_back({id, input});
    if (id == H5Z_FILTER_DEFLATE) input = 0;
    if (id == H5Z_FILTER_FLETCHER32 && input > 0) input += kChecksumBytes;
  }
}

/// The chunk as it is stored.
bool CheckedDataset::Impl::load(const hsize_t* offset, ByteBuffer& stored, std::uint32_t& skipped) const {
  const Hdf5Access access;
  const hsize_t bytes = filters.empty() ? unfiltered_bytes(dataset, offset) : stored_bytes(dataset, offset);
  if (bytes == 0) return false;
  if (filters.empty() && bytes != chunk_bytes) throw Error("a chunk has the wrong length");
  // Deflate makes incompressible data a little longer.
  if (bytes > chunk_bytes + chunk_bytes / 8 + 1024) throw Error("a chunk is longer than it can be");
  stored.resize(bytes);
  check_hdf5(H5Dread_chunk(dataset.getId(), H5P_DEFAULT, offset, &skipped, stored.data()), "H5Dread_chunk");
  return true;
}

bool CheckedDataset::Impl::decode(std::span<const unsigned char> stored, std::uint32_t skipped,
                                  ByteBuffer& bytes) const {
  std::size_t undone_last = 0;
  while (undone_last < filters.size() && (skipped >> undone_last & 1) != 0) ++undone_last;
  bool shuffled = false;
  for (std::size_t i = filters.size(); i-- > 0;) {
    if ((skipped >> i & 1) != 0) continue;
    switch (filters[i].id) {
      case H5Z_FILTER_FLETCHER32:
        stored = checked(stored);
        break;
      case H5Z_FILTER_DEFLATE:  // comes before unshuffling (check_filters), so that `stored` is not in `bytes` yet
        bytes.resize(filters[i].input);
        inflate_exactly(stored, bytes);
        stored = bytes;
        break;
      default:
        shuffled = i == undone_last;
        if (!shuffled) unshuffle_whole(stored, bytes);
    }
  }
  if (stored.size() != chunk_bytes) throw Error("a chunk has the wrong length");
  if (stored.data() == bytes.data()) {
    bytes.resize(chunk_bytes);  // without a checksum that was shuffled with them
  } else {
    bytes.assign(stored.begin(), stored.end());
  }
  return shuffled;
}

/// `from` points into `bytes` afterwards, and may do so before.
void CheckedDataset::Impl::unshuffle_whole(std::span<const unsigned char>& from, ByteBuffer& bytes) const {
  bytes.swap(scratch(1));
  bytes.resize(from.size());
  unshuffle(from, width, bytes.data());
  from = bytes;
}

std::span<const Hdf5Size> CheckedDataset::extent() const noexcept {
  return {impl_->extent, impl_->rank};
}
std::span<const Hdf5Size> CheckedDataset::chunk() const noexcept {
  return {impl_->chunk, impl_->chunk_bytes > 0 ? impl_->rank : 0};
}
std::size_t CheckedDataset::width() const noexcept {
  return impl_->width;
}
bool CheckedDataset::holds_int64() const noexcept {
  return impl_->holds == Impl::Holds::int64;
}
bool CheckedDataset::holds_float64() const noexcept {
  return impl_->holds == Impl::Holds::float64;
}
bool CheckedDataset::holds_text() const noexcept {
  return impl_->holds == Impl::Holds::text;
}
const H5::DataSet& CheckedDataset::dataset() const noexcept {
  return impl_->dataset;
}

int CheckedDataset::Impl::member_if_any(const char* name) const {
  return H5Tget_class(type.getId()) == H5T_COMPOUND ? H5Tget_member_index(type.getId(), name) : -1;
}

std::size_t CheckedDataset::Impl::member(const char* name) const {
  const int index = member_if_any(name);
  if (index < 0) throw Error(std::string("has no column \"") + name + "\"");
  return static_cast<std::size_t>(index);
}

bool CheckedDataset::has_column(const char* name) const {
  const Hdf5Access access;
  return impl_->member_if_any(name) >= 0;
}

CheckedDataset::Column CheckedDataset::text_column(const char* name) const {
  const Hdf5Access access;
  const auto index = static_cast<unsigned>(impl_->member(name));
  const hid_t id = impl_->type.getId();
  if (H5Tget_member_class(id, index) != H5T_STRING) throw Error(std::string("column \"") + name + "\" is no text");
  const hid_t text = H5Tget_member_type(id, index);
  const std::size_t width = H5Tget_size(text);
  H5Tclose(text);
  return {H5Tget_member_offset(id, index), width};
}

CheckedDataset::Column CheckedDataset::int64_column(const char* name) const {
  const Hdf5Access access;
  const auto index = static_cast<unsigned>(impl_->member(name));
  const hid_t id = impl_->type.getId();
  const hid_t number = H5Tget_member_type(id, index);
  const bool right = H5Tequal(number, H5T_STD_I64LE) > 0;
  H5Tclose(number);
  if (!right) throw Error(std::string("column \"") + name + "\" is not a 64-bit number");
  return {H5Tget_member_offset(id, index), sizeof(std::int64_t)};
}

std::vector<char> CheckedDataset::read(Hdf5Size length) const {
  std::vector<char> elements;
  read(length, [&](std::span<const char> piece) {
    if (elements.empty()) elements.reserve(length * impl_->width);
    elements.insert(elements.end(), piece.begin(), piece.end());
  });
  return elements;
}

void CheckedDataset::read(Hdf5Size length, const std::function<void(std::span<const char>)>& take) const {
  if (impl_->rank != 1) throw Error("has the wrong shape");
  if (length > impl_->extent[0]) throw Error("is shorter than it should be");
  if (length == 0) return;
  const std::size_t width = impl_->width;
  {
    const Hdf5Access access;
    const hsize_t stored = impl_->dataset.getStorageSize();
    const hsize_t most = impl_->filters.empty() ? stored : stored * kMostInflated;
    if (length > most / width) throw Error("claims to be longer than the file");
  }
  if (impl_->chunk_bytes == 0) {
    const Hdf5Access access;
    const hsize_t first = 0;
    std::vector<char> elements(length * width);
    H5::DataSpace space = impl_->dataset.getSpace();
    space.selectHyperslab(H5S_SELECT_SET, &length, &first);
    impl_->dataset.read(elements.data(), impl_->type, H5::DataSpace(1, &length), space);
    take(elements);
    return;
  }
  ByteBuffer bytes;
  for (hsize_t first = 0; first < length; first += impl_->chunk[0]) {
    if (!read_chunk(&first, bytes)) throw Error("a part of it is missing");
    const std::span<const unsigned char> rows =
        std::span(bytes).first(std::min(impl_->chunk[0], length - first) * width);
    take({reinterpret_cast<const char*>(rows.data()), rows.size()});
  }
}

bool CheckedDataset::read_chunk(const Hdf5Size* offset, ByteBuffer& bytes) const {
  ByteBuffer& stored = scratch(0);
  std::uint32_t skipped = 0;
  if (!impl_->load(offset, stored, skipped)) return false;
  if (impl_->decode(stored, skipped, bytes)) {
    std::span<const unsigned char> shuffled = bytes;
    impl_->unshuffle_whole(shuffled, bytes);
  }
  return true;
}

void CheckedDataset::read_numbers(const Hdf5Size* offset, NumberChunk& chunk) const {
  if (impl_->width != sizeof(std::int64_t)) throw Error("its values have the wrong type");
  ByteBuffer& stored = scratch(0);
  std::uint32_t skipped = 0;
  if (impl_->load(offset, stored, skipped)) {
    chunk.shuffled = impl_->decode(stored, skipped, chunk.bytes);
  } else {
    chunk.bytes.clear();
  }
}

bool CheckedDataset::has_checksums() const noexcept {
  return !impl_->filters.empty() && impl_->filters.back().id == H5Z_FILTER_FLETCHER32;
}

std::optional<std::uint32_t> CheckedDataset::checksum(const Hdf5Size* offset) const {
  ByteBuffer& stored = scratch(0);
  std::uint32_t skipped = 0;
  if (!impl_->load(offset, stored, skipped)) return std::nullopt;
  if (!has_checksums() || (skipped >> (impl_->filters.size() - 1) & 1) != 0) throw Error("a chunk has no checksum");
  static_cast<void>(checked(stored));
  return checksum_of(stored);
}

CheckedDataset::Chunk CheckedDataset::state(const Hdf5Size* offset) const noexcept {
  try {
    ByteBuffer& stored = scratch(0);
    std::uint32_t skipped = 0;
    if (!impl_->load(offset, stored, skipped)) return Chunk::absent;
    if (has_checksums()) static_cast<void>(checked(stored));
    return Chunk::whole;
  } catch (...) {
    return Chunk::broken;
  }
}

}  // namespace reveal
