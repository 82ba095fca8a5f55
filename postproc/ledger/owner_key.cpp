#include "postproc/ledger/owner_key.h"

#include <spdlog/fmt/fmt.h>
#include <sys/random.h>
#include <unistd.h>

#include <bit>
#include <cerrno>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/basics/private_files.h"
#include "postproc/diagnose/analysis_settings.h"

namespace reveal {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestKey = 64;

struct SipState {
  std::uint64_t a, b, c, d;

  void rounds(int count) noexcept {
    for (int i = 0; i < count; ++i) {
      a += b;
      c += d;
      b = std::rotl(b, 13) ^ a;
      d = std::rotl(d, 16) ^ c;
      a = std::rotl(a, 32);
      c += b;
      a += d;
      b = std::rotl(b, 17) ^ c;
      d = std::rotl(d, 21) ^ a;
      c = std::rotl(c, 32);
    }
  }
  void add(std::uint64_t word) noexcept {
    d ^= word;
    rounds(2);
    a ^= word;
  }
};

/// At most eight letters, the first one in the lowest byte.
std::uint64_t sip_word(std::string_view letters) noexcept {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < letters.size(); ++i) {
    word |= std::uint64_t{static_cast<unsigned char>(letters[i])} << (8 * i);
  }
  return word;
}

std::array<std::uint64_t, 2> random_key() {
  std::array<std::uint64_t, 2> key{};
  if (::getrandom(key.data(), sizeof key, 0) != sizeof key) throw system_error("getrandom", errno);
  return key;
}

std::string key_text(const std::array<std::uint64_t, 2>& key) {
  return fmt::format("{:016x}{:016x}\n", key[0], key[1]);
}

std::array<std::uint64_t, 2> parse_key(const std::string& text, const fs::path& file) {
  std::array<std::uint64_t, 2> key{};
  constexpr std::string_view kHexDigits = "0123456789abcdef";
  if (text.size() != 33 || text.find_first_not_of(kHexDigits) != 32) throw Error(file.string() + ": no key");
  for (std::size_t i = 0; i < 32; ++i) key[i / 16] = key[i / 16] << 4 | kHexDigits.find(text[i]);
  return key;
}

}  // namespace

std::uint64_t sip_hash(const std::array<std::uint64_t, 2>& key, std::string_view text) noexcept {
  SipState state{key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d, key[0] ^ 0x6c7967656e657261,
                 key[1] ^ 0x7465646279746573};
  const std::size_t whole = text.size() / 8 * 8;
  for (std::size_t at = 0; at < whole; at += 8) state.add(sip_word(text.substr(at, 8)));
  state.add(sip_word(text.substr(whole)) | std::uint64_t{text.size()} << 56);
  state.c ^= 0xff;
  state.rounds(4);
  return state.a ^ state.b ^ state.c ^ state.d;
}

std::string hash_of_owner(unsigned uid) {
  return text_hash(fmt::format("owner of reports {}", uid));
}

OwnerKey::OwnerKey() : key_(random_key()) {}

OwnerKey OwnerKey::beside(const fs::path& ledger) {
  const fs::path directory = ledger.has_parent_path() ? ledger.parent_path() : ".";
  const std::string name = ledger.filename().string() + ".key";
  OwnerKey key;
  std::error_code error;
  if (!fs::exists(fs::symlink_status(directory / name, error))) {
    NewFile file(directory, name, fmt::format(".{}.{}", name, ::getpid()), 0600);
    file.write(key_text(key.key_));
    if (file.publish_as(name)) return key;
  }
  key.key_ = parse_key(read_text_file(directory / name, kLargestKey, FileOf::ours), directory / name);
  key.new_ = false;
  return key;
}

std::string OwnerKey::pseudonym(unsigned uid) const {
  return pseudonym_of_hash(hash_of_owner(uid));
}

std::string OwnerKey::pseudonym_of_hash(const std::string& hash) const {
  return fmt::format("{:016x}", sip_hash(key_, hash));
}

}  // namespace reveal
