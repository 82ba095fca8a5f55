// https://pubs.opengroup.org/onlinepubs/9699919799/utilities/pax.html#tag_20_92_13_06 (ustar interchange format)
#include "postproc/deliver/tar_file.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "hdf5schema/basics/error.h"

namespace reveal {
namespace {

constexpr std::size_t kTarBlock = 512;

struct TarHeader {
  std::array<char, 100> name{};
  std::array<char, 8> mode{}, uid{}, gid{};
  std::array<char, 12> size{}, time{};
  std::array<char, 8> checksum{};
  char type = '0';  // a regular file
  std::array<char, 100> link{};
  std::array<char, 8> format{'u', 's', 't', 'a', 'r', '\0', '0', '0'};
  std::array<char, 32> user{}, group{};
  std::array<char, 8> major{}, minor{};
  std::array<char, 167> rest{};
};
static_assert(sizeof(TarHeader) == kTarBlock);

/// Octal digits, with zeros before them, and a zero byte.
template <std::size_t Size>
void set_octal(std::array<char, Size>& field, std::uint64_t number) {
  field.back() = '\0';
  for (std::size_t i = Size - 1; i-- > 0; number /= 8) field[i] = static_cast<char>('0' + number % 8);
}

std::string tar_header(const ArchivedFile& file, std::int64_t utc_seconds) {
  TarHeader header;
  if (file.name.size() > header.name.size()) throw Error(file.name + ": the name is too long for an archive");
  std::copy(file.name.begin(), file.name.end(), header.name.begin());
  set_octal(header.mode, 0600);
  set_octal(header.uid, 0);
  set_octal(header.gid, 0);
  set_octal(header.size, file.text.size());
  set_octal(header.time, static_cast<std::uint64_t>(std::max<std::int64_t>(utc_seconds, 0)));
  header.checksum.fill(' ');  // while it is computed
  std::string bytes(kTarBlock, '\0');
  std::memcpy(bytes.data(), &header, kTarBlock);
  std::uint64_t sum = 0;
  for (const char byte : bytes) sum += static_cast<unsigned char>(byte);
  set_octal(header.checksum, sum);
  std::memcpy(bytes.data(), &header, kTarBlock);
  return bytes;
}

}  // namespace

std::string tar_file(const std::vector<ArchivedFile>& files, std::int64_t utc_seconds) {
  std::string archive;
  for (const ArchivedFile& file : files) {
    archive += tar_header(file, utc_seconds) + file.text;
    archive.append((kTarBlock - file.text.size() % kTarBlock) % kTarBlock, '\0');
  }
  return archive.append(2 * kTarBlock, '\0');
}

}  // namespace reveal
