// Directories and files of one user, made in places where others may have put links.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "hdf5schema/basics/descriptor.h"

namespace reveal {

/// The path without slashes at its end: with one, open() follows a link in spite of O_NOFOLLOW.
[[nodiscard]] std::string without_slash(std::string path);

/// Requirements for a directory of this user that already exists.
enum class Privacy : std::uint8_t {
  others_do_not_write,  // in the user's own places, where links are the user's choice
  others_do_not_enter   // and no link: where any user may make names
};

/// Makes `path` (mode 0700) and missing parents. Throws Error if it cannot be made or is not private.
void make_private_directory(const std::string& path, Privacy privacy);

/// Throws Error if the open directory `folder`, of the name `path`, is not private.
void require_private_directory(int folder, const std::string& path, Privacy privacy);

/// The same, opened, but made in a directory that is there, and through no link to one.
[[nodiscard]] Descriptor open_private_directory(const std::string& path);

/// The first of PATH, PATH.1, PATH.2, ... that others_do_not_enter, or can be made one. In /tmp any user may take a
/// name first, and keep it. All processes of a user on a node get the same. Throws Error.
[[nodiscard]] std::string private_directory(const std::string& path);
/// The same, but makes none: "" if this user has none yet.
[[nodiscard]] std::string existing_private_directory(const std::string& path);

/// Throws Error if no file can be written there.
void require_writable(const std::string& path);

/// The parts of a file that are on the disk when a call returns: none for sure, its content, or also its name.
enum class Synced : std::uint8_t { no, content, yes };

/// A file that stands under its name whole or not at all: written under a hidden name in the same directory, and never
/// through a link of another user. Every call may throw Error, which names the file.
class NewFile {
 public:
  /// `hidden`: its name until publish(); a file of this name that was left behind is removed.
  NewFile(const std::filesystem::path& directory, std::string name, std::string hidden, mode_t mode = 0666);
  /// The same in a directory that is open and stays open as long; `directory` is its name for messages.
  NewFile(int folder, const std::filesystem::path& directory, std::string name, std::string hidden, mode_t mode = 0666);
  ~NewFile();  // removes the file if it was not published
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  [[nodiscard]] int descriptor() const noexcept { return file_; }
  void write(std::string_view content);
  /// It is whole; publish() only has to name it then.
  void close(Synced synced);
  void publish(Synced synced);
  /// The same with its content on the disk, under another name, and in place of no other file: false if there is one;
  /// then it can be tried again with another name.
  [[nodiscard]] bool publish_as(const std::string& name);

 private:
  void create(mode_t mode);

  std::string place_, name_, hidden_;
  Descriptor own_folder_;  // where it was opened here
  int folder_;
  int file_ = -1;
  bool hidden_there_ = false;
};

/// Writes `content` to directory/name as a NewFile, readable only by its owner unless `mode` is given. Throws Error;
/// nothing is written into a directory of another user.
void publish_file(const std::filesystem::path& directory, const std::string& name, std::string_view content,
                  Synced synced = Synced::no, mode_t mode = 0600);

/// Throws Error if the names in it cannot be brought to the disk.
void sync_directory(const std::filesystem::path& directory);
void sync_directory(int folder, const std::filesystem::path& directory);

/// Copies `from`, with its time of modification, into the open directory `folder`; `directory` is its name. The content
/// is on the disk then, the name is after sync_directory(). Throws Error.
void copy_over(const std::filesystem::path& from, int folder, const std::filesystem::path& directory,
               const std::string& name);
/// The same without the last step: publish() names it. Meanwhile, other processes may bring files of that name.
[[nodiscard]] std::unique_ptr<NewFile> copy_aside(const std::filesystem::path& from, int folder,
                                                  const std::filesystem::path& directory, const std::string& name);
/// The same in place of no other file: under the first of the names `name(1)`, `name(2)`, ... that is free. Returns
/// that name.
[[nodiscard]] std::string copy_new(const std::filesystem::path& from, int folder,
                                   const std::filesystem::path& directory, const std::function<std::string(int)>& name);

/// Across file systems, with its time of modification; `to` appears whole and is on the disk before `from` goes. Throws
/// Error; `from` then stays. Returns why `from` could not be removed, "" if it was.
[[nodiscard]] std::string move_file(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace reveal
