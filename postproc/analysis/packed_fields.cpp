#include "postproc/analysis/packed_fields.h"

namespace reveal {
namespace {

constexpr unsigned kBitsOfByte = 7;  // each byte has so many bits of a number, the lowest first
constexpr unsigned kByteGoesOn = 1U << kBitsOfByte;
constexpr std::size_t kMostTexts = 1 << 21;  // an empty text takes one byte here, and 40 in memory

void append_packed(std::uint64_t number, std::string& bytes) {
  for (; number >= kByteGoesOn; number >>= kBitsOfByte)
    bytes += static_cast<char>((number & (kByteGoesOn - 1)) | kByteGoesOn);
  bytes += static_cast<char>(number);
}

[[noreturn]] void refuse_packed() {
  throw Error("it is damaged or cut off");
}

std::uint64_t take_packed(std::string_view& bytes) {
  std::uint64_t number = 0;
  for (unsigned shift = 0; !bytes.empty() && shift < 64; shift += kBitsOfByte) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    number |= std::uint64_t{byte & (kByteGoesOn - 1)} << shift;
    if (byte < kByteGoesOn) return number;
  }
  refuse_packed();
}

}  // namespace

void PackedWriter::put_number(std::uint64_t number) {
  append_packed(number, bytes_);
}

void PackedWriter::put_text(std::string_view text) {
  auto known = places_.find(text);
  if (known == places_.end()) {
    if (texts_.size() >= kMostTexts) throw Error("too many nodes for one part: take more parts");
    known = places_.emplace(text, texts_.size()).first;
    texts_.push_back(&known->first);
  }
  put_number(known->second);
}

std::string PackedWriter::texts() const {
  std::string packed;
  for (const std::string* text : texts_) {
    append_packed(text->size(), packed);
    packed += *text;
  }
  return packed;
}

PackedTexts::PackedTexts(std::string_view packed) {
  while (!packed.empty()) {
    const std::uint64_t size = take_packed(packed);
    if (size > packed.size() || texts_.size() >= kMostTexts) refuse_packed();
    texts_.push_back(packed.substr(0, static_cast<std::size_t>(size)));
    packed.remove_prefix(static_cast<std::size_t>(size));
  }
  shared_.resize(texts_.size());
}

SharedText PackedTexts::shared(std::size_t place) {
  SharedText& text = shared_.at(place);
  if (text.empty()) text = texts_.at(place);
  return text;
}

void PackedReader::refuse() {
  refuse_packed();
}

std::uint8_t PackedReader::byte() {
  if (rest_.empty()) refuse();
  const auto byte = static_cast<std::uint8_t>(rest_.front());
  rest_.remove_prefix(1);
  return byte;
}

std::uint64_t PackedReader::number() {
  return take_packed(rest_);
}

std::size_t PackedReader::text_place() {
  const std::uint64_t place = number();
  if (place >= texts_.size()) refuse();
  return static_cast<std::size_t>(place);
}

void PackedReader::get_raw(void* to, std::size_t size) {
  if (size > rest_.size()) refuse();
  if (size > 0) std::memcpy(to, rest_.data(), size);
  rest_.remove_prefix(size);
}

void PackedReader::dictionary(std::string_view /*key*/, std::map<std::string, double>& values) {
  const std::uint64_t count = number();
  if (count > rest_.size()) refuse();
  for (std::uint64_t i = 0; i < count; ++i) {
    std::string name;
    get(name);
    spend(sizeof(std::map<std::string, double>::value_type));
    get(values[name]);
  }
}

}  // namespace reveal
