// The private directory that counts mails and keeps those that failed: small files, shared by any number of nodes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hdf5schema/basics/descriptor.h"

namespace reveal {

class StateFolder {
 public:
  /// Makes the directory (mode 0700) if it is missing. Throws Error if it is a link, somebody else's, or can be written
  /// by others.
  explicit StateFolder(const std::string& directory);

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] std::string path_of(const std::string& name) const { return path_ + "/" + name; }
  [[nodiscard]] int descriptor() const noexcept { return folder_.get(); }
  /// In order.
  [[nodiscard]] std::vector<std::string> names(std::string_view beginning) const;
  void remove(const std::string& name) const noexcept;

 private:
  std::string path_;
  Descriptor folder_;
};

}  // namespace reveal
