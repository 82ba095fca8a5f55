// Replaces names in texts that leave the site: users, hosts, directories, addresses and values of the environment. The
// same name always becomes the same placeholder (user1, path2), so that the texts can still be read together.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reveal {

/// Names are the same whatever the case of their letters.
[[nodiscard]] std::string in_lower_case(std::string_view text);

class Redaction {
 public:
  enum class Kind : std::uint8_t { user, host, path, address, value };

  /// This name is replaced wherever it stands as a word, in upper or lower case; a directory with everything below it.
  /// Names of one character and those that every machine has (root, localhost) stay.
  void add(Kind kind, std::string_view name);

  /// Paths outside of the directories of the system and addresses are replaced, although nobody added them.
  [[nodiscard]] std::string redacted(std::string_view text);

  /// "2 users, 1 host": the different names that were replaced; "nothing".
  [[nodiscard]] std::string replaced() const;

 private:
  struct Known {
    Kind kind = Kind::value;
    std::string name;
  };
  struct Match {
    Kind kind = Kind::value;
    std::size_t length = 0;  // 0: none
  };
  [[nodiscard]] Match known_at(std::string_view text, std::size_t at) const;
  [[nodiscard]] Match match_at(std::string_view text, std::size_t at) const;
  std::string placeholder(Kind kind, std::string_view name);

  std::vector<Known> known_;  // the longest first
  std::map<std::pair<Kind, std::string>, std::size_t> numbers_;
  std::array<std::size_t, 5> counts_{};  // by kind
};

}  // namespace reveal
