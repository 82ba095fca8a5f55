// A private directory for the files of one command, removed at its end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace reveal {

class ScratchDirectory {
 public:
  enum class Place : std::uint8_t {
    temporary,  // on this node
    with_room,  // likewise, and elsewhere where the directory for temporary files is full
    current     // below the current directory, which the nodes of a cluster see
  };
  /// Its name has the `use` in it: "check". Throws Error.
  explicit ScratchDirectory(const std::string& use, Place place = Place::temporary);
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  void keep() { kept_ = true; }
  [[nodiscard]] bool kept() const { return kept_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  /// Whether the directory has the name of one of this use in the current directory.
  [[nodiscard]] static bool is_one(const std::filesystem::path& directory, const std::string& use);

 private:
  std::filesystem::path path_;
  Place place_;
  bool kept_ = false;
};

}  // namespace reveal
