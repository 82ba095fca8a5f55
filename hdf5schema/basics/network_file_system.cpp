#include "hdf5schema/basics/network_file_system.h"

#include <sys/statfs.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace reveal {
namespace {

/// f_type of statfs(2).
constexpr std::uint32_t kNetworkFileSystems[] = {
    0x00006969,  // NFS
    0x0000517B,  // SMB
    0xFE534D42,  // SMB2
    0xFF534D42,  // CIFS
    0x0BD00BD0,  // Lustre
    0x47504653,  // GPFS
    0x19830326,  // BeeGFS
    0x00C36400,  // Ceph
    0xAAD7AAEA,  // PanFS
    0x5346414F,  // AFS
    0x01021997,  // 9p
    0x65735546,  // FUSE: sshfs, glusterfs, ...
};

}  // namespace

bool is_on_network(const std::string& path) {
  struct statfs status {};
  if (::statfs(path.c_str(), &status) != 0) return false;
  const auto type = static_cast<std::uint32_t>(status.f_type);
  return std::find(std::begin(kNetworkFileSystems), std::end(kNetworkFileSystems), type) !=
         std::end(kNetworkFileSystems);
}

}  // namespace reveal
