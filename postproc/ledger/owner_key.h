// Pseudonyms of the owners of jobs in a ledger: they show whether jobs belong to different users. A hash of a user id
// alone could be reversed by trying all ids, so a secret key beside the ledger goes into it.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace reveal {

/// SipHash-2-4, a hash that nobody can compute without its key. https://www.aumasson.jp/siphash/siphash.pdf
[[nodiscard]] std::uint64_t sip_hash(const std::array<std::uint64_t, 2>& key, std::string_view text) noexcept;

/// The part of a pseudonym that needs no key: the same for a user on all nodes.
[[nodiscard]] std::string hash_of_owner(unsigned uid);

class OwnerKey {
 public:
  /// A new key, for this process alone.
  OwnerKey();
  /// The key in `ledger`.key (mode 0600), which is made where there is none. Throws Error.
  [[nodiscard]] static OwnerKey beside(const std::filesystem::path& ledger);
  /// Whether beside() made it: then the ledger has the hashes of an earlier version.
  [[nodiscard]] bool is_new() const noexcept { return new_; }

  [[nodiscard]] std::string pseudonym(unsigned uid) const;
  /// The same from hash_of_owner(), which the ledger of a node has.
  [[nodiscard]] std::string pseudonym_of_hash(const std::string& hash) const;

 private:
  std::array<std::uint64_t, 2> key_{};
  bool new_ = true;
};

}  // namespace reveal
